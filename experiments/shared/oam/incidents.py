"""Incidents at one member of an ECMP group: loss, a queue, a slow link, and a reroute.

Data cross a leaf-spine fabric of two leaves (s1, s2) and two spines (s3, s4). Each incident
concerns the flows that cross one of the spines.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import finsy as fy
import numpy as np

from controllers.routing import ANY_MAC
from telemark.network import Network
from telemark.session.clock import Clock
from telemark.topology.routes import Route
from telemark.traffic.flows import Flow
from topologies.leaf_spine import LeafSpine

SOURCE_LEAF, SINK_LEAF = "s1", "s2"
SPINES = ("s3", "s4")
SENDER, CROSS_SENDER, COLLECTOR, RECEIVER = "h1", "h2", "h3", "h4"
CROSS_RECEIVERS = {"s3": "h5", "s4": "h6"}  # cross traffic over each spine
RATE_BPS, DELAY_US, QUEUE = 20_000_000, 500, 1000
SLOW_DELAY_US = 10_500  # delay of a link during the incident
LOSS_PROBABILITY = 0.05
CROSS_BYTES, CROSS_LOAD = 1000, 1.3
LINK_PPS = RATE_BPS // (8 * CROSS_BYTES)  # capacity of a link in packets/s of cross traffic
CROSS_FLOWS = 10_000  # first id of a cross flow, above those of data flows
DATA_BYTES = 200
PERIOD_S, LASTS_S, BURST_S = 1.05, 0.5, 0.05  # interval, duration; burst that fills a queue
AFTER_S = 0.7  # duration of traffic after the last incident


@dataclass(frozen=True)
class Pace:
    """Rates and durations that suit a target."""

    slower: int = 1  # factor by which the rate of the data is lower
    stretch: int = 1  # factor of all durations
    # rate of the queues that cross traffic fills, in packets/s
    queue_pps: int = LINK_PPS


# On bmv2, blocks of AM-PM are longer, so all durations are longer. The queue is in bmv2, and not in
# the link, because programs on bmv2 do not see the queues of links.
PACES = {"minip4": Pace(), "bmv2": Pace(slower=10, stretch=2, queue_pps=700)}


class Kind(Enum):
    """Kinds of incidents."""

    LOSS = "loss"
    QUEUE = "queue"
    SLOW = "slow link"
    REROUTE = "reroute"


Where = tuple[str, str]
"""A link (both switches), or a switch twice if the incident is inside the switch."""


@dataclass(frozen=True)
class Incident:
    """Incident that concerns the flows that cross `spine`. Times are relative to the traffic."""

    kind: Kind
    spine: str
    start_s: float
    end_s: float

    @property
    def where(self) -> Where:
        """Return the link or the switch of the incident."""
        if self.kind is Kind.LOSS:
            return SOURCE_LEAF, self.spine
        if self.kind is Kind.SLOW:
            return self.spine, SINK_LEAF
        return SOURCE_LEAF, SOURCE_LEAF


def plan(rounds: int, seed: int, pace: Pace) -> list[Incident]:
    """Return each kind of incident at each spine, once per round, at random phases of a block."""
    rng = np.random.default_rng(seed)
    found = []
    cases = [(kind, spine) for _ in range(rounds) for kind in Kind for spine in SPINES]
    for number, (kind, spine) in enumerate(cases, start=1):
        start_s = pace.stretch * (PERIOD_S * number - LASTS_S + rng.uniform(-0.2, 0.2))
        lasts_s = pace.stretch * (BURST_S if kind is Kind.QUEUE else LASTS_S)
        found.append(Incident(kind, spine, round(start_s, 6), round(start_s + lasts_s, 6)))
    return found


def fabric() -> LeafSpine:
    """Return the topology. All links between switches have the same rate and delay."""
    return LeafSpine(leaves=2, spines=2, hosts=3, rate_bps=RATE_BPS, delay_us=DELAY_US,
                     queue_packets=QUEUE)  # fmt: skip


def routes(net: Network) -> dict[str, Sequence[Route]]:
    """Return the routes of all switches. Cross traffic to each host has its own spine."""
    found = {name: net.topo.routes(name) for name in net.topo.switches()}
    cross = [Route(f"{net.host(host).IP()}/32", (spine,))
             for spine, host in CROSS_RECEIVERS.items()]  # fmt: skip
    found[SOURCE_LEAF] = [*cross, *found[SOURCE_LEAF]]
    return found


def data_flows(flows: int, rate_pps: float, lasts_s: float) -> list[Flow]:
    """Return the data flows. They have the same packet interval, and start at different times."""
    each_pps = rate_pps / flows
    count = max(round(each_pps * lasts_s), 1)
    return [
        Flow(number, SENDER, RECEIVER, each_pps, count, DATA_BYTES,
             after_s=(number - 1) / rate_pps)
        for number in range(1, flows + 1)
    ]  # fmt: skip


def cross_flows(incidents: Sequence[Incident], pace: Pace) -> list[Flow]:
    """Return the bursts that fill queues."""
    rate_pps = CROSS_LOAD * pace.queue_pps
    return [
        Flow(CROSS_FLOWS + number, CROSS_SENDER, CROSS_RECEIVERS[each.spine], rate_pps,
             round(rate_pps * pace.stretch * BURST_S), CROSS_BYTES, after_s=each.start_s)
        for number, each in enumerate(incidents) if each.kind is Kind.QUEUE
    ]  # fmt: skip


SetSpine = Callable[[str, str], Awaitable[None]]
"""Function that sends the flows of a spine (first argument) over a spine (second argument)."""


def next_hop_setter(net: Network, leaf: fy.Switch) -> SetSpine:
    """Return the function that changes a member of the ECMP group of the source leaf."""

    async def set_next_hop(spine: str, to: str) -> None:
        action = fy.Action("send", mac_addr=ANY_MAC, port=net.port(SOURCE_LEAF, to))
        match = fy.Match({"group": 0, "member": SPINES.index(spine)})
        await leaf.modify([fy.P4TableEntry("next_hops", match=match, action=action)])

    return set_next_hop


Span = tuple[int, int]
"""Begin and end of an incident, in ns of the common clock."""


async def cause(
    net: Network, set_spine: SetSpine, incidents: Sequence[Incident], start_ns: int, clock: Clock
) -> dict[Incident, Span]:
    """Cause the incidents except queues, which cross flows cause. Return when each one happened."""
    spans = {}
    for incident in incidents:
        begin, end = _changes(net, set_spine, incident)
        begin_ns, end_ns = (
            start_ns + round(each * 1e9) for each in (incident.start_s, incident.end_s)
        )
        await clock.sleep_until(begin_ns)
        await begin()
        await clock.sleep_until(end_ns)
        await end()
        # In real time, the last change takes effect later than planned.
        spans[incident] = begin_ns, clock.now_ns()
    return spans


Change = Callable[[], Awaitable[None]]


def _changes(net: Network, set_spine: SetSpine, incident: Incident) -> tuple[Change, Change]:
    """Return the functions that begin and end an incident."""
    spine = incident.spine

    async def set_link(near: str, far: str, **change: float) -> None:
        net.switch(near).set_link(net.port(near, far), **change)

    async def nothing() -> None:
        pass

    if incident.kind is Kind.LOSS:
        return (lambda: set_link(SOURCE_LEAF, spine, loss_probability=LOSS_PROBABILITY),
                lambda: set_link(SOURCE_LEAF, spine, loss_probability=0.0))  # fmt: skip
    if incident.kind is Kind.SLOW:
        return (lambda: set_link(spine, SINK_LEAF, delay_us=SLOW_DELAY_US),
                lambda: set_link(spine, SINK_LEAF, delay_us=DELAY_US))  # fmt: skip
    if incident.kind is Kind.REROUTE:
        (other,) = (each for each in SPINES if each != spine)
        return lambda: set_spine(spine, other), lambda: set_spine(spine, spine)
    return nothing, nothing
