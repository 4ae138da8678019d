"""P4 programs of the switches of a network; each program is compiled once."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeAlias

from google.protobuf import text_format  # type: ignore[import-untyped]

from minip4.compiler import CompiledProgram, compile_p4
from minip4.compiler.warnings import print_warnings
from telemark import REPOSITORY
from telemark.errors import TestbedError

MACRO = re.compile(r"[A-Za-z_]\w*", re.ASCII)

# Types of the parameters `program` and `defines` of class Network.
Programs: TypeAlias = str | Path | Mapping[str, str | Path]
Macros: TypeAlias = Mapping[str, int | str | Mapping[str, int | str]]


@dataclass(frozen=True)
class Source:
    """P4 program, and its macros as NAME=value."""

    path: Path
    defines: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """Compiled P4 program. Switches of a network share it; only identical objects are equal."""

    compiled: CompiledProgram
    blob_path: Path  # path of the BMv2 JSON
    p4info_path: Path  # path of the P4Info in text format

    @classmethod
    def write(cls, compiled: CompiledProgram, folder: Path, name: str) -> "Program":
        """Write `name`.json and `name`.p4info.txtpb into `folder`."""
        blob, p4info = folder / f"{name}.json", folder / f"{name}.p4info.txtpb"
        blob.write_text(json.dumps(compiled.bmv2_json))
        p4info.write_text(text_format.MessageToString(compiled.p4info))
        return cls(compiled, blob, p4info)


def sources(switches: Iterable[str], programs: Programs, macros: Macros) -> dict[str, Source]:
    """Return the program of each switch.

    Raises TestbedError if a switch is unknown or a file missing.
    """
    switches = list(switches)
    paths = programs if isinstance(programs, Mapping) else dict.fromkeys(switches, programs)
    if missing := [name for name in switches if name not in paths]:
        raise TestbedError(f"switch {missing[0]}: no program; specify one for each switch")
    own = {name: value for name, value in macros.items() if isinstance(value, Mapping)}
    for kind, names in (("program", paths), ("defines", own)):
        if unknown := sorted(names.keys() - {*switches}):
            raise TestbedError(
                f"{kind}: no switch {', '.join(unknown)}; expected {', '.join(switches)}"
            )
    shared = {name: value for name, value in macros.items() if not isinstance(value, Mapping)}
    return {
        name: Source(_find(paths[name]), _defines({**shared, **own.get(name, {})}))
        for name in switches
    }


def compiled(source: Source) -> CompiledProgram:
    """Compile a program and print its warnings."""
    program = compile_p4(source.path, defines=source.defines)
    print_warnings(program.warnings)
    return program


def build(
    sources: Mapping[str, Source], folder: Path, cache: dict[Source, CompiledProgram]
) -> dict[str, Program]:
    """Compile the programs of switches. The files in `folder` are named after the programs.

    `cache` contains the programs that this run has already compiled. New programs are added to it.
    """
    built: dict[Source, Program] = {}
    names: set[str] = set()
    for source in sources.values():
        if source not in built:
            name = stem = source.path.stem
            for number in count(2):
                if name not in names:
                    break
                name = f"{stem}-{number}"
            names.add(name)
            if source not in cache:
                cache[source] = compiled(source)
            built[source] = Program.write(cache[source], folder, name)
    return {switch: built[source] for switch, source in sources.items()}


def _find(path: str | Path) -> Path:
    """Resolve a path relative to the working directory.

    If no file exists there, use the repository's root.
    """
    candidates = dict.fromkeys((Path(path).absolute(), REPOSITORY / path))  # without duplicates
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise TestbedError(f"no P4 program {' or '.join(map(str, candidates))}")


def _defines(macros: Mapping[str, int | str]) -> tuple[str, ...]:
    for name, value in macros.items():
        if not MACRO.fullmatch(name) or isinstance(value, bool | float):
            raise TestbedError(
                f"macro {name}={value!r}: expected a name of letters, digits and _, "
                "and a whole number or string"
            )
    return tuple(f"{name}={value}" for name, value in sorted(macros.items()))
