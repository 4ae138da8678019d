"""Run a BfRt control script on a switch that runs a TNA program.

SCRIPT is a script for bfrt_python or for bfrt_grpc.client, as the authors of a program for Tofino
wrote it. Its calls become P4Runtime requests to the switch. The address in the script has no
effect. The script runs with your rights: read it first.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from ipaddress import ip_address
from pathlib import Path
from types import ModuleType

from importers.bfrt import client
from importers.bfrt.shell import Shell
from importers.bfrt.tables import BfrtError, Connection, Tables
from telemark.session import cli

FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `telemark bfrt`."""
    parser.add_argument(
        "--switch", default="127.0.0.1:9559", metavar="HOST:PORT",
        help="P4Runtime address of the switch (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--device-id", type=cli.positive_int, default=1, metavar="N",
        help="device id of the switch (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("script", type=Path, metavar="SCRIPT", help="the script")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="arguments of the script"
    )


def run(options: argparse.Namespace) -> int:
    """Run the script. Return its exit status: 1 if it failed, 2 if it could not be run."""
    try:
        source = options.script.read_text()
        code = compile(source, str(options.script), "exec")
        connection = Connection(options.switch, options.device_id)
    except (OSError, UnicodeDecodeError, SyntaxError, BfrtError) as error:
        print(f"telemark: error: {error}; expected a Python script and a running switch",
              file=sys.stderr)  # fmt: skip
        return cli.UNUSABLE
    try:
        return run_script(code, options.script, options.arguments, Tables(connection))
    finally:
        connection.close()


def run_script(code: object, path: Path, arguments: list[str], tables: Tables) -> int:
    """Run a compiled script with the names of bfrt_python and of bfrt_grpc.client."""
    client.use(tables)
    package = ModuleType("bfrt_grpc")
    package.__dict__["client"] = client
    sys.modules |= {"bfrt_grpc": package, "bfrt_grpc.client": client}
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent.absolute()))
    names = {
        "__name__": "__main__", "__file__": str(path), "bfrt": Shell(tables),
        "ip": lambda text: int(ip_address(text)),
        "mac": lambda text: int(text.replace(":", ""), 16),
    }  # fmt: skip
    try:
        exec(code, names)  # type: ignore[arg-type]
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED if end.code else 0
    except BfrtError as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in reversed(frames) if f.filename == str(path)), "?")
        print(f"{path}:{line}: {error}", file=sys.stderr)
        return FAILED
    return 0
