"""File with the description of the running network in real time. `telemark watch` reads it."""

import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mininet.topo import Topo

from telemark.backends.real.isolation import OWNER
from telemark.watch.measurement import started

FILE = "network.json"


@contextlib.contextmanager
def announced(folder: Path, name: str, topo: Topo, switches: Iterable[Any]) -> Iterator[None]:
    """Keep the description in the folder of the run while the network runs.

    `folder` is that of the network, which is in the folder of the run.
    """
    run = next((each for each in folder.parents if (each / OWNER).exists()), folder)
    path, partial = run / FILE, folder / FILE
    partial.write_text(json.dumps(started(name, topo, switches, time.monotonic_ns())))
    partial.replace(path)  # readers see only complete files
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def announcement(run: Path) -> str | None:
    """Return the description of the network in the folder of a run, in JSON."""
    try:
        return (run / FILE).read_text()
    except FileNotFoundError:  # no network runs
        return None
