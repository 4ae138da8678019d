"""Drop reports of a domain: one for each dropped packet of a watched flow."""

from collections import Counter
from pathlib import Path

import applications
import pytest
from int_layers import LAST, QUEUE, Report, take_report
from mininet.topo import Topo
from virtual_networks import virtually

from controllers.connection import connections
from controllers.int.domain import REPORT_PORT, Domain, configure
from controllers.int.watch import Denied, Instruction, Mode, WatchedFlow
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic

DENIED, QUEUE_FULL = 80, 71
DEPTH = 10
COUNT = 300


class Bottleneck(Topo):
    """h1, h3 - s1 - s2 - h2. The link between the switches can carry half of the packets."""

    def build(self) -> None:
        for switch, hosts in (("s1", ("h1", "h3")), ("s2", ("h2",))):
            self.addSwitch(switch)
            for host in hosts:
                self.addLink(switch, self.addHost(host))
        self.addLink("s1", "s2", rate_bps=3e6, queue_packets=DEPTH)


def lost(folder: Path, *, deflect: bool) -> tuple[dict[int, int], list[Report]]:
    """Return the lost packets of each flow, and the reports.

    Flows 1 and 3 are watched.
    """

    async def main(run: Run) -> tuple[dict[int, int], list[Report]]:
        options = dict.fromkeys(("s1", "s2"), ["--deflect-on-drop"] if deflect else [])
        with Network(Bottleneck(), run, program="p4src/int/int.p4", switch_options=options,
                     expected_drops=("ingress",)) as net:  # fmt: skip
            flows = [
                Flow(n, "h1", "h2", rate_pps=970 + 30 * n, count=COUNT, size=400) for n in (1, 2, 3)
            ]
            watched = [WatchedFlow("10.0.0.1", "10.0.0.2", dst_port=port, mode=Mode.DROPS)
                       for port in (5001, 5003)]  # fmt: skip
            denied = Denied("10.0.0.0/24", dst_port=5003, switches=("s1",))
            domain = Domain("h3", watched, drops=Instruction.QUEUE, denied=[denied])
            reports = net.run_application("h3", applications.Counter(REPORT_PORT))
            async with connections(net) as switches:
                await configure(net, switches, domain)
                async with Traffic(net, flows) as traffic:
                    records = await traffic.finish(1.0)
        accounting = PacketAccounting.from_network(net, records)
        assert all(check.passed for check in accounting.checks()), accounting
        missing = {number: COUNT - len(flow.received) for number, flow in records.items()}
        _, came = reports.result
        return missing, [take_report(datagram.payload) for datagram in came]

    missing, reports = virtually(folder, main)
    return missing, reports


@pytest.mark.parametrize("deflect", [True, False])
def test_each_packet_of_a_watched_flow_that_is_dropped_is_reported(
    tmp_path: Path, deflect: bool
) -> None:
    missing, reports = lost(tmp_path, deflect=deflect)
    assert missing[3] == COUNT
    assert min(missing[1], missing[2]) > COUNT // 4
    reasons = Counter(report.metadata[LAST] >> 16 & 0xFF for report in reports)
    assert reasons == Counter({DENIED: COUNT, QUEUE_FULL: missing[1] if deflect else 0})
    for report in reports:
        assert (report.head.dropped, report.head.flow, report.group.node) == (1, 1, 1)
        if report.metadata[LAST] >> 16 == QUEUE_FULL:
            assert report.metadata[QUEUE] == DEPTH


def test_what_cannot_be_denied_is_refused() -> None:
    with pytest.raises(ValueError, match=r"denied fd00::1 -> .*: expected IPv4 addresses"):
        Denied("fd00::1")
