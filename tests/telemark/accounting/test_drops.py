"""A run reports how many packets were lost, where, and for which reason.

In some tests, no packet of a flow arrives. In other tests, switches drop packets.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaded import StartExperiment

from telemark.accounting.drops import MAX_WARNINGS, DropReport
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.tcp import ANSWERS, PROGRESS, RECEIVED, TcpFlow, TcpRecord
from topologies.basic import Line

HEAD = """
import finsy as fy
from controllers.connection import connection
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from mininet.topo import Topo

ROUTER = "p4src/routing/router.p4"

class One(Topo):
    def build(self, **link):
        s1 = self.addSwitch("s1")
        self.addLink(self.addHost("h1"), s1)
        self.addLink(s1, self.addHost("h2"), **link)

def route(net, host, port):
    return +fy.P4TableEntry("routes", match=fy.Match({"hdr.ipv4.dst_addr": net.host(host).IP()}),
                            action=fy.Action("send", mac_addr=net.host(host).MAC(), port=port))
"""

# The first flow arrives or not, depending on the entries. The second flow goes in the opposite
# direction and always arrives.
RUN = """
with Network(One({link}), run, program=ROUTER, {network}) as net:
    async with connection(net, "s1") as s1:
        {entries}
    flows = [Flow(1, "h1", "h2", rate_pps=1000, count=100, size=1000, {flow}),
             Flow(2, "h2", "h1", rate_pps=1000, count=50)]
    async with Traffic(net, flows) as traffic:
        records = await traffic.finish()
return Report([], [Check("back", len(records[2].received), 50)])
"""

TO_300 = 'await s1.write([route(net, "h1", 1), route(net, "h2", 300)])'
NO_ENTRY = 'await s1.write([route(net, "h1", 1)])'
ALL = 'await s1.write([route(net, "h1", 1), route(net, "h2", 2)])'
VANISHED = "flows that lost all packets (network: flow 1 from h1 to h2)"
TOLD_300 = "warning: switch s1: 100 packets were dropped: port 300 does not exist, or is down"
TOLD_MISS = "warning: switch s1: 100 packets received at port 1 were dropped in ingress by the"


def run(
    start: StartExperiment, folder: Path, time: str = "virtual", entries: str = ALL, **changes: str
) -> tuple[int, str, dict[str, Any]]:
    """Return the exit status, the output, and summary.json."""
    values = {"network": "", "flow": "", "link": "", **changes, "entries": entries}
    process = start(RUN.format(**values), "--time", time, head=HEAD)
    output, errors = process.communicate()
    assert errors == ""
    summary = json.loads((folder / "out" / "summary.json").read_text())
    return process.returncode, " ".join(output.split()), summary


def dropped(port: str, reason: str, packets: int, *, expected: bool = False) -> dict[str, Any]:
    return {"network": "network", "switch": "s1", "port": port, "reason": reason,
            "packets": packets, "expected": expected}  # fmt: skip


def test_what_arrives_says_nothing(start_experiment: StartExperiment, tmp_path: Path) -> None:
    status, told, summary = run(start_experiment, tmp_path)
    assert status == 0
    assert "warning" not in told
    assert summary["drops"] == []
    assert [check["name"] for check in summary["checks"]] == ["back"]


@pytest.mark.parametrize("time", ["virtual", "real"])
@pytest.mark.parametrize(
    "case",
    [
        (TO_300, TOLD_300, dropped("300", "no_port", 100)),
        (NO_ENTRY, TOLD_MISS, dropped("1", "miss", 100)),
    ],
)
def test_a_flow_of_which_nothing_arrives_fails_the_run(
    start_experiment: StartExperiment, tmp_path: Path, time: str, case: tuple[Any, ...]
) -> None:
    entries, told, drop = case
    status, output, summary = run(start_experiment, tmp_path, time, entries)
    assert status == 1
    assert told in output
    assert summary["drops"] == [drop]
    failed = [check for check in summary["checks"] if not check["passed"]]
    assert [(check["name"], check["measured"]) for check in failed] == [(VANISHED, 1)]


def test_what_is_meant_is_no_failure(start_experiment: StartExperiment, tmp_path: Path) -> None:
    status, told, summary = run(
        start_experiment, tmp_path, entries=NO_ENTRY,
        network="expected_drops=['miss']", flow="allow_total_loss=True",
    )  # fmt: skip
    assert status == 0
    assert "warning" not in told
    assert summary["drops"] == [dropped("1", "miss", 100, expected=True)]


def test_unexpected_drops_are_reported(start_experiment: StartExperiment, tmp_path: Path) -> None:
    status, told, summary = run(
        start_experiment, tmp_path, entries=TO_300,
        network="expected_drops='ingress'", flow="allow_total_loss=True",
    )  # fmt: skip
    assert status == 0
    assert TOLD_300 in told
    assert summary["drops"] == [dropped("300", "no_port", 100)]


def test_a_full_queue_comes_of_a_rate_and_needs_no_warning(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    """A queue that is full because the link has a rate causes no warning.

    A hundred packets arrive at intervals of 1 ms, and the link sends each of them in 8 ms. During
    this time, the link sends 13 packets, and 4 packets wait. The queue drops the rest.
    """
    status, told, summary = run(start_experiment, tmp_path, link="bw=1, max_queue_size=4")
    assert status == 0
    assert "warning" not in told
    (drop,) = summary["drops"]
    assert (drop["switch"], drop["port"], drop["reason"]) == ("s1", "2", "queue")
    assert drop["expected"]
    assert 75 < drop["packets"] < 90


def test_a_failing_run_tells_why_nothing_came(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    body = RUN.format(network="", flow="", link="", entries=TO_300) + "\n"
    body = body.replace("return Report", "records[1].received[0]\nreturn Report")
    process = start_experiment(body, "--time", "virtual", head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 3
    assert "IndexError" in errors
    assert TOLD_300 in " ".join(output.split())


def counted(ports: dict[str, dict[str, int]], **other: dict[str, int]) -> dict[str, Any]:
    return {"ports": {port: {"drops": drops} for port, drops in ports.items()},
            "other_ports": {port: {"drops": drops} for port, drops in other.items()}}  # fmt: skip


def test_networks_are_told_together_and_the_worst_first() -> None:
    found = DropReport()
    for name in ("a", "b"):
        found.add_network(name, {"s1": counted({"1": {"no_group": 3, "link": 9}})}, [])
        found.add_network(name, {"s2": counted({"2": {"ingress": 500}})}, [])
    # drops by links are not reported
    assert {drop.reason for drop in found.drops} == {"no_group", "ingress"}
    first, second = found.warnings()
    assert first.startswith("warning: switch s2: 1,000 packets received at port 2 were dropped")
    assert second.startswith(
        "warning: switch s1: 6 packets received at port 1 were dropped: their multicast"
    )
    for number in range(20):
        found.add_network("c", {f"s{number}": counted({"7": {"egress": 1}})}, [])
    assert len(found.warnings()) == MAX_WARNINGS + 1
    assert found.warnings()[-1] == "warning: 14 more switch ports dropped packets: see summary.json"


@pytest.mark.parametrize(
    ("expected", "warns"),
    [([], True), (["queue"], True), (["ingress"], False), (["miss"], False), (["bmv2"], False)],
)
def test_what_bmv2_swallowed_is_told_unless_its_program_may_have_dropped_it(
    expected: list[str], warns: bool
) -> None:
    found = DropReport()
    found.add_network("a", {"s1": counted({}, bmv2={"bmv2": 3})}, expected)
    assert [drop.packets for drop in found.drops] == [3]
    told = "warning: switch s1: 3 packets were dropped inside bmv2 (sum over all ports)"
    assert found.warnings() == ([told] if warns else [])


def test_a_tcp_flow_that_lost_all_packets_is_reported() -> None:
    """A TCP flow from which no byte arrived is reported, however soon the kernel gave up."""
    flow, found = TcpFlow(7, "h1", "h2", size_bytes=1), DropReport()
    for number in (0, 1):
        progress, received = np.zeros(1, PROGRESS), np.zeros(number, RECEIVED)
        record = TcpRecord(flow, progress, received, np.zeros(0, ANSWERS))
        found.add_flows("network", [record])
    assert found.flows == ["network: flow 7 from h1 to h2"]
    (check,) = found.checks()
    assert (check.measured, check.passed) == (1, False)


def test_a_reason_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        TestbedError, match=r"expected_drops: unknown reason 'ingres'; use one of miss, ingress"
    ):
        Network(Line(), Run("test", tmp_path, 1), program="x.p4", expected_drops=["ingres"])
