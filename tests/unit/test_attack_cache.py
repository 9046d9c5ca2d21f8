"""The kernel cache under attack by someone who can write near it: foreign bytes are never run.

The poison is an entry that is right in every byte (magic, key, checksum) but for the kernel, so
only the rules about who wrote it keep it out.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

import pytest

from pygpukit import _native
from pygpukit.dispatch import ArchFingerprint, PersistentCache, PersistentCacheConfig

if sys.platform == "win32":
    pytest.skip("owners and modes of POSIX", allow_module_level=True)
pytestmark = pytest.mark.skipif(
    not _native.nvrtc_info()["available"], reason="NVRTC is not installed"
)

STRANGER = 12345
ROOT = os.geteuid() == 0
root_only = pytest.mark.skipif(not ROOT, reason="only root can give files away")

COMPILE = """
from pygpukit import _native
def number():
    ptx, _ = _native.compile_to_ptx("__global__ void f(int* x) { *x = 4242; }")
    return next(n for n in ("4242", "6666") if n in ptx)
"""


def run(folder: pathlib.Path | str, program: str = "", **options: object) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", COMPILE + (program or "print(number(), number())")],
        env={**os.environ, "PYGPUKIT_CACHE_DIR": str(folder), "PYGPUKIT_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def poison(entry: bytes) -> bytes:
    """The entry with another number in its kernel and the checksum to go with it."""
    body = entry[:-32].replace(b"4242", b"6666")
    assert body != entry[:-32]
    return body + hashlib.sha256(body).digest()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """Name and bytes of the entry."""
    folder = tmp_path_factory.mktemp("good") / "cache"
    assert run(folder)[0] == "4242 4242"
    (entry,) = folder.iterdir()
    return entry.name, entry.read_bytes()


@pytest.fixture
def poisoned(tmp_path: pathlib.Path, good: tuple[str, bytes]) -> pathlib.Path:
    """An entry with the poison, in a folder and a file as we make them."""
    entry = tmp_path / "cache" / good[0]
    entry.parent.mkdir(mode=0o700)
    entry.write_bytes(poison(good[1]))
    entry.chmod(0o600)
    return entry


def test_the_poison_works_where_it_is_ours(poisoned: pathlib.Path) -> None:
    assert run(poisoned.parent)[0] == "6666 6666"


def _symlink(entry: pathlib.Path) -> None:
    elsewhere = entry.parent.parent / "elsewhere"
    entry.rename(elsewhere)
    entry.symlink_to(elsewhere)


def _folder(entry: pathlib.Path) -> None:
    entry.unlink()
    entry.mkdir()


def _full_folder(entry: pathlib.Path) -> None:
    _folder(entry)
    (entry / "x").touch()


def _fifo(entry: pathlib.Path) -> None:
    entry.unlink()
    os.mkfifo(entry, 0o600)


def _huge(entry: pathlib.Path) -> None:
    os.truncate(entry, 1 << 40)  # sparse; more than there is memory


def _flipped(entry: pathlib.Path) -> None:
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(bytes(data))


def _other_key(entry: pathlib.Path) -> None:
    body = entry.read_bytes()[:-32]
    key = entry.stem.encode()
    assert body.count(key) == 1
    body = body.replace(key, key[::-1])
    entry.write_bytes(body + hashlib.sha256(body).digest())


def _lengths(entry: pathlib.Path) -> None:
    """Every length in the entry says 2**63, under a checksum that is right."""
    body = bytearray(entry.read_bytes()[:-32])
    for at in range(12, len(body) - 8):
        if 0 < int.from_bytes(body[at : at + 8], "little") < 1 << 16:
            body[at : at + 8] = (1 << 63).to_bytes(8, "little")
    entry.write_bytes(bytes(body) + hashlib.sha256(bytes(body)).digest())


ENTRY_ATTACKS: dict[str, Callable[[pathlib.Path], object]] = {
    "group may write": lambda entry: entry.chmod(0o660),
    "others may write": lambda entry: entry.chmod(0o602),
    "symlink": _symlink,
    "empty folder": _folder,
    "folder": _full_folder,
    "fifo": _fifo,
    "huge": _huge,
    "flipped byte": _flipped,
    "other key": _other_key,
    "lengths": _lengths,
}


@pytest.mark.parametrize("attack", ENTRY_ATTACKS)
def test_entry(poisoned: pathlib.Path, attack: str) -> None:
    ENTRY_ATTACKS[attack](poisoned)
    out, err = run(poisoned.parent)
    assert out == "4242 4242"
    if attack == "folder":
        assert err.count("warning") == 1
        return
    assert err == ""
    info = poisoned.lstat()
    assert stat.S_ISREG(info.st_mode), "it was replaced"
    assert stat.S_IMODE(info.st_mode) == 0o600
    assert run(poisoned.parent)[0] == "4242 4242"


@root_only
def test_entry_of_a_stranger(poisoned: pathlib.Path) -> None:
    os.chown(poisoned, STRANGER, STRANGER)
    assert run(poisoned.parent) == ("4242 4242", "")
    assert poisoned.stat().st_uid == 0


@pytest.mark.skipif(ROOT, reason="root reads everything")
def test_entry_that_cannot_be_read(poisoned: pathlib.Path) -> None:
    poisoned.chmod(0)
    assert run(poisoned.parent) == ("4242 4242", "")


def _linked_folder(folder: pathlib.Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)


FOLDER_ATTACKS: dict[str, Callable[[pathlib.Path], object]] = {
    "group may write": lambda folder: folder.chmod(0o770),
    "others may write": lambda folder: folder.chmod(0o702),
    "like /tmp": lambda folder: folder.chmod(0o1777),
    "symlink": _linked_folder,
}
if ROOT:
    FOLDER_ATTACKS["of a stranger"] = lambda folder: os.chown(folder, STRANGER, STRANGER)


@pytest.mark.parametrize(
    ("attack", "ending"),
    [*((attack, "") for attack in FOLDER_ATTACKS), ("symlink", "/"), ("symlink", "/./")],
)
def test_folder(poisoned: pathlib.Path, attack: str, ending: str) -> None:
    folder = poisoned.parent
    FOLDER_ATTACKS[attack](folder)
    before = poisoned.read_bytes()
    out, err = run(f"{folder}{ending}")
    assert out == "4242 4242"
    assert err.count("warning") == 1, "one, though it was asked twice"
    assert str(folder) in err
    assert "PYGPUKIT_CACHE_DIR" in err
    assert poisoned.read_bytes() == before, "nothing is written there"
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("umask", [0, 0o002, 0o022, 0o077])
def test_modes_of_what_we_make(tmp_path: pathlib.Path, umask: int) -> None:
    folder = tmp_path / "a" / "b" / "cache"
    assert run(folder, umask=umask) == ("4242 4242", "")
    for made in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    (entry,) = folder.iterdir()
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


@pytest.fixture
def public_folder() -> Iterator[pathlib.Path]:
    """Where other users can come, unlike tmp_path."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pygpukit-tests-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@root_only
def test_read_only_cache_of_root(public_folder: pathlib.Path, good: tuple[str, bytes]) -> None:
    """An administrator may fill a cache for all; the poison shows that it is read."""
    entry = public_folder / good[0]
    entry.write_bytes(poison(good[1]))
    entry.chmod(0o644)
    drop = f"_native.nvrtc_info()\nimport os\nos.seteuid({STRANGER})\nprint(number())"
    assert run(public_folder, drop) == ("6666", "")


def test_no_descriptors_left(poisoned: pathlib.Path) -> None:
    """A process that ran out of them misses, and the entry stays for the next one."""
    program = """
import os, resource
_native.nvrtc_info()
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(map(int, os.listdir("/proc/self/fd"))), limit[1]))
try:
    first = number()
except Exception as error:  # NVRTC may need one
    first = type(error).__name__
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
print(first in ("4242", "NvrtcError", "CompileError") or first)
"""
    before = poisoned.read_bytes()
    assert run(poisoned.parent, program)[0] == "True"
    assert poisoned.read_bytes() == before


def test_include_that_cannot_be_read(tmp_path: pathlib.Path) -> None:
    """Reading /proc/self/mem from its start is an EIO; it is looked at for the cache's key."""
    if not pathlib.Path("/proc/self/mem").exists():
        pytest.skip("no /proc")
    program = """
import pygpukit as gp
try:
    _native.compile_to_ptx('#include "/proc/self/mem"\\n__global__ void f() {}')
except gp.CompileError:
    print("CompileError")
"""
    assert run(tmp_path / "cache", program)[0] in ("CompileError", "")


class TestPersistentCache:
    """The cache of gp.dispatch: an index, and files of the caller's."""

    def cache(self, folder: pathlib.Path) -> PersistentCache:
        return PersistentCache(PersistentCacheConfig(str(folder)), ArchFingerprint(9, 0, 12, 4))

    @pytest.mark.parametrize("attack", [name for name in ENTRY_ATTACKS if "folder" in name])
    @pytest.mark.parametrize("file", ["index.json", "0000000000000005.ptx"])
    def test_folders_in_the_way(self, tmp_path: pathlib.Path, file: str, attack: str) -> None:
        folder = tmp_path / "kernels"
        assert self.cache(folder).insert(5, "f", b"bytes")
        ENTRY_ATTACKS[attack](folder / file)
        cache = self.cache(folder)
        assert cache.get(5) is None
        assert cache.insert(6, "g", b"other")
        assert cache.get(6) == b"other"

    @pytest.mark.parametrize("attack", FOLDER_ATTACKS)
    def test_folder(self, tmp_path: pathlib.Path, attack: str) -> None:
        folder = tmp_path / "kernels"
        assert self.cache(folder).insert(5, "f", b"bytes")
        FOLDER_ATTACKS[attack](folder)
        cache = self.cache(folder)
        assert cache.get(5) is None
        assert not cache.insert(6, "g", b"other")
        assert len(list(folder.iterdir())) == 2, "nothing was removed either"

    @pytest.mark.parametrize("attack", ["group may write", "others may write", "symlink", "fifo"])
    def test_file(self, tmp_path: pathlib.Path, attack: str) -> None:
        folder = tmp_path / "kernels"
        cache = self.cache(folder)
        assert cache.insert(5, "f", b"bytes")
        ENTRY_ATTACKS[attack](folder / "0000000000000005.ptx")
        assert cache.get(5) is None
