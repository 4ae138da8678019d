"""The cache of built files has a max size. It deletes the least recently used files first.

The cache never deletes a file in use.
"""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from minip4.errors import ToolchainError
from minip4.native import cache

BYTES = 1000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that only this test uses."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "minip4").mkdir()
    return tmp_path / "minip4"


def make(path: Path) -> None:
    path.write_bytes(bytes(BYTES))


def use(path: Path, age_s: float = 0) -> None:
    """Use a cached file, which is built if it is missing.

    With `age_s`, set its last use to the past.
    """
    with cache.held(path, make):
        pass
    if age_s:
        then = path.stat().st_mtime - age_s
        os.utime(path, (then, then))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_least_recently_used_file_is_removed_first(folder: Path) -> None:
    for number, name in enumerate("abcd"):
        use(folder / name, 1000 - number)
    use(folder / "a")  # now this is the most recently used file
    cache.shrink(2 * BYTES)
    assert names(folder) == {"a", "d"}
    cache.shrink(2 * BYTES)
    assert names(folder) == {"a", "d"}


def test_a_new_file_makes_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.shrink, "__defaults__", (2 * BYTES,))
    for name in "abc":
        use(folder / name, 100)
    assert "c" in names(folder)
    assert len(names(folder)) == 2


def test_files_in_use_are_not_removed(folder: Path) -> None:
    for name in "ab":
        use(folder / name, 1000)
    with cache.held(folder / "a", make):
        os.utime(folder / "a", (0, 0))
        cache.shrink(0)
        assert names(folder) == {"a"}
    cache.shrink(0)
    assert names(folder) == set()


def test_another_process_s_use_counts(folder: Path) -> None:
    use(folder / "a")
    code = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 1); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder / "a")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        other.stdout.readline()
        cache.shrink(0)
        assert names(folder) == {"a"}
        other.communicate("\n")
    cache.shrink(0)
    assert names(folder) == set()


def test_a_file_removed_before_it_was_locked_is_made_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another process removes a file between open() and flock(), the file is built again.

    After the removal, the open file has no name.
    """
    use(folder / "a")
    flock, removed = fcntl.flock, []

    def removing(descriptor: int, operation: int) -> None:
        if not removed and operation == fcntl.LOCK_SH:
            removed.append((folder / "a").unlink())
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removing)
    with cache.held(folder / "a", make) as path:
        assert path.stat().st_size == BYTES
    assert removed


def test_of_two_that_want_the_same_file_one_makes_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, second, seen, made = fcntl.flock, threading.Event(), [], []

    def noticed(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX and made:
            second.set()
        flock(descriptor, operation)

    def slow(path: Path) -> None:
        made.append(path)
        other.start()
        assert second.wait(10)
        make(path)

    def one() -> None:
        with cache.held(folder / "a", slow) as path:
            seen.append(path.stat().st_size)

    monkeypatch.setattr(fcntl, "flock", noticed)
    other = threading.Thread(target=one)
    one()
    other.join()
    assert (seen, len(made)) == ([BYTES, BYTES], 1)
    assert names(folder) == {"a"}


def test_two_that_make_the_same_file_share_the_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If two threads build the same file at the same time, both use the file that is ready first.

    The second one must not replace it, because it is in use.
    """
    monkeypatch.setattr(cache, "_turn", lambda _: nullcontext())  # as if both had the lock
    both = threading.Barrier(2)
    seen = []

    def slow(path: Path) -> None:
        both.wait(10)  # now both have seen that the file is missing
        make(path)

    def one() -> None:
        with cache.held(folder / "a", slow) as path:
            seen.append(path.stat().st_ino)
            both.wait(10)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 2
    assert len(set(seen)) == 1


def test_folders_of_killed_builds_are_removed_and_of_running_builds_not(folder: Path) -> None:
    left, running = folder / "build-left", folder / "build-running"
    for workshop in (left, running):
        workshop.mkdir()
        make(workshop / "half.o")
    young = folder / "build-young"
    young.mkdir()
    for workshop in (left, running):
        os.utime(workshop, (0, 0))
    descriptor = os.open(running, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    cache.shrink()
    assert names(folder) == {"build-running", "build-young"}
    os.close(descriptor)


def test_a_build_that_fails_leaves_nothing(folder: Path) -> None:
    def fail(path: Path) -> None:
        make(path)
        raise ValueError

    with pytest.raises(ValueError), cache.held(folder / "a", fail):  # noqa: PT011
        pass
    assert names(folder) == set()


def test_files_of_a_read_only_cache_are_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(folder / "a")

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    with cache.held(folder / "a", make) as path:
        assert path.stat().st_size == BYTES


def test_a_file_system_that_cannot_lock_for_writing_keeps_its_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be locked exclusively is not deleted.

    This happens on NFS, where an exclusive lock needs a file that is open for writing.
    """
    use(folder / "a", 1000)

    def shared_only(_: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX:
            raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", shared_only)
    cache.shrink(0)
    assert names(folder) == {"a"}


def test_a_cache_that_cannot_be_made_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with (
        pytest.raises(ToolchainError, match=r"file/minip4: .*Not a directory.*XDG_CACHE_HOME"),
        cache.held(cache.folder() / "a", make),
    ):
        pass


@pytest.mark.parametrize(
    ("is_others", "mode"), [(True, 0o755), (False, 0o777)], ids=["of another", "of all"]
)
def test_files_that_other_users_can_write_are_not_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_others: bool, mode: int
) -> None:
    """A cache folder of another user, or one that all users can write, is an error.

    The files in this folder are executed, even as root if sudo keeps HOME.
    """
    use(folder / "a")
    folder.chmod(0o775)  # as with umask 002 and a group per user
    use(folder / "a")
    if is_others and os.geteuid() == 0:
        os.chown(folder, 12345, -1)
    elif is_others:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    folder.chmod(mode)
    with pytest.raises(ToolchainError, match=r"other users can write.*set XDG_CACHE_HOME"):
        use(folder / "a")
