"""`minip4 test`: runs STF scripts on a program, in this process."""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

from minip4.compiler.cli import add_compiler_arguments, compile_with_warnings
from minip4.engine.engine import Engine
from minip4.errors import Minip4Error
from minip4.stf.script import StfError, run_script
from minip4.stf.trace_page import TracedScript, source_files, write_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Run STF scripts on a program; exit status 1 if one fails."
    add = parser.add_argument
    add("program", type=Path, help="P4-16 source file, or BMv2 JSON (.json)")
    add("scripts", type=Path, nargs="+", metavar="script", help="STF script")
    add_compiler_arguments(parser)
    add("--trace", action="store_true", help="print the trace of packets that failed")
    add("--trace-all", action="store_true", help="print the trace of all packets")
    add("--trace-html", type=Path, metavar="FILE",
        help="write a page with the trace of all packets next to the source code")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    document = _document(args)
    failed = 0
    is_traced = args.trace or args.trace_all or args.trace_html is not None
    traced: list[TracedScript] = []
    for script in args.scripts:
        engine = Engine(document, trace=is_traced)
        try:
            done = run_script(engine, script)
            failures = done.failures()
        except StfError as error:
            if error.trace:
                print(textwrap.indent(error.trace, "    "))
            raise
        finally:
            engine.close()
        print(f"{'FAIL' if failures else 'PASS'} {script}")
        if not args.trace or args.trace_all:
            failures = [failure.partition("\n")[0] for failure in failures]
        for text in (*failures, *(done.traces.values() if args.trace_all else ())):
            print(textwrap.indent(text, "    "))
        failed += bool(failures)
        traced.append(TracedScript(script.name, failures, list(done.traces.values())))
    if args.trace_html is not None:
        write_page(args.trace_html, args.program.name, traced, source_files(document))
    print(f"{len(args.scripts) - failed} of {len(args.scripts)} scripts passed")
    return 1 if failed else 0


def _document(args: argparse.Namespace) -> dict[str, Any]:
    if args.program.suffix != ".json":
        return compile_with_warnings(args).bmv2_json
    try:
        document: dict[str, Any] = json.loads(args.program.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise Minip4Error(f"{args.program}: cannot read the file: {error}") from error
    if not isinstance(document, dict):
        raise Minip4Error(f"{args.program}: expected BMv2 JSON, whose root is an object")
    return document
