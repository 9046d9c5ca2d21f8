"""Snapshots of a running process in a small file, for ``python -m pygpukit top``.

Nothing is written unless requested: by PYGPUKIT_TOP=1 in the environment of the process
to watch, or by publish(). The file belongs to the user, in a folder nobody else can access.
"""

from __future__ import annotations

import atexit
import json
import os
import stat
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from pygpukit.core.errors import OperationError

INTERVAL = 0.5

_lock = threading.Lock()
_thread: threading.Thread | None = None
_stop = threading.Event()


def folder() -> Path:
    """The folder of the files: XDG_RUNTIME_DIR/pygpukit, or a private temporary one."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and Path(base).is_dir():
        return Path(base) / "pygpukit"
    owner = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"pygpukit-{owner}"


def private_folder() -> Path:
    """The folder, created where missing. RuntimeError when others could write there."""
    path = folder()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OperationError(f"publish: {path} is not a folder")
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o022):
        raise OperationError(f"publish: others could write to {path}")
    return path


def _file() -> Path:
    return private_folder() / f"top-{os.getpid()}.json"


def _write(path: Path, data: dict[str, Any]) -> None:
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(data, file, default=str)  # sections may hold NumPy numbers
    os.replace(new, path)


def current() -> dict[str, Any]:
    """The published data: the process and its snapshot."""
    from pygpukit.scheduler.service import stats

    return {
        "pid": os.getpid(),
        "command": " ".join(sys.argv)[:200] or "python",
        "snapshot": stats().to_dict(),
    }


def _run(path: Path, pid: int) -> None:
    try:
        while not _stop.is_set() and os.getpid() == pid:
            _write(path, current())
            _stop.wait(INTERVAL)
    except OSError as error:  # the folder is gone or full: the watched program continues
        print(f"pygpukit: top: {error}", file=sys.stderr)


def publish() -> None:
    """Writes a snapshot twice a second until the process ends or unpublish()."""
    global _thread
    with _lock:
        if _thread is not None and _thread.is_alive():
            return
        _stop.clear()
        path = _file()
        _thread = threading.Thread(
            target=_run, args=(path, os.getpid()), name="pygpukit-top", daemon=True
        )
        _thread.start()


def unpublish() -> None:
    """Stops publish() and removes the file."""
    global _thread
    with _lock:
        thread, _thread = _thread, None
        if thread is None:
            return
        _stop.set()
        thread.join(2.0)
        _file().unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def published() -> list[dict[str, Any]]:
    """The published data of this user's running processes, by process id."""
    if not folder().is_dir():
        return []
    found = []
    for path in sorted(private_folder().glob("top-*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if _alive(data["pid"]):
                found.append(data)
            else:
                path.unlink(missing_ok=True)  # its process was killed
        except (OSError, ValueError, KeyError, TypeError):
            continue  # gone, or written by another version
    return sorted(found, key=lambda data: data["pid"])


atexit.register(unpublish)

__all__ = ["folder", "publish", "published", "unpublish"]
