"""What a network bears of the traffic that is asked for, as a short probe of it found.

A bmv2 forwards some thousand packets a second, fewer the more the machine has to do, and drops what
comes faster, or keeps it for long. So before a run on bmv2 its flows are sent for a second, at half
their rates if that was too much, and so on: the run takes the rates that went well.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from telemark.errors import TestbedError
from telemark.session.clock import Clock
from telemark.traffic.flows import Flow, FlowRecord, RateError, Traffic

if TYPE_CHECKING:
    from telemark.network import Network
    from telemark.session.run import Run

PROBE_S = 1.0
HEADROOM = 2  # what is tried is so much more than what is taken
SHARES = tuple(2.0**-n for n in range(7))  # of the rates asked for
LONGEST_WAIT_US = 100_000.0  # in the switches: from there on queues only grow
DRAIN_S = 0.5
SETTLED_NS, SETTLINGS = 200_000_000, 25


@dataclass(frozen=True)
class ProbeResult:
    """One second of traffic: what of it bmv2 dropped, and by how much packets differed, us."""

    dropped: int
    wait_us: float  # of the packet that took longest, more than the one that took least

    @property
    def is_good(self) -> bool:
        """Nothing was lost, and nothing piled up."""
        return not self.dropped and self.wait_us < LONGEST_WAIT_US


@dataclass(frozen=True)
class CapacityEstimate:
    """What a network bears: this share of the rates asked for, at which packets waited so long."""

    share: float
    wait_us: float

    def rate(self, rate_pps: int) -> int:
        """What is borne of a rate, a packet a second at least."""
        return rate_pps if self.share == 1 else max(int(rate_pps * self.share), 1)

    def __str__(self) -> str:
        took = f"packets waited up to {self.wait_us / 1000:.1f} ms"
        if self.share == 1:
            return f"bmv2 bears the rates asked for ({took})"
        return f"bmv2 bears 1/{1 / self.share:.0f} of the rates asked for ({took})"


async def probe(net: "Network", flows: Sequence[Flow], run: "Run") -> CapacityEstimate:
    """What a network on bmv2, whose tables are filled, bears of these flows; the run says so.

    The network is for nothing else: what the probe loses is missing in its books. Raises
    TestbedError where it bears hardly anything.
    """
    net.expected_drops = [*net.expected_drops, "bmv2"]
    for share in SHARES:
        run.progress.update(f"{net.name}: is 1/{1 / share:.0f} of the rates asked for borne?")
        tried = [probe_flow(flow, share * HEADROOM) for flow in flows]
        trial = await _try(net, tried, run.clock)
        if trial.is_good:
            capacity = CapacityEstimate(share, trial.wait_us)
            run.capacities.append(capacity)
            run.progress.say(f"{net.name}: {capacity}")
            return capacity
    raise TestbedError(
        f"bmv2 does not bear 1/{1 / share:.0f} of the rates asked for here: it dropped "
        f"{trial.dropped} packets, and some waited {trial.wait_us / 1000:.1f} ms; leave the "
        "machine more idle, or take --target minip4"
    )


def probe_flow(flow: Flow, factor: float) -> Flow:
    """The part of a flow that is sent in a probe: as long as at its own rate, a second at most.

    Flows that begin later begin at once.
    """
    after_s = flow.after_s if flow.after_s < PROBE_S else 0.0
    rate_pps = flow.rate_pps * factor
    count = min(int(flow.count * factor), int(rate_pps * (PROBE_S - after_s)))
    return replace(
        flow, rate_pps=rate_pps, count=max(count, 1), after_s=after_s, allow_total_loss=True
    )


async def _try(net: "Network", flows: Sequence[Flow], clock: Clock) -> ProbeResult:
    before = _inside(net)
    try:
        async with Traffic(net, flows) as traffic:
            records = await traffic.finish(DRAIN_S)
    except RateError:
        wait_us = LONGEST_WAIT_US  # too much, whatever came through
    else:
        wait_us = max_queueing_delay_us(r for r in records.values() if isinstance(r, FlowRecord))
    return ProbeResult(await _settled(net, clock) - before, wait_us)


async def _settled(net: "Network", clock: Clock) -> int:
    """How many frames are inside when no more come out: what comes late must not meet the next
    trial's flows, which have the same ports."""
    last = -1
    for _ in range(SETTLINGS):
        if (inside := _inside(net)) == last:
            break
        last = inside
        await clock.sleep_until(clock.now_ns() + SETTLED_NS)
    return inside


def max_queueing_delay_us(records: Iterable[FlowRecord]) -> float:
    """The longest of any packet on its flow's way, more than the quickest one of the flow."""
    waits_us = [0.0]
    for record in records:
        took_ns = (record.received["received_ns"] - record.received["sent_ns"]).astype(np.int64)
        if len(took_ns):
            waits_us.append(float(took_ns.max() - took_ns.min()) / 1000)
    return max(waits_us)


def _inside(net: "Network") -> int:
    """Frames that have gone into a bmv2 so far, and not come out: in its queues, or dropped."""
    counters = [net.switch(name).read_counters()["inner"] for name in net.topo.switches()]
    return sum(counted["into"] - counted["out"] for counted in counters)
