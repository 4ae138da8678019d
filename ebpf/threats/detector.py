"""Detection of threats, per window, from the statistics of threats.bpf.c."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebpf.loader import ProgramObject, load
from ebpf.statistics import hashes, heavykeeper
from ebpf.statistics.flows import KEY
from ebpf.statistics.program import Buffers, possible_processors
from ebpf.statistics.totals import Totals
from ebpf.threats.alerts import Alert, Evidence, Kind

SOURCE = Path(__file__).parent / "threats.bpf.c"
SPREADER, SCANNER, FLOODED, ANSWERED = range(1, 5)  # values of enum kind
BITS = 512  # number of bits in the bitmap of a suspect
# UDP services whose responses are longer than their requests: DNS, NTP, SNMP, LDAP, SSDP,
# memcached, chargen, QOTD, RIP, portmapper (CISA, alert TA14-017A).
AMPLIFYING = (53, 123, 161, 389, 1900, 11211, 19, 17, 520, 111)


@dataclass(frozen=True)
class Limits:
    """Limits for one window. A value above its limit raises an alert."""

    share: float = 0.3  # fraction of all packets that one pair of hosts exchanges
    # the limit `share` applies only to windows with at least this number of packets
    min_packets: int = 1000
    destinations: int = 100  # number of hosts to which one host opens connections
    ports: int = 100  # number of ports of one host to which another host opens connections
    # number of new connections to a service. An alert also requires that less than half of these
    # connections continue
    openings: int = 1000
    answers: int = (
        # bytes of responses from amplifying services. An alert also requires that the responses
        # exceed five times the bytes of the requests
        100_000
    )
    reflectors: int = 10  # number of hosts that send these responses


@dataclass(frozen=True)
class Setting:
    """Limits of the detector, and the memory of each buffer of a CPU.

    `places` is the number of groups of four suspects; it is a power of two.
    """

    limits: Limits = field(default_factory=Limits)
    places: int = 4096
    columns: int = 585
    seed: int = 0
    amplifying: Sequence[int] = AMPLIFYING

    def sizes(self, processors: int) -> dict[str, int]:
        """Return the number of entries per map."""
        each = {"totals": 1, "losses": 1, "suspects": self.places, "counters": 1,
                "buckets": heavykeeper.ROWS * self.columns}  # fmt: skip
        return {"rng_states": processors, **{name: 2 * processors * n for name, n in each.items()}}

    def constants(self) -> dict[str, Any]:
        """Return the constants of the program."""
        ports = np.zeros(16, np.uint16)
        ports[: len(self.amplifying)] = self.amplifying
        return {
            "places": self.places, "columns": self.columns, "amplifying": ports,
            "hash_factors": hashes.draw_factors(self.seed), "decay": heavykeeper.decay_table(),
        }  # fmt: skip


class Detector:
    """Programs at_xdp and at_tc, and their observations since the last poll()."""

    def __init__(self, setting: Setting, loaded: ProgramObject) -> None:
        self.limits = setting.limits
        self.at_xdp, self.at_tc = loaded.programs["at_xdp"], loaded.programs["at_tc"]
        processors = possible_processors()
        self._buffers = Buffers(loaded, setting.sizes(processors), setting.seed)
        self.totals = Totals(0, 0, 0, 0, 0)  # totals of the window that ended last
        # counts since the start. refused: suspects that got no slot; replaced: suspects that lost
        # their slot to others
        self.refused = self.replaced = 0

    def poll(self) -> list[Alert]:
        """End a window. Return the alerts of this window; those with more packets come first."""
        raw = self._buffers.flip()
        when_ns = time.monotonic_ns()
        self.totals = Totals.of(raw["totals"][:, 0])
        self.refused += int(raw["losses"]["refused"].sum())
        self.replaced += int(raw["losses"]["replaced"].sum())
        found = [*self._heavy(raw["buckets"]), *self._suspects(raw["suspects"]["each"])]
        found.sort(key=lambda each: -each[1].packets)
        return [Alert(kind, evidence, when_ns) for kind, evidence in found]

    def _heavy(self, buckets: NDArray[Any]) -> Iterator[tuple[Kind, Evidence]]:
        packets = self.totals.packets
        if packets < self.limits.min_packets:
            return
        flows = heavykeeper.heavy_flows(buckets)
        over = flows.counts > self.limits.share * packets
        for key, count in zip(flows.keys[over], flows.counts[over], strict=True):
            (named,) = key.view(KEY)
            yield Kind.HEAVY_HITTER, _evidence(named, int(count), share=int(count) / packets)

    def _suspects(self, raw: NDArray[Any]) -> Iterator[tuple[Kind, Evidence]]:
        used = raw[raw["hash"] > 0]
        together: dict[tuple[int, bytes], list[Any]] = {}
        for each in used[used["packets"] >= self._least_packets()]:
            together.setdefault((int(each["kind"]), each["key"].tobytes()), []).append(each)
        for (number, key), parts in together.items():
            (named,) = np.frombuffer(key, KEY)
            sums = {name: sum(int(each[name]) for each in parts)
                    for name in ("packets", "bytes", "returned")}  # fmt: skip
            seen = np.bitwise_or.reduce([each["seen"] for each in parts])
            share = sums["packets"] / self.totals.packets
            evidence = _evidence(named, distinct=estimate(seen), share=share, **sums)
            kind = self._kind(number, evidence)
            if kind is not None:
                yield kind, evidence

    def _least_packets(self) -> float:
        """Return the smallest packet count per CPU at which a suspect can exceed a limit."""
        limits = self.limits
        least = min(limits.destinations, limits.ports, limits.openings, limits.reflectors)
        return least / 2 / possible_processors()

    def _kind(self, number: int, seen: Evidence) -> Kind | None:
        limits = self.limits
        if number == SPREADER and seen.distinct > limits.destinations:
            return Kind.SUPERSPREADER
        if number == SCANNER and seen.distinct > limits.ports:
            return Kind.PORT_SCAN
        if number == FLOODED and seen.packets > limits.openings > 0:
            return Kind.SYN_FLOOD if 2 * seen.returned < seen.packets else None
        if number == ANSWERED and seen.bytes > max(limits.answers, 5 * seen.returned):
            return Kind.AMPLIFICATION if seen.distinct > limits.reflectors else None
        return None


def _evidence(
    named: np.void, packets: int, bytes: int = 0, returned: int = 0, *, distinct: float = 0,
    share: float,
) -> Evidence:  # fmt: skip
    return Evidence(
        named["source"].tobytes(), named["destination"].tobytes(),
        int(named["source_port"]), int(named["destination_port"]), int(named["protocol"]),
        packets, bytes, distinct, returned, share,
    )  # fmt: skip


def estimate(seen: NDArray[np.uint64]) -> float:
    """Return the estimated number of elements in a bitmap, by linear counting.

    Whang et al., ACM TODS 1990.

    With m bits and n elements, the standard error is sqrt(m (e^(n/m) - n/m - 1)) / n. If all bits
    are set, the number is at least m ln(m).
    """
    empty = BITS - int(np.unpackbits(seen.view(np.uint8)).sum())
    return -BITS * math.log(max(empty, 1) / BITS)


@contextmanager
def detecting(setting: Setting) -> Iterator[Detector]:
    """Load a detector. Raises LoadError.

    Attach at_xdp or at_tc inside the `with` block.
    """
    processors = possible_processors()
    with load(SOURCE, setting.constants(), setting.sizes(processors)) as loaded:
        yield Detector(setting, loaded)
