"""`minip4 compile`: a P4 program to BMv2 JSON and P4Info."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from minip4.compiler import compile_p4
from minip4.compiler.p4info.text import check_suffix, write_p4info
from minip4.errors import Minip4Error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Compile a v1model program for simple_switch and minip4 switch."
    parser.add_argument("program", type=Path, help="the P4-16 source file")
    parser.add_argument(
        "-o", "--output", type=Path, help="BMv2 JSON to write (default: <program>.json)"
    )
    parser.add_argument(
        "--p4runtime-files",
        default="",
        metavar="FILE[,FILE]",
        help="P4Info to write: .txtpb (text), .json or .bin",
    )
    parser.add_argument(
        "-I",
        dest="include_dirs",
        action="append",
        default=[],
        metavar="DIR",
        type=Path,
        help="where to look for included files",
    )
    parser.add_argument(
        "-D",
        dest="defines",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="define a preprocessor macro",
    )


def run(args: argparse.Namespace) -> int:
    p4info_files = [Path(name) for name in args.p4runtime_files.split(",") if name]
    for file in p4info_files:
        check_suffix(file)
    compiled = compile_p4(args.program, args.include_dirs, args.defines)
    for warning in compiled.warnings:
        print(warning, file=sys.stderr)
    output = args.output or args.program.with_suffix(".json")
    try:
        output.write_text(json.dumps(compiled.bmv2_json, indent=2) + "\n")
        for file in p4info_files:
            write_p4info(compiled.p4info, file)
    except OSError as error:
        raise Minip4Error(f"{error.filename}: cannot be written: {error.strerror}") from error
    return 0
