"""The P4 programs of a network: which switch runs which, each compiled once."""

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

# As class Network takes them.
Programs: TypeAlias = str | Path | Mapping[str, str | Path]
Macros: TypeAlias = Mapping[str, int | str | Mapping[str, int | str]]


@dataclass(frozen=True)
class Source:
    """A P4 program, and the macros that it is compiled with, as in NAME=value."""

    path: Path
    defines: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """A P4 program compiled for switches of a network, who share it: equal is what is the same."""

    compiled: CompiledProgram
    blob_path: Path  # BMv2 JSON
    p4info_path: Path  # text format

    @classmethod
    def write(cls, compiled: CompiledProgram, folder: Path, name: str) -> "Program":
        """Write both files, named `name`, into `folder`."""
        blob, p4info = folder / f"{name}.json", folder / f"{name}.p4info.txtpb"
        blob.write_text(json.dumps(compiled.bmv2_json))
        p4info.write_text(text_format.MessageToString(compiled.p4info))
        return cls(compiled, blob, p4info)


def sources(switches: Iterable[str], programs: Programs, macros: Macros) -> dict[str, Source]:
    """What each switch is to run. Raises TestbedError for switches and files that are not there."""
    switches = list(switches)
    of_switch = programs if isinstance(programs, Mapping) else dict.fromkeys(switches, programs)
    if missing := [name for name in switches if name not in of_switch]:
        raise TestbedError(f"switch {missing[0]} has no program: name one for each switch")
    own = {name: value for name, value in macros.items() if isinstance(value, Mapping)}
    for what, names in (("programs", of_switch), ("macros", own)):
        if unknown := sorted(names.keys() - {*switches}):
            raise TestbedError(
                f"{what} for switches that are not there: {', '.join(unknown)}: "
                f"there are {', '.join(switches)}"
            )
    shared = {name: value for name, value in macros.items() if not isinstance(value, Mapping)}
    return {
        name: Source(_found(of_switch[name]), _defines({**shared, **own.get(name, {})}))
        for name in switches
    }


def compiled(source: Source) -> CompiledProgram:
    """Compile a program, and show its warnings."""
    program = compile_p4(source.path, defines=source.defines)
    print_warnings(program.warnings)
    return program


def build(
    of_switch: Mapping[str, Source], folder: Path, known: dict[Source, CompiledProgram]
) -> dict[str, Program]:
    """What the switches run, in files named after the programs, below `folder`.

    A program that is not in `known` is compiled, and then is: a run has one for all its networks.
    """
    built: dict[Source, Program] = {}
    names: set[str] = set()
    for source in of_switch.values():
        if source not in built:
            name = stem = source.path.stem
            for number in count(2):
                if name not in names:
                    break
                name = f"{stem}-{number}"
            names.add(name)
            if source not in known:
                known[source] = compiled(source)
            built[source] = Program.write(known[source], folder, name)
    return {switch: built[source] for switch, source in of_switch.items()}


def _found(path: str | Path) -> Path:
    """A path from here, or else from the repository's root."""
    tried = dict.fromkeys((Path(path).absolute(), REPOSITORY / path))  # which may be the same
    for found in tried:
        if found.is_file():
            return found
    raise TestbedError(f"no P4 program {' or '.join(map(str, tried))}")


def _defines(macros: Mapping[str, int | str]) -> tuple[str, ...]:
    for name, value in macros.items():
        if not MACRO.fullmatch(name) or isinstance(value, bool | float):
            raise TestbedError(
                f"macro {name}={value!r}: expected a name of letters, digits and _, "
                "and a whole number or text"
            )
    return tuple(f"{name}={value}" for name, value in sorted(macros.items()))
