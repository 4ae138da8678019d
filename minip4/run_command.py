"""`minip4 run`: compiles a program and runs it as a switch."""

import argparse
import json
import tempfile
from pathlib import Path

from minip4.compiler.cli import add_compiler_arguments, compile_with_warnings
from minip4.compiler.p4info.text import write_p4info
from minip4.compiler.recursion import deep_recursion
from minip4.runtime.switch.cli import add_switch_options, run_program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the compiler and of the switch."""
    parser.description = "Compile a program and run it as a switch with a P4Runtime server."
    parser.add_argument("program", type=Path, metavar="PROGRAM.p4", help="P4-16 source file")
    add_compiler_arguments(parser)
    add_switch_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the switch until SIGTERM or SIGINT. Raises Minip4Error."""
    compiled = compile_with_warnings(args)
    with deep_recursion(args.program):
        text = json.dumps(compiled.bmv2_json)
    with tempfile.TemporaryDirectory(prefix="minip4-") as folder:
        args.program = Path(folder, args.program.stem).with_suffix(".json")
        args.program.write_text(text)
        if args.p4info is None:
            args.p4info = Path(folder, "p4info.txtpb")
            write_p4info(compiled.p4info, args.p4info)
        return run_program(args)
