"""Make the environment of `make clients`: the packages of the extra `clients` on top of this one's.

usage: make_clients_env.py FOLDER

Nothing is installed into the environment that runs this. Where the packages cannot be installed,
there is no folder, a note and no error.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def requirements() -> str:
    command = [sys.executable, str(ROOT / "scripts" / "requirements.py"), "clients"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def make(folder: Path) -> bool:
    """Whether all packages could be installed."""
    venv.EnvBuilder(clear=True, symlinks=True).create(folder)
    python = folder / "bin" / "python"
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run(
        [str(python), "-c", query], check=True, capture_output=True, text=True
    )
    # Found after the environment's own packages: what is here already is not installed again.
    below = Path(packages.stdout.strip()) / "below.pth"
    below.write_text(
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n", encoding="utf-8"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write(requirements())
        listed.flush()
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
        command = [*pip, "install", "-q", "--no-compile", "--no-warn-conflicts", "-r", listed.name]
        return subprocess.run(command, check=False).returncode == 0


def main() -> int:
    folder = Path(sys.argv[1])
    if not make(folder):
        shutil.rmtree(folder)
        print("note: scikit-learn, Dask, xarray, ... could not be installed; going on without")
    return 0


if __name__ == "__main__":
    sys.exit(main())
