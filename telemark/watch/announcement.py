"""File with the description of a running network in real time. `telemark watch` reads it."""

import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mininet.topo import Topo

from telemark.watch.measurement import started

FILE = "network.json"


@contextlib.contextmanager
def announced(folder: Path, name: str, topo: Topo, switches: Iterable[Any]) -> Iterator[None]:
    """Keep the description in the folder of a network while the network runs."""
    path, partial = folder / FILE, folder / f".{FILE}"
    partial.write_text(json.dumps(started(name, topo, switches, time.monotonic_ns())))
    partial.replace(path)  # readers see only complete files
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def announcement(run: Path) -> str | None:
    """Return the description of the newest network in the folder of a run, in JSON."""
    found = {}
    for path in run.glob(f"*/{FILE}"):
        with contextlib.suppress(FileNotFoundError):  # the network has just stopped
            found[path.stat().st_mtime_ns] = path.read_text()
    return found[max(found)] if found else None
