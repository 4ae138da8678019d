"""Files of results: each replaced whole, one run at a time in a folder, and the calling user's."""

import argparse
import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from telemark.errors import TestbedError


def give_to_caller(path: Path) -> None:
    """Under sudo, make a file or folder the calling user's: who may then also remove it."""
    if "SUDO_UID" in os.environ:
        os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))


def folder(text: str) -> Path:
    """For options: a folder's name. An empty one would be wherever the user is."""
    if not text:
        raise argparse.ArgumentTypeError("'' is no folder's name")
    return Path(text)


def make_folder(folder: Path) -> None:
    """Make a folder for results, with those above it. Raises TestbedError."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise TestbedError(f"results cannot be written to {folder}: {error.strerror}") from None
    for path in missing:
        give_to_caller(path)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[Path]:
    """Keep other runs from writing into the folder meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for stale in folder.glob(".*.partial"):  # of a run that was killed while it wrote
            stale.unlink()
        yield folder
    finally:
        os.close(descriptor)


def replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file beside `path`, then put it in its place. Raises TestbedError.

    Nobody else may do so meanwhile: see exclusive().
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        write(partial)
        give_to_caller(partial)
        partial.replace(path)
    except OSError as error:  # the disk is full
        partial.unlink(missing_ok=True)
        raise TestbedError(f"{path} cannot be written: {error.strerror}") from None
