"""Run a BfRt control script on a switch that runs a TNA program.

SCRIPT is a script for bfrt_python or for bfrt_grpc.client, as the authors of a program for Tofino
wrote it. Its calls become P4Runtime requests to the switch. The address in the script has no
effect. The script runs with your rights: read it first.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import traceback
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from importers.bfrt import client
from importers.bfrt.connection import BfrtError, Connection
from importers.bfrt.shell import Shell, ip, mac
from importers.bfrt.switch import Tables
from telemark.session import cli

FAILED, INTERRUPTED = 1, 130
LOOK_S = 0.5  # interval between looks at the connection
_NAMES = [f"importers.bfrt.{name}" for name in ("client", "shell", "switch", "tables", "device")]
_SDK = (
    "bfrt_grpc", "bfrt_grpc.bfruntime_pb2", "bfrt_grpc.bfruntime_pb2_grpc", "bfrtcli",
    "port_mgr_pd_rpc",
)  # fmt: skip


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
        code = compile(options.script.read_text(), str(options.script), "exec")
        connection = Connection(options.switch, options.device_id)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BfrtError as error:
        print(f"telemark: error: {error}", file=sys.stderr)
        return cli.UNUSABLE
    except (OSError, ValueError, SyntaxError) as error:
        print(f"telemark: error: {error}; expected a Python script", file=sys.stderr)
        return cli.UNUSABLE
    try:
        return run_script(code, options.script, options.arguments, Tables(connection))
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        connection.close()


def run_script(code: CodeType, path: Path, arguments: list[str], tables: Tables) -> int:
    """Run a compiled script with the names of bfrt_python and of bfrt_grpc.client.

    If the script registers callbacks for digests, they are called until Ctrl-C. Returns the exit
    status, also 1 for an error in a thread of the script.
    """
    client.use(tables)
    shell = Shell(tables)
    names = {
        "bfrt": shell,
        "ip": ip,
        "mac": mac,
    }
    sdk = {name: _ModuleOfSdk(name) for name in _SDK}
    sdk["bfrt_grpc"].__dict__.update(
        client=client, bfruntime_pb2=sdk["bfrt_grpc.bfruntime_pb2"],
        bfruntime_pb2_grpc=sdk["bfrt_grpc.bfruntime_pb2_grpc"],
    )  # fmt: skip
    sdk["bfrtcli"].__dict__.update(names)
    sys.modules |= {**sdk, "bfrt_grpc.client": client}
    for name in ("SDE", "SDE_INSTALL"):  # scripts add folders in them to sys.path
        os.environ.setdefault(name, "/no-sde")
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent.absolute()))
    statuses = []  # of the main thread and of threads that failed
    before, hook = threading.enumerate(), threading.excepthook

    def report_thread(failure: threading.ExceptHookArgs) -> None:
        if isinstance(failure.exc_value, Exception):  # not SystemExit
            statuses.append(_report(failure.exc_value))

    threading.excepthook = report_thread
    try:
        try:
            exec(code, {"__name__": "__main__", "__file__": str(path), **names})
            while shell.callbacks:  # until Ctrl-C
                found = tables.next_digest(LOOK_S)
                if found is not None and found[0] in shell.callbacks:
                    shell.callbacks[found[0]](0, 0, 0, 0, None, found[1])
        except (SystemExit, Exception) as error:
            statuses.append(_report(error))
        _wait_for_threads(before)
    finally:
        threading.excepthook = hook
    return next(filter(None, statuses), 0)


def _report(error: SystemExit | Exception) -> int:
    """Print why the script or one of its threads ended. Return the exit status."""
    frames = _frames(error)
    if isinstance(error, SystemExit):
        if isinstance(error.code, int | None):
            return error.code or 0
        print(error.code, file=sys.stderr)
    elif isinstance(error, BfrtError) or _is_wrong_call(error) or not frames:
        place = [f"{frame.f_code.co_filename}:{line}: " for frame, line in frames[-1:]]
        kind = "" if isinstance(error, BfrtError) else f"{type(error).__name__}: "
        print(*place, kind, " ".join(str(error).split()), sep="", file=sys.stderr)
    else:
        shown = traceback.StackSummary.extract(iter(frames)).format()
        print("Traceback (most recent call last):\n", *shown,
              *traceback.format_exception_only(error), sep="", end="", file=sys.stderr)  # fmt: skip
    return FAILED


def _wait_for_threads(before: list[threading.Thread]) -> None:
    """Wait for the threads of the script, which may start other threads, such as timers."""
    while others := [
        thread for thread in threading.enumerate() if not thread.daemon and thread not in before
    ]:
        others[0].join()


class _ModuleOfSdk(ModuleType):
    """A module that scripts import, although most do not use it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise BfrtError(f"{self.__name__}.{name}: only Tofino's SDE has this")


def _is_wrong_call(error: Exception) -> bool:
    """Return whether a name of bfrt got arguments that it does not take."""
    if any(_module(at) in _NAMES for at in traceback.walk_tb(error.__traceback__)):
        return True
    called = str(error).partition("(")[0].partition(".")[0]  # of a TypeError: Table.entry_add()
    return isinstance(error, TypeError) and any(called in vars(sys.modules[m]) for m in _NAMES)


def _frames(error: BaseException) -> list[tuple[FrameType, int]]:
    """Return the frames of the script and of the modules that it uses.

    The frames of Telemark, and of what it calls, are left out.
    """
    frames = [*traceback.walk_tb(error.__traceback__)]
    inner = next((i for i, at in enumerate(frames) if _module(at) in _NAMES), len(frames))
    return [at for at in frames[:inner] if _module(at) != __name__]


def _module(at: tuple[FrameType, int]) -> str:
    return str(at[0].f_globals.get("__name__", ""))
