"""The files of the repository, for the checks in this folder."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def files(root: Path = ROOT) -> list[Path]:
    """Every tracked or addable file, sorted."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    ).stdout.decode()
    paths = (root / name for name in sorted(filter(None, listing.split("\0"))))
    return [path for path in paths if path.is_file()]
