"""Capacity probe: finds the packet rate that a network on bmv2 sustains.

bmv2 forwards a few thousand packets/s on an idle machine, and fewer on a loaded one. At higher
rates it drops or delays packets. Therefore, a run on bmv2 first probes its network: it sends its
flows for one second, and halves their rates until bmv2 sustains these rates. Then the run uses the
rates that bmv2 sustained.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from telemark.errors import IDLE_MACHINE, TestbedError, take_notes
from telemark.session.clock import Clock
from telemark.traffic.flows import Flow, FlowRecord, RateError, Traffic

if TYPE_CHECKING:
    from telemark.network import Network
    from telemark.session.run import Run

PROBE_S = 1.0
HEADROOM = 2  # the probe sends at twice the rate of the run
SHARES = tuple(2.0**-n for n in range(7))  # tested fractions of the requested rates
MAX_QUEUEING_DELAY_US = 100_000.0  # a larger queueing delay means that queues grow without bound
DRAIN_S = 0.5
# polls until the switches contain no frames: interval, and maximum number
POLL_NS, MAX_POLLS = 200_000_000, 150


@dataclass(frozen=True)
class ProbeResult:
    """Lost packets and queueing delay in one second of traffic."""

    dropped: int
    # largest difference between the delays of two packets of one flow
    queueing_delay_us: float
    max_queueing_delay_us: float = MAX_QUEUEING_DELAY_US

    @property
    def is_good(self) -> bool:
        """True if no packet was lost, and the queueing delay is below its maximum."""
        return not self.dropped and self.queueing_delay_us < self.max_queueing_delay_us


@dataclass(frozen=True)
class CapacityEstimate:
    """Sustained fraction of the requested rates, and the queueing delay at this fraction."""

    share: float
    queueing_delay_us: float

    def rate(self, rate_pps: int) -> int:
        """Return the rate times the sustained fraction, but at least 1 packet/s."""
        return rate_pps if self.share == 1 else max(int(rate_pps * self.share), 1)

    def __str__(self) -> str:
        delay = f"queueing delay up to {self.queueing_delay_us / 1000:.1f} ms"
        if self.share == 1:
            return f"bmv2 sustains the requested rates ({delay})"
        return f"bmv2 sustains 1/{1 / self.share:.0f} of the requested rates ({delay})"


async def probe(net: "Network", flows: Sequence[Flow], run: "Run") -> CapacityEstimate:
    """Find the fraction of the flows' rates that a network on bmv2 sustains, and report it.

    The caller must fill the tables of the network, and must use the network only for the probe. The
    probe loses packets, so the packet accounting of this network does not balance. Raises
    TestbedError if the network does not sustain the smallest fraction.
    """
    net.expected_drops = [*net.expected_drops, "bmv2"]

    async def attempt(factor: float) -> ProbeResult:
        return await _send(net, [probe_flow(flow, factor) for flow in flows], run.clock)

    return await _find_share(net.name, attempt, run)


async def probe_flows(
    net: "Network", flows: Sequence[Flow], run: "Run", max_delay_us: float
) -> CapacityEstimate:
    """Like probe(), for networks whose programs add frames, e.g. reports.

    Every lost packet of a flow counts as dropped by bmv2, so links must not lose packets. A rate is
    sustained only if the queueing delay is below `max_delay_us`.
    """
    net.expected_drops = [*net.expected_drops, "bmv2"]

    async def attempt(factor: float) -> ProbeResult:
        sent = [probe_flow(flow, factor) for flow in flows]
        received, delay_us = await _send_flows(net, sent)
        await _wait_until_drained(net, run.clock)
        lost = sum(flow.count for flow in sent) - received
        return ProbeResult(lost, delay_us, max_delay_us)

    return await _find_share(net.name, attempt, run)


async def probe_program(
    net: "Network", flow: Flow, count: Callable[[], Awaitable[int]], run: "Run"
) -> CapacityEstimate:
    """Like probe(), for networks whose programs add and consume frames.

    `count` returns how many packets of the flow the programs have handled so far.
    """

    async def attempt(factor: float) -> ProbeResult:
        sent, before = probe_flow(flow, factor), await count()
        received, delay_us = await _send_flows(net, [sent])
        await _wait_until_drained(net, run.clock)
        return ProbeResult(sent.count - min(received, await count() - before), delay_us)

    return await _find_share(net.name, attempt, run)


async def _find_share(
    name: str, attempt: Callable[[float], Awaitable[ProbeResult]], run: "Run"
) -> CapacityEstimate:
    """Find the largest fraction that is sustained, and report it for the network `name`.

    `attempt(factor)` sends traffic at `factor` times the requested rates, for at most PROBE_S.
    Raises TestbedError if the smallest fraction fails, too.
    """
    for share in SHARES:
        run.progress.update(f"{name}: probing 1/{1 / share:.0f} of the requested rates")
        result = await attempt(share * HEADROOM)
        if result.is_good:
            capacity = CapacityEstimate(share, result.queueing_delay_us)
            run.capacities.append(capacity)
            run.progress.say(f"{name}: {capacity}")
            return capacity
    raise TestbedError(
        f"bmv2 cannot sustain 1/{1 / share:.0f} of the requested rates: it dropped "
        f"{result.dropped} packets, with a queueing delay of "
        f"{result.queueing_delay_us / 1000:.1f} ms; {IDLE_MACHINE} or use --target minip4"
    )


def probe_flow(flow: Flow, factor: float) -> Flow:
    """Return the flow for a probe: `factor` times the rate, for at most one second.

    If the original flow starts after the end of the probe, the returned flow starts immediately.
    """
    after_s = flow.after_s if flow.after_s < PROBE_S else 0.0
    rate_pps = flow.rate_pps * factor
    count = min(int(flow.count * factor), int(rate_pps * (PROBE_S - after_s)))
    return replace(
        flow, rate_pps=rate_pps, count=max(count, 1), after_s=after_s, allow_total_loss=True
    )


async def _send(net: "Network", flows: Sequence[Flow], clock: Clock) -> ProbeResult:
    before = _frames_inside(net)
    _, delay_us = await _send_flows(net, flows)
    return ProbeResult(await _wait_until_drained(net, clock) - before, delay_us)


async def _send_flows(net: "Network", flows: Sequence[Flow]) -> tuple[int, float]:
    """Send the flows of a probe.

    Returns the number of received packets, and the queueing delay in us.
    """
    try:
        async with Traffic(net, flows) as traffic:
            with take_notes(None):  # a failed probe does not make the run inconclusive
                found = await traffic.finish(DRAIN_S)
    except RateError:
        return 0, MAX_QUEUEING_DELAY_US  # the rate is too high
    records = [record for record in found.values() if isinstance(record, FlowRecord)]
    return sum(len(each.received) for each in records), max_queueing_delay_us(records)


async def _wait_until_drained(net: "Network", clock: Clock) -> int:
    """Wait until no more frames leave the switches. Return how many frames are still inside.

    The flows of the next probe use the same ports, so late frames must not reach these flows.
    """
    last = -1
    for _ in range(MAX_POLLS):
        if (inside := _frames_inside(net)) == last:
            break
        last = inside
        await clock.sleep_until(clock.now_ns() + POLL_NS)
    return inside


def max_queueing_delay_us(records: Iterable[FlowRecord]) -> float:
    """Return the maximum queueing delay of all packets.

    The queueing delay of a packet is its delay minus the minimum delay of its flow.
    """
    queueing_us = [0.0]
    for record in records:
        delay_ns = (record.received["received_ns"] - record.received["sent_ns"]).astype(np.int64)
        if len(delay_ns):
            queueing_us.append(float(delay_ns.max() - delay_ns.min()) / 1000)
    return max(queueing_us)


def _frames_inside(net: "Network") -> int:
    """Return how many frames entered a bmv2 but did not leave it; bmv2 queued or dropped them."""
    counters = [net.switch(name).read_counters()["inner"] for name in net.topo.switches()]
    return sum(counted["into"] - counted["out"] for counted in counters)
