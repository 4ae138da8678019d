"""`minip4 compile`: compiles a P4 program to BMv2 JSON and P4Info."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from minip4.compiler import CompiledProgram, compile_p4
from minip4.compiler.errors import P4Error
from minip4.compiler.front import preprocessed
from minip4.compiler.p4info.text import check_suffix, write_p4info
from minip4.compiler.recursion import deep_recursion
from minip4.compiler.sarif import write_sarif
from minip4.compiler.warnings import ALL, KINDS, enabled_warnings, print_warnings
from minip4.errors import Minip4Error

_P4C_OPTIONS = {
    ("--std", "--p4v"): ("p4-16", "16"),
    ("-b", "--target"): ("bmv2",),
    ("-a", "--arch"): ("v1model", "tna", "t2na"),
}


def add_compiler_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare -I, -D and --Wdisable, as in p4c, and --strict-hardware."""
    add = parser.add_argument
    add("-I", dest="include_dirs", action="append", default=[], metavar="DIR", type=Path,
        help="folder to search for included files")  # fmt: skip
    add("-D", dest="defines", action="append", default=[], metavar="NAME[=VALUE]",
        help="define a preprocessor macro")  # fmt: skip
    add("--Wdisable", dest="disabled", action="append", default=[], nargs="?", const=ALL,
        metavar="KIND", type=_kind, help=
"disable all warnings or, with =KIND, those of this kind")  # fmt: skip
    add("--strict-hardware", action="store_true",
        help="refuse TNA programs with warnings of the kind hardware")  # fmt: skip


def _kind(text: str) -> str:
    if text not in (ALL, *KINDS):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a kind of warning; available: {', '.join(KINDS)}"
        )
    return text


def compile_with_warnings(args: argparse.Namespace, sarif: Path | None = None) -> CompiledProgram:
    """Compile `args.program` with the options; print enabled warnings, and write them to `sarif`.

    Raises Minip4Error with --strict-hardware, if there are warnings of the kind `hardware`.
    """
    compiled = compile_p4(args.program, args.include_dirs, args.defines)
    enabled = enabled_warnings(compiled.warnings, args.disabled)
    print_warnings(enabled)
    if sarif is not None:
        write_sarif(sarif, enabled)
    beyond = sum(warning.kind == "hardware" for warning in compiled.warnings)
    if args.strict_hardware and beyond:
        raise Minip4Error(
            f"{args.program}: beyond a Tofino's hardware at {beyond} place(s); change them, or "
            "compile without --strict-hardware"
        )
    return compiled


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Compile a v1model program for simple_switch and minip4 switch."
    parser.add_argument("program", type=Path, help="P4-16 source file")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        help="BMv2 JSON output file, or an existing folder for it (default: <program>.json)",
    )
    parser.add_argument(
        "-E", dest="preprocess_only", action="store_true", help="print the preprocessed source only"
    )
    parser.add_argument(
        "--p4runtime-files",
        default="",
        metavar="FILE[,FILE]",
        help="P4Info output files: .txtpb (text), .json or .bin",
    )
    parser.add_argument(
        "--sarif",
        type=Path,
        metavar="FILE",
        help="write errors and warnings to FILE in the format SARIF, for editors and GitHub",
    )
    add_compiler_arguments(parser)
    # Options of p4c with only one possible value here. With them, command lines of p4c need no
    # change.
    for names, values in _P4C_OPTIONS.items():
        meaning = f"option of p4c; only {' or '.join(values)} is possible"
        parser.add_argument(*names, choices=values, help=meaning)


def run(args: argparse.Namespace) -> int:
    if args.preprocess_only:
        print(preprocessed(args.program, args.include_dirs, args.defines), end="")
        return 0
    if args.sarif is None:
        return _compile(args)
    try:
        status = _compile(args)
    except P4Error as error:
        write_sarif(args.sarif, [error])
        raise
    return status


def _compile(args: argparse.Namespace) -> int:
    p4info_files = [Path(name) for name in args.p4runtime_files.split(",") if name]
    for file in p4info_files:
        check_suffix(file)
    compiled = compile_with_warnings(args, args.sarif)
    output = args.output or args.program.with_suffix(".json")
    if output.is_dir():
        output /= args.program.with_suffix(".json").name
    with deep_recursion(args.program):
        text = json.dumps(compiled.bmv2_json, indent=2) + "\n"
    try:
        output.write_text(text)
        for file in p4info_files:
            write_p4info(compiled.p4info, file)
    except OSError as error:
        raise Minip4Error(f"{error.filename}: cannot write: {error.strerror}") from error
    return 0
