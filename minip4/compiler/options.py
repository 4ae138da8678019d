"""Options of all commands that compile a program: -I, -D and --Wdisable."""

from __future__ import annotations

import argparse
from pathlib import Path

from minip4.compiler import CompiledProgram, compile_p4
from minip4.compiler.warnings import ALL, KINDS, print_warnings


def add_compiler_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare -I, -D and --Wdisable, as in p4c."""
    add = parser.add_argument
    add("-I", dest="include_dirs", action="append", default=[], metavar="DIR", type=Path,
        help="where to look for included files")  # fmt: skip
    add("-D", dest="defines", action="append", default=[], metavar="NAME[=VALUE]",
        help="define a preprocessor macro")  # fmt: skip
    add("--Wdisable", dest="disabled", action="append", default=[], nargs="?", const=ALL,
        metavar="KIND", type=_kind, help="no warnings; with =KIND, none of this kind")  # fmt: skip


def _kind(text: str) -> str:
    if text not in (ALL, *KINDS):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a kind of warning; available: {', '.join(KINDS)}"
        )
    return text


def compile_with_warnings(args: argparse.Namespace) -> CompiledProgram:
    """Compile `args.program` with the options; enabled warnings go to stderr."""
    compiled = compile_p4(args.program, args.include_dirs, args.defines)
    print_warnings(compiled.warnings, args.disabled)
    return compiled
