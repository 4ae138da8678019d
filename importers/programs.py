"""Choice of a P4 program for each switch of an imported network."""

from collections.abc import Mapping
from pathlib import Path

from telemark.errors import TestbedError


def replaced_program(given: Path, names: set[str | None]) -> str | None:
    """Return the name of the program that the user's program `given` replaces."""
    if given.stem in names:
        return given.stem
    if len(names) == 1:
        return next(iter(names))
    known = ", ".join(sorted(name or "another one" for name in names))
    raise TestbedError(f"--p4 {given}: the switches run {known}; use a file with that name")


def find_program(given: Path, folder: Path) -> Path:
    """Find a program. Its path is relative to the working directory or to the exercise's folder."""
    # a dict, to list the path only once if both paths are the same
    tried = dict.fromkeys((given.absolute(), folder / given))
    for path in tried:
        if path.is_file():
            return path
    raise TestbedError(f"--p4: no file {' or '.join(map(str, tried))}")


def choose_programs(
    folder: Path, stems: Mapping[str, str | None], given: Path | None
) -> dict[str, Path]:
    """Return the source of the program of each switch. Raises TestbedError.

    `stems` maps each switch to the name of its program in the description. If a switch has no such
    name (None), it runs the only program in the folder that no other switch names. `given` replaces
    the program with the same name, or the only program.
    """
    sources: dict[str | None, Path] = {path.stem: path for path in sorted(folder.glob("*.p4"))}
    named = {stem for stem in stems.values() if stem is not None}
    default = _default({path.stem for path in sources.values()}, named)
    names = {switch: stem or default for switch, stem in stems.items()}
    if given is not None:
        sources[replaced_program(given, {*names.values()})] = find_program(given, folder)
    for switch, name in names.items():
        if name not in sources:
            raise TestbedError(_missing(switch, name, folder))
    return {switch: sources[name] for switch, name in names.items()}


def _default(stems: set[str], named: set[str]) -> str | None:
    left = stems if len(stems) == 1 else stems - named
    return next(iter(left)) if len(left) == 1 else None


def _missing(switch: str, name: str | None, folder: Path) -> str:
    if name is not None:
        return (
            f"switch {switch}: no program {folder / name}.p4; create it, or select a program "
            f"with --p4"
        )
    there = ", ".join(sorted(path.name for path in folder.glob("*.p4")))
    if not there:
        return f"switch {switch}: no P4 program in {folder}; select a program with --p4"
    return f"switch {switch}: several programs in {folder} ({there}); select one with --p4"
