"""Files of results: atomic replacement, one lock per folder, and the caller as owner under sudo."""

import argparse
import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from telemark.errors import TestbedError


def give_to_caller(path: Path) -> None:
    """Under sudo, make the calling user the owner of a file or folder."""
    if "SUDO_UID" in os.environ:
        os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))


def folder(text: str) -> Path:
    """Parse a folder option. Reject an empty name, because it would mean the working directory."""
    if not text:
        raise argparse.ArgumentTypeError("'' is not a folder name")
    return Path(text)


def make_folder(folder: Path) -> None:
    """Create a folder for results, and its parent folders. Raises TestbedError."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise TestbedError(f"{folder}: cannot write results: {error.strerror}") from None
    for path in missing:
        give_to_caller(path)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[Path]:
    """Lock a folder, so that other runs cannot write into it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for stale in folder.glob(".*.partial"):  # left by a killed run
            stale.unlink()
        yield folder
    finally:
        os.close(descriptor)


def replace(path: Path, write: Callable[[Path], object]) -> None:
    """Replace a file atomically. Raises TestbedError.

    The caller must have the lock of the folder: see exclusive().
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        write(partial)
        give_to_caller(partial)
        partial.replace(path)
    except OSError as error:  # the disk is full
        partial.unlink(missing_ok=True)
        raise TestbedError(f"{path}: cannot write: {error.strerror}") from None
