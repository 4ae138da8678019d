"""Memory of a collector, with the sessions and the service of the translator that writes to it.

h2 = collector("h2", "10.0.0.2", [Area(slot(1), SLOTS, partial(KeyWriteStore, 1, SLOTS))], folder)
translator = Translator(h2.sessions, [h2.service])
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from collectors.roce.application import Responder, Writer
from collectors.roce.endpoint import Peer
from controllers.dta.stores import Store
from controllers.dta.translator import Service, WriteSession
from controllers.roce.queue_pair import QueuePair

FIRST_PSN = 0xFFFF00  # close to 2^24, so that sequence numbers wrap around in every run


@dataclass(frozen=True)
class Area:
    """A memory area of a collector, and its store.

    `store` is a function that creates the store for a range of sessions. `file` is the name of the
    file that contains the memory, or None if the memory is not in a file.
    """

    record: np.dtype[Any]
    count: int
    store: Callable[[range], Store]
    session: type[QueuePair] = WriteSession
    file: str | None = None


@dataclass(frozen=True)
class Collector:
    """Application of a collector's host, with the sessions and the service for the translator."""

    responder: Responder
    sessions: Sequence[QueuePair]
    service: Service


def collector(
    host: str, address: str, areas: Sequence[Area], folder: Path, *,
    switch_address: str = "10.0.9.1", first_session: int = 1,
) -> Collector:  # fmt: skip
    """Create a collector for the host with this IPv4 address. Each area has its own session.

    `switch_address` is the address of the translator. The first session has the number
    `first_session`. Raises ValueError for invalid stores.
    """
    numbers = range(first_session, first_session + len(areas))
    peers = [Peer(switch_address, qpn=0x10 + number, psn=FIRST_PSN) for number in numbers]
    writers = [
        Writer(peer, area.record, area.count, folder / area.file if area.file else None)
        for peer, area in zip(peers, areas, strict=True)
    ]
    responder = Responder(address, writers)
    sessions = [
        area.session(number, host, peer, target)
        for number, area, peer, target in zip(numbers, areas, peers, responder.targets, strict=True)
    ]
    stores = [area.store(range(n, n + 1)) for n, area in zip(numbers, areas, strict=True)]
    return Collector(responder, sessions, Service(address, stores))
