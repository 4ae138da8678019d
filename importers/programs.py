"""Choice of the P4 program of each switch of an imported network."""

from collections.abc import Mapping
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


def choose_programs(
    folder: Path, stems: Mapping[str, str | None], given: Path | None
) -> dict[str, Path]:
    """The source of each switch's program. Raises TestbedError.

    `stems` are the names that the description has for them, None where it names none: such
    switches run the only program of the folder that nobody names. `given` takes the place of the
    program of its name, or else of the only one.
    """
    sources: dict[str | None, Path] = {path.stem: path for path in sorted(folder.glob("*.p4"))}
    named = {stem for stem in stems.values() if stem is not None}
    default = _default({path.stem for path in sources.values()}, named)
    names = {switch: stem or default for switch, stem in stems.items()}
    if given is not None:
        sources[replaced(given, {*names.values()})] = found(given, folder)
    for switch, name in names.items():
        if name not in sources:
            raise TestbedError(_missing(switch, name, folder))
    return {switch: sources[name] for switch, name in names.items()}


def _default(stems: set[str], named: set[str]) -> str | None:
    left = stems if len(stems) == 1 else stems - named
    return next(iter(left)) if len(left) == 1 else None


def _missing(switch: str, name: str | None, folder: Path) -> str:
    if name is not None:
        return f"switch {switch}: no program {folder / name}.p4: write it, or name one with --p4"
    there = ", ".join(sorted(path.name for path in folder.glob("*.p4")))
    if not there:
        return f"switch {switch}: no P4 program in {folder}: name one with --p4"
    return f"switch {switch}: which of {there} in {folder}? Name it with --p4"
