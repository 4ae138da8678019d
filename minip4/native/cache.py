"""Cache of compiled C code.

The name of a file is the hash of its content. If the cache is too large, the least recently used
files are deleted first. Files in use are locked (flock) and are not deleted.
"""

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from minip4.errors import ToolchainError

MAX_BYTES = 1 << 30
WORKSHOP = "build-"  # prefix of build folders; those of killed processes are removed, too
WORKSHOP_IDLE_S = 60


def folder() -> Path:
    """Return the cache folder: $XDG_CACHE_HOME/minip4, or ~/.cache/minip4."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "minip4"


@contextmanager
def held(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Yield the path of a cached file. The file is not deleted within the `with` block.

    If the file is missing, `make` writes it to the path that it receives. Raises ToolchainError if
    the cache cannot be used, or if another user can write to it, because cached files are executed.
    """
    is_new = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_owner(path.parent)
        while (descriptor := _lock(path)) is None:
            _put(path, make)
            is_new = True
    except OSError as error:
        raise ToolchainError(
            f"{path.parent}: cannot store compiled code ({error.strerror}): "
            "set XDG_CACHE_HOME to a writable folder"
        ) from error
    try:
        if is_new:
            shrink()
        # fails if the folder is read-only, or if the file belongs to another user
        with suppress(OSError):
            os.utime(descriptor)
        yield path
    finally:
        os.close(descriptor)


def shrink(max_bytes: int = MAX_BYTES) -> None:
    """Delete the least recently used files until the cache has at most `max_bytes`."""
    found = []
    for path in folder().iterdir():
        with suppress(FileNotFoundError):  # another process deleted it first
            status = path.stat()
            if path.is_file():
                found.append((status.st_mtime, status.st_size, path))
            elif path.name.startswith(WORKSHOP) and time.time() - status.st_mtime > WORKSHOP_IDLE_S:
                _remove(path)
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= max_bytes:
            return
        total -= size if _remove(path) else 0


def _check_owner(place: Path) -> None:
    status = place.stat()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & stat.S_IWOTH:
        raise ToolchainError(
            f"{place}: other users can write files there, which would be executed as this user; "
            "set XDG_CACHE_HOME to a folder of your own"
        )


def _lock(path: Path) -> int | None:
    """Lock a file; return None if it does not exist."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    os.close(descriptor)  # another process removed the file between open and lock
    return None


def _put(path: Path, make: Callable[[Path], None]) -> None:
    with _turn(path), tempfile.TemporaryDirectory(prefix=WORKSHOP, dir=path.parent) as workshop:
        if path.exists():  # the process that had the lock before has built the file
            return
        descriptor = os.open(workshop, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        try:
            make(Path(workshop) / path.name)
            # another process has built the file at the same time, so use that file
            with suppress(FileExistsError):
                os.link(Path(workshop) / path.name, path)
        finally:
            os.close(descriptor)


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Wait while another process builds this file.

    The lock matters for a sweep, whose runs start at the same time with the same program.

    Two processes may still build the same file, because the lock file is removed while others wait
    for it. The result is correct, but takes more time.
    """
    turn = path.with_name(WORKSHOP + path.name)
    descriptor = os.open(turn, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        turn.unlink(missing_ok=True)
        os.close(descriptor)


def _remove(path: Path) -> bool:
    """Remove a file or a build folder unless a process uses it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    # in use, deleted, or owned by another user; NFS cannot lock files that are open for reading
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
