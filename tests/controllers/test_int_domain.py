"""A domain of five INT switches in virtual time: reports compared with captures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from int_layers import EGRESS, INGRESS, LATENCY, NODE, QUEUE, UTILISATION, take_int, take_report
from mininet.topo import Topo
from numpy.typing import NDArray
from virtual_networks import virtually

from controllers.connection import connections
from controllers.int.domain import Changes, Domain, QueueReports, configure, events
from controllers.int.watch import Instruction, Mark, Mode, WatchedFlow
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.application import Application, Host
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from telemark.traffic.received import Datagrams

PROGRAM = "p4src/int/int.p4"
PATH = ("h1", "s1", "s2", "s3", "s4", "s5", "h2")
# egress rate of each switch; the rates decrease, so that all switches have a queue
RATES_BPS = (5e6, 4.5e6, 4e6, 3.5e6, 2.4e6)
COUNT = 200
WANTED = Instruction(NODE | LATENCY | QUEUE | INGRESS | EGRESS | UTILISATION)


class FiveHops(Topo):
    """h1 - s1 - s2 - s3 - s4 - s5 - h2, each link slower than the one before; h3 at s5."""

    def build(self) -> None:
        for name in PATH:
            (self.addHost if name[0] == "h" else self.addSwitch)(name)
        for number, rate_bps in enumerate((1e9, *RATES_BPS)):
            self.addLink(*PATH[number : number + 2], rate_bps=rate_bps, queue_packets=1000)
        self.addLink("s5", self.addHost("h3"))


def utilisation(
    lengths: NDArray[np.uint32], left_us: NDArray[np.int64], rate_bps: float
) -> NDArray[np.float64]:
    """Return the utilisation in the window of 2^16 us before each packet's window.

    The unit is a millionth of the capacity.
    """
    windows = left_us >> 16
    by_window = np.bincount(windows, weights=lengths)
    return by_window[windows - 1] * 8 / (rate_bps * 0.065536) * 1e6


class Reports(Application):
    """Application that stores the payloads of all reports."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []

    def start(self, host: Host) -> None:
        host.udp(32766, self.on_reports, hold_us=1000)

    def on_reports(self, datagrams: Datagrams) -> None:
        self.payloads += [each.payload for each in datagrams]

    def result(self) -> list[bytes]:
        return self.payloads


def measured(folder: Path, flow: WatchedFlow, **options: Any) -> tuple[Network, list[bytes]]:
    """Send a flow that is watched as `flow`; return the network and the payloads of the reports.

    `options` are options of the domain.
    """

    async def main(run: Run) -> tuple[Network, list[bytes]]:
        with Network(FiveHops(), run, program=PROGRAM) as net:
            reports = net.run_application("h3", Reports())
            async with connections(net) as switches:
                await configure(net, switches, Domain("h3", [flow], **options))
                flows = [Flow(1, "h1", "h2", rate_pps=2000, count=COUNT, size=400)]
                async with Traffic(net, flows) as traffic:
                    records = await traffic.finish(1.0)
                assert [sum((await events(s)).values()) for s in switches.values()] == [0] * 5
        assert len(records[1].received) == COUNT
        accounting = PacketAccounting.from_network(net, records)
        assert all(check.passed for check in accounting.checks()), accounting
        return net, reports.result

    network, payloads = virtually(folder, main)
    return network, payloads


def times_ns(net: Network, switch: str, neighbour: str, what: str) -> NDArray[np.int64]:
    """Return when each packet of the flow passed a switch's port, in order."""
    frames = pcap.read(net.capture(switch, neighbour, what))
    is_flow = (frames.bytes[:, 30:34] == (10, 0, 0, 2)).all(axis=1)  # all other packets are reports
    time_ns = frames.time_ns[is_flow].astype(np.int64)
    assert len(time_ns) == COUNT
    return time_ns


def waiting(came_ns: NDArray[np.int64], left_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many earlier packets were in the queue when each packet arrived."""
    left_before = np.searchsorted(left_ns, came_ns, side="right")
    return np.arange(COUNT) - np.minimum(left_before, np.arange(COUNT))


def test_latency_and_queues_of_five_hops_match_captures(tmp_path: Path) -> None:
    flow = WatchedFlow("10.0.0.1", "10.0.0.2", instructions=WANTED)
    net, payloads = measured(tmp_path, flow)
    found = [take_report(payload) for payload in payloads]
    assert [report.group.sequence for report in found] == list(range(COUNT))
    assert {report.group.node for report in found} == {5}
    inside = [take_int(report.fragment[28:]) for report in found]
    # The hop of the source comes first; the metadata of the report are the sink's own hop.
    hops = [[*reversed(i.hops), r.metadata] for i, r in zip(inside, found, strict=True)]
    longest = []
    for number, switch in enumerate(PATH[1:-1]):
        came_ns = times_ns(net, switch, PATH[number], "in")
        left_ns = times_ns(net, switch, PATH[number + 2], "out")
        came_us, left_us = came_ns // 1000, left_ns // 1000
        values = [packet[number] for packet in hops]
        if number < 4:
            assert {value[NODE] for value in values} == {number + 1}
        assert [value[INGRESS] for value in values] == [*came_us]
        assert [value[EGRESS] for value in values] == [*left_us]
        assert [value[LATENCY] for value in values] == [*(left_us - came_us)]
        assert [value[QUEUE] for value in values] == [*waiting(came_ns, left_ns)]
        lengths = pcap.read(net.capture(switch, PATH[number], "in")).length
        assert [value[UTILISATION] for value in values] == pytest.approx(
            utilisation(lengths, left_us, RATES_BPS[number]), abs=1
        )
        longest.append(max(value[QUEUE] for value in values))
    assert min(longest) > 5, longest


@pytest.mark.parametrize(
    ("mode", "mark", "share", "reports"),
    [
        (Mode.EXPORT, Mark.DSCP, 1.0, 5 * COUNT),
        (Mode.INSTRUCTIONS, Mark.PORT, 1.0, 5 * COUNT),
        (Mode.DATA, Mark.NEW_UDP, 0.25, 50),
        (Mode.DROPS, Mark.DSCP, 1.0, 0),
    ],
)
def test_each_mode_reports_what_it_should(
    mode: Mode, mark: Mark, share: float, reports: int, tmp_path: Path
) -> None:
    flow = WatchedFlow(
        "10.0.0.0/30", "10.0.0.2", protocol=17, mode=mode, mark=mark, instructions=WANTED,
        share=share,
    )  # fmt: skip
    _, payloads = measured(tmp_path, flow)
    assert len(payloads) == pytest.approx(reports, abs=0 if share == 1 else 20)
    found = [take_report(payload) for payload in payloads]
    for node in {report.group.node for report in found}:
        sequences = [r.group.sequence for r in found if r.group.node == node]
        assert sequences == list(range(len(sequences)))


def test_full_queues_are_reported_up_to_their_quota(tmp_path: Path) -> None:
    flow = WatchedFlow("10.0.0.1", "10.0.0.2", mode=Mode.DROPS)
    limits = QueueReports(full=10, calm=5, quota=7, instructions=Instruction.QUEUE)
    net, payloads = measured(tmp_path, flow, queues=limits, drops=Instruction.LEVEL_1)
    found = [take_report(payload) for payload in payloads]
    assert {(r.head.dropped, r.head.congested, r.head.flow) for r in found} == {(0, 1, 1)}
    assert {r.group.node for r in found} == {1, 2, 3, 4, 5}
    # The last switch sends reports by another port, so they are not in this queue.
    depths = waiting(times_ns(net, "s5", "s4", "in"), times_ns(net, "s5", "h2", "out"))
    told = [r.metadata[QUEUE] for r in found if r.group.node == 5]
    assert told == [*depths[depths >= 10][:7]]


def test_a_flow_may_be_reported_once_a_period(tmp_path: Path) -> None:
    flow = WatchedFlow("10.0.0.1", "10.0.0.2", mode=Mode.EXPORT, instructions=Instruction(EGRESS))
    net, payloads = measured(tmp_path, flow, changes=Changes(period_shift=15))
    found = [take_report(payload) for payload in payloads]
    for number, switch in enumerate(PATH[1:-1]):
        left_us = times_ns(net, switch, PATH[number + 2], "out") // 1000
        firsts = left_us[np.unique(left_us >> 15, return_index=True)[1]]
        told = [r.metadata[EGRESS] for r in found if r.group.node == number + 1]
        assert told == [*firsts]
        assert len(told) > 2


def test_what_cannot_be_watched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_hops 0: expected 1 to 255"):
        WatchedFlow("10.0.0.1", "10.0.0.2", max_hops=0)
    with pytest.raises(ValueError, match="different IP versions"):
        WatchedFlow("10.0.0.1", "fd00::2")
    with pytest.raises(ValueError, match="share 0: expected more than 0"):
        WatchedFlow("10.0.0.1", "10.0.0.2", share=0)
    with pytest.raises(ValueError, match=r"instructions 0x10000: expected 16 bits"):
        WatchedFlow("10.0.0.1", "10.0.0.2", instructions=Instruction(0x10000))
    with pytest.raises(ValueError, match="set protocol=17"):
        WatchedFlow("10.0.0.1", "10.0.0.2", mark=Mark.PORT)
    with pytest.raises(ValueError, match="expected latency_shift 0 to 32"):
        Changes(latency_shift=33).parameters()
    with pytest.raises(TestbedError, match=r"no host has an address in 192.0.2.1; set `sour"):
        measured(tmp_path, WatchedFlow("192.0.2.1", "10.0.0.2"))
