"""A P4 program that the user gives in place of one of a description (`--p4`)."""

from pathlib import Path

from telemark.errors import TestbedError


def replaced(given: Path, names: set[str | None]) -> str | None:
    """Which program a given one is to replace."""
    if given.stem in names:
        return given.stem
    if len(names) == 1:
        return next(iter(names))
    known = ", ".join(sorted(name or "another one" for name in names))
    raise TestbedError(f"--p4 {given}: the switches run {known}: expected a file of such a name")


def found(given: Path, folder: Path) -> Path:
    """A path from here, or from the exercise's folder."""
    tried = dict.fromkeys((given.absolute(), folder / given))  # which may be the same
    for path in tried:
        if path.is_file():
            return path
    raise TestbedError(f"--p4: no file {' or '.join(map(str, tried))}")
