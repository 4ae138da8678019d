"""Show a running network on a local web page, although its run has no option --watch.

The command attaches to a run in real time of the same user, and ends with this run or by Ctrl-C. It
only reads counters. In virtual time, the run needs the option --watch.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from telemark.backends.real import isolation
from telemark.errors import TestbedError
from telemark.session import cli
from telemark.watch.announcement import announcement
from telemark.watch.publisher import UPDATE_S, Publisher, WatchServer

INTERRUPTED = 130  # exit status after Ctrl-C


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `telemark watch`."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="name of the run (default: the only run)"
    )


def run(options: argparse.Namespace) -> int:
    """Serve the page until the run ends. Return the exit status."""
    try:
        folder = find_run(isolation.running(), options.name)
        with WatchServer(experiment_of(folder), is_virtual=False) as server:
            follow(folder, server.publisher)
    except TestbedError as error:
        print(f"telemark watch: error: {error}", file=sys.stderr)
        return cli.UNUSABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    return cli.PASSED


def find_run(runs: Mapping[Path, bool], name: str | None) -> Path:
    """Return the folder of the run in real time that has this name. Raises TestbedError.

    `runs` is from isolation.running(). The name is that of the experiment or of the folder.
    """
    matching = {folder: is_real for folder, is_real in runs.items()
                if name in (None, folder.name, experiment_of(folder))}  # fmt: skip
    found = [folder for folder, is_real in matching.items() if is_real]
    if len(found) == 1:
        return found[0]
    names = ", ".join(folder.name for folder in found or matching or runs)
    if found:
        raise TestbedError(f"several runs in real time; add the name of one: {names}")
    if matching:
        raise TestbedError(f"cannot attach to virtual time ({names}); start the run with --watch")
    if runs:
        raise TestbedError(f"no run {name}; expected one of {names}")
    remedy = "start one, or use sudo, because root owns them" if os.geteuid() else "start one first"
    raise TestbedError(f"no run in real time; {remedy}")


def experiment_of(folder: Path) -> str:
    """Return the name of a run's experiment."""
    return folder.name.rpartition("-")[0]


def follow(folder: Path, publisher: Publisher) -> None:
    """Send the networks of a run to the server process until the run ends."""
    shown = None
    while isolation.is_running(folder):
        found = announcement(folder)
        if found != shown:
            if shown is not None:
                publisher.stop_network({}, 0)
            if found is not None:
                publisher.send(json.loads(found))
            shown = found
        time.sleep(UPDATE_S)
