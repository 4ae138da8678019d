"""Grouped reports in virtual time give the findings of single reports, with fewer packets."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mininet.topo import Topo
from virtual_networks import virtually

from collectors.int.application import Collector, Encoding, Findings
from controllers.connection import connections, cpu_ports
from controllers.int.domain import Domain, configure
from controllers.int.grouping import Grouping, flush, flush_every
from controllers.int.watch import Instruction, Mode, WatchedFlow
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic

OURS = Encoding(port=32767, dscp=0x04, dscp_mask=0x3C, timestamp_unit_ns=1000, latency_unit_ns=1000)
COUNT, RATE_PPS = 203, 2000
TIMES = Instruction.NODE_ID | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME


class ThreeHops(Topo):
    """h1 - s1 - s2 - s3 - h2, and h3 at s3."""

    def build(self) -> None:
        names = ("h1", "s1", "s2", "s3", "h2")
        for name in names:
            (self.addHost if name[0] == "h" else self.addSwitch)(name)
        for number in range(4):
            # Links have no rate, so reports cause no delay.
            self.addLink(*names[number : number + 2], delay_us=100)
        self.addLink("s3", self.addHost("h3"))


def found(folder: Path, grouping: Grouping | None, *, timer_s: float = 0) -> Findings:
    """Return the findings for a flow that each switch reports.

    A flush sends incomplete groups at the end, or a timer sends them.
    """
    folder.mkdir()
    watched = WatchedFlow("10.0.0.1", "10.0.0.2", mode=Mode.EXPORT, instructions=TIMES)
    domain = Domain("h3", [watched], grouping=grouping)
    program = "p4src/int/grouped.p4" if grouping else "p4src/int/int.p4"

    async def main(run: Run) -> Network:
        topo = ThreeHops()
        with Network(topo, run, program=program, switch_options=cpu_ports(topo)) as net:
            net.run_application("h3", Collector(OURS))
            async with connections(net) as switches:
                await configure(net, switches, domain)
                timer = asyncio.create_task(flush_every(switches.values(), timer_s or 3600))
                async with Traffic(net, [Flow(1, "h1", "h2", RATE_PPS, COUNT)]) as traffic:
                    await traffic.finish(1.0)
                if not timer_s:
                    await flush(switches.values())
                await run.clock.sleep_until(run.clock.now_ns() + 10**8)
                timer.cancel()
        return net

    result = virtually(folder, main).applications[0].result
    assert isinstance(result, Findings)
    return result


@pytest.mark.parametrize("reports", [2, 8])
def test_the_same_is_found_of_fewer_packets(reports: int, tmp_path: Path) -> None:
    alone = found(tmp_path / "alone", None)
    groups = found(tmp_path / "groups", Grouping(reports))
    assert alone.reports == groups.reports == 3 * COUNT
    # The arrival times of reports may differ, but all other fields are equal.
    for name in {*(alone.flows.dtype.names or ())} - {"first_ns", "last_ns"}:
        np.testing.assert_array_equal(alone.flows[name], groups.flows[name], name)
    for source in groups.sources:
        assert source["datagrams"] == -(-COUNT // reports)
    for name in ("lost", "missing"):
        assert groups.sources[name].sum() == 0
    assert len(groups.gaps) == 0


def test_a_timer_brings_what_is_left(tmp_path: Path) -> None:
    """A timer sends incomplete groups.

    Each switch reports 203 packets, which is not a multiple of the group size. The timer runs every
    2 ms, and 4 or 5 reports wait then.
    """
    groups = found(tmp_path / "groups", Grouping(8), timer_s=0.002)
    assert groups.reports == 3 * COUNT
    datagrams = groups.sources["datagrams"]
    assert np.all((datagrams > COUNT // 8 + 10) & (datagrams < COUNT // 3))


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"reports": 0}, "expected 1 to 8 reports"), ({"reports": 9}, "expected 1 to 8 reports"),
     ({"wait_us": -1}, "expected 0 to 2\\^48 - 1 us")],
)  # fmt: skip
def test_what_cannot_be_is_refused(given: dict[str, int], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        replace(Grouping(), **given)
