"""The part of the judge that runs in the virtual machine: a region and a queue pair per case.

This module must not import scapy, which is slow in the virtual machine.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from collectors.roce.endpoint import Access, Completion, Peer, Target, Transport
from collectors.roce.region import Region
from collectors.roce.verbs import Verbs


class Bench(NamedTuple):
    """The region and the queue pair that a case needs."""

    address: str
    peer: Peer
    transport: Transport
    access: Access
    region_access: Access
    receives: int
    memory: bytes  # initial content


class Benches:
    """Regions and queue pairs of all cases."""

    def __init__(self, benches: Sequence[Bench]) -> None:
        self._endpoints: dict[tuple[str, int], Verbs] = {}
        self._regions = []
        self.targets: list[Target] = []
        for bench in benches:
            key = bench.address, bench.receives
            if key not in self._endpoints:
                self._endpoints[key] = Verbs(bench.address, receives=bench.receives)
            region = Region(np.dtype("u1"), len(bench.memory))
            region.bytes[:] = np.frombuffer(bench.memory, np.uint8)
            domain = self._endpoints[key].register(region, bench.region_access)
            self._regions.append(region)
            self.targets.append(self._endpoints[key].connect(
                domain, bench.peer, transport=bench.transport, access=bench.access
            ))  # fmt: skip

    def connected(self) -> list[Target]:
        """Return the parameters for peers, in the order of cases."""
        return self.targets

    def results(self) -> tuple[list[bytes], list[Completion]]:
        """Return the content of the regions in the order of cases, and all completions.

        Close all queue pairs.
        """
        memory = [region.bytes.tobytes() for region in self._regions]
        endpoints = self._endpoints.values()
        completions = [each for endpoint in endpoints for each in endpoint.completions()]
        for endpoint in endpoints:
            endpoint.close()
        return memory, completions
