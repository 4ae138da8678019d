"""Host edges and switches measure one flow with one collector; their counts agree in each block."""

import json
from pathlib import Path

import pytest
from loaded import StartExperiment

from controllers.ampm.edge import EdgeHop
from controllers.ampm.schedule import Schedule
from controllers.ampm.session import Cells
from controllers.ampm.watch import Tunnel, Watch, WatchedFlow
from ebpf.edge.ampm import MarkingEdge
from telemark.errors import IDLE_MACHINE, TestbedError

LIMIT_US = 2**18 * 7 // 32  # longest delay that this block length permits: see check_limits()
TUNNEL = Tunnel("fd01::1", "fd01::2")
HEAD = """
from contextlib import ExitStack
from controllers.ampm.collector import Collector
from controllers.ampm.edge import EdgeHop
from controllers.ampm.records import Point, first_packet_delay, pulse_delay, sample_delays
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, Method, WatchedFlow
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from ebpf.edge.ampm import MarkingEdge
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from telemark.accounting import pcap
from topologies.basic import Line
PATH, SCHEDULE, BLOCKS = ("s1", "s2"), Schedule(2**18), 3
METHODS = [Method.DOUBLE, Method.MULTIPLEXED, Method.STEP | Method.HASHED]
"""

BODY = """
topo = Line(switches=2, loss_probability=0.05)
with ExitStack() as edges:
    with Network(
        topo, run, program="p4src/ampm/ampm.p4", switch_options=cpu_ports(topo)
    ) as net:
        def edge(host, switch):
            namespace = f"/proc/{net.host(host).pid}/ns/net"
            return EdgeHop(host, edges.enter_context(
                MarkingEdge(net.interface(host, switch), namespace)))
        path = [
            edge("h1", "s1"),
            *(Hop(connection(net, n), forwarding_entries(net, n)) for n in PATH),
            edge("h2", "s2"),
        ]
        flows = [Flow(n, "h1", "h2", 1000, 1000 * (BLOCKS + 1) * SCHEDULE.block_us // 1_000_000)
                 for n in range(1, 4)]
        watched = {
            WatchedFlow(f.id, net.host("h1").IP(), net.host("h2").IP(), 17, dst_port=f.port,
                        methods=methods): path
            for f, methods in zip(flows, METHODS)
        }
        bounds = Bounds(delay_us=25_000)
        async with Collector(watched, SCHEDULE, run.clock, bounds=bounds) as collector:
            await collector.watch()
            first = SCHEDULE.block_at(run.clock.now_ns() // 1000 + 500_000) + 1
            start_ns = 1000 * (SCHEDULE.start_us(first) + SCHEDULE.block_us // 2)
            async with Traffic(net, flows, start_ns) as traffic:
                reports = [r async for r in collector.blocks(first, first + BLOCKS + 1)]
                records = await traffic.finish()
        kinds = {hop.name: hop.edge.kinds() for hop in (path[0], path[-1])}
    lost = {f.id: len(pcap.read_flow(net.capture("s1", "s2", "lost"), f).sequence)
            for f in flows}
    came = pcap.read_flows(net.capture("s2", "h2", "out"), flows)
known = {f.id: [
    {f"{p.switch} {p.name}": (r.packets, r.bytes) for p, r in report.records[f.id].items() if r}
    for report in reports] for f in flows}
a, b = Point("h1", "departures"), Point("h2", "arrivals")
pairs = [(r.records[n][a], r.records[n][b]) for n in (1, 2) for r in reports[1:-1]]
delays = [pulse_delay(*pair).delay_us for pair in pairs if all(pair)]
hashed = [sample_delays(r.records[3][a], r.records[3][b])[0] for r in reports[1:-1]
          if r.records[3][a] and r.records[3][b]]
return Report([], [Check("ran", 1, 1)], metrics={
    "known": known, "problems": [p for r in reports for p in r.problems], "kinds": kinds,
    "sent": {f.id: len(records[f.id].sent) for f in flows}, "lost": lost,
    "received": {f.id: len(records[f.id].received) for f in flows},
    "delays": [d for d in delays if d is not None],
    "sampled": [d for of_block in hashed for d in of_block.values()],
    "longest": max(float((r.received["received_ns"] - r.received["sent_ns"]).max()) / 1000
                   for r in records.values()),
    "marked": {f.id: int((came[f.id].dscp & 3 > 0).sum()) for f in flows},
})
"""


def test_hosts_and_switches_count_the_same_packets_in_each_block(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    process = start_experiment(BODY, "--out", str(tmp_path / "out"), head=HEAD)
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, output + errors
    found = json.loads((tmp_path / "out" / "summary.json").read_text())["metrics"]
    if found["problems"] or found["longest"] > LIMIT_US:
        problem = [*found["problems"], f"packets took up to {found['longest']:.0f} us"][0]
        pytest.fail(f"{problem}; {IDLE_MACHINE}")
    for flow, blocks in found["known"].items():
        totals = {name: sum(block[name][0] for block in blocks) for name in blocks[0]}
        before = [totals[f"{name}"] for name in ("h1 departures", "s1 arrivals", "s1 departures")]
        after = [totals[name] for name in ("s2 arrivals", "s2 departures", "h2 arrivals")]
        assert before == [found["sent"][flow]] * 3
        assert after == [found["received"][flow]] * 3
        assert before[0] - after[0] == found["lost"][flow] > 0
        for block in blocks:
            assert block["h1 departures"] == block["s1 arrivals"] == block["s1 departures"]
            assert block["s2 arrivals"] == block["s2 departures"] == block["h2 arrivals"]
    assert found["kinds"]["h1"]["watched"] == sum(found["sent"].values())
    assert found["kinds"]["h2"]["watched"] == sum(found["received"].values())
    assert min(found["marked"].values()) > 0  # marks, which the edge of h2 removes
    assert len(found["delays"]) > 0
    assert len(found["sampled"]) > 0
    for delay_us in found["delays"] + found["sampled"]:
        assert 0 < delay_us < found["longest"] + 1


@pytest.mark.parametrize(
    ("flow", "places", "problem"),
    [
        (WatchedFlow(1, "10.0.0.1", "10.0.0.2"), (False, False), "first or the last point"),
        (WatchedFlow(1024, "10.0.0.1", "10.0.0.2"), (True, False), "supports only flows 0 to 1023"),
        (WatchedFlow(1, "fd00::1", "fd00::2", flow_mon_id=1, tunnel=TUNNEL), (True, False),
         "does not support tunnels"),
        (WatchedFlow(1, "fd00::1", "fd00::2"), (True, False), "only in the AltMark option"),
    ],
)  # fmt: skip
def test_what_no_edge_can_do_is_refused(
    flow: WatchedFlow, places: tuple[bool, bool], problem: str, veth: tuple[str, str]
) -> None:
    with MarkingEdge(veth[0]) as edge, pytest.raises(TestbedError, match=problem):
        EdgeHop("h1", edge).session(Schedule(2**18), [Watch(flow, *places)], (Cells(), Cells()))
