"""Host edges report the same packets as INT switches, with equal fields, to one collector."""

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path

import pytest
import wire
from bad_frames import frames
from decoding import datagrams
from int_path import ALL, IN, TO_COLLECTOR, Switch, tcp, udp
from loaded import StartExperiment
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption, fragment
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether

from collectors.int.decoder import Decoder, Encoding
from ebpf.edge.postcards import PostcardEdge
from ebpf.edge.watch_list import Key
from telemark.errors import IDLE_MACHINE

ENCODING = Encoding(timestamp_unit_ns=1000)
PORT, NODE = 32766, 0x01020304
INSTRUCTIONS = 0x4C00  # interfaces and times: the metadata that an edge knows, too
MACS = bytes.fromhex("020000000002 020000000001")
ETHER = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
ADDRESSES = {"src": "10.0.0.1", "dst": "10.0.0.2"}
EVERYTHING = [Key(ip_network(f"{zero}/0"), ip_network(f"{zero}/0")) for zero in ("0.0.0.0", "::")]
WHOLE = [
    udp(), udp(bytes(99)), udp(ip_id=0), udp(bytes(15), ip_id=0), udp(bytes(16), ip_id=0),
    udp(bytes(99), ip_id=0), udp(bytes(99), version=6), udp(version=6), tcp(), tcp(version=6),
    tcp(ip_id=0), udp(ip_options=[IPOption(b"\x01")] * 40),
    bytes(ETHER / IP(**ADDRESSES) / ICMP()),
    *(bytes(ETHER / each) for each in fragment(IP(**ADDRESSES) / UDP() / bytes(99), 64)),
    bytes(ETHER / IP(**ADDRESSES) / TCP(dataofs=4) / bytes(9)),
    bytes(ETHER / IP(**ADDRESSES) / TCP(dataofs=15) / bytes(9)),
    udp(bytes(99), ip_id=0)[:50], tcp()[:60], tcp()[:40],
    bytes(ETHER / Dot1Q(vlan=5) / IP(**ADDRESSES) / UDP()),
    # a report of another node
    bytes(ETHER / IP(src="10.0.0.1", dst="127.0.0.1") / UDP(dport=PORT)),
    bytes(ETHER / IPv6(nh=0) / bytes(40)),
]  # fmt: skip


@contextmanager
def reporting(device: str, share: int = ALL) -> Iterator[tuple[PostcardEdge, list[bytes]]]:
    """Yield an edge that reports all packets, and an empty list.

    When the `with` block ends, the list gets the datagrams that the edge has sent.
    """
    wire.run("ip link set lo up")
    sent: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as collector:
        collector.setsockopt(socket.SOL_SOCKET, wire.SO_RCVBUFFORCE, 1 << 24)
        collector.bind(("127.0.0.1", PORT))
        with PostcardEdge(device, NODE, ("127.0.0.1", PORT)) as edge:
            fields = {"priority": 1, "share": share, "instructions": INSTRUCTIONS}
            edge.watch(dict.fromkeys(EVERYTHING, fields))
            yield edge, sent
        collector.setblocking(False)
        try:
            while True:
                sent.append(collector.recv(2048))
        except BlockingIOError:
            pass
    assert edge.unsent == edge.without_room == 0


def reported(many: Sequence[bytes], share: int) -> list[bytes]:
    """Return the datagrams that an INT-XD switch sends for these frames."""
    switch = Switch(9)
    switch.report_all()
    # Packets to the collector are not reported, so switch and edge need the same collector.
    node = f"{switch.ingress}.watch"
    switch.engine.table_set_default(f"{node}.node", f"{node}.set_node", [9, 0, 0x7F000001, PORT])
    for version in (4, 6):
        switch.watch("export_data", [INSTRUCTIONS, share], version=version)
    return [frame[42:] for data in many for port, frame in switch.send(data, port=IN)
            if port == TO_COLLECTOR]  # fmt: skip


def compared(datagram: bytes) -> tuple[bytes, bytes]:
    """Return the parts of a report that do not depend on node and time: header and packet."""
    return datagram[8:20], datagram[20 + 4 * datagram[10] :]


@pytest.mark.parametrize("share", [ALL, ALL // 3])
@pytest.mark.parametrize("outgoing", [True, False], ids=["outgoing", "incoming"])
def test_reports_are_the_switch_s(veth: tuple[str, str], share: int, outgoing: bool) -> None:
    # the kernel drops a frame with fewer than six bytes after a tag
    tags = (b"\x81\x00", b"\x88\xa8")
    bad = [f for f in frames(5, 800, macs=MACS) if len(f) >= 20 or f[12:14] not in tags]
    many = [*WHOLE, *bad]
    with reporting(veth[0], share) as (edge, sent):
        with wire.end(veth[0 if outgoing else 1]) as sender:
            for data in many:
                sender.send(data)
        wire.await_true(lambda: sum(edge.kinds().values()) >= len(many))
        assert sum(edge.kinds().values()) == len(many)
    expected = reported(many, share)
    assert len(expected) > 300 * share // ALL
    assert [compared(each) for each in sent] == [compared(each) for each in expected]
    check_decoded(sent, 0 if outgoing else 1)


def check_decoded(sent: list[bytes], direction: int) -> None:
    """Decode the datagrams of an edge, and compare the values with the expected ones."""
    decoder = Decoder(ENCODING)
    (found,) = decoder.decode(datagrams(sent))
    assert set(found.groups["node"]) == {NODE}
    assert set(found.groups["hw_id"]) == {direction}
    assert [*found.groups["sequence"]] == [*range(len(sent))]
    device = socket.if_nametoindex("v0")
    assert {(h["ingress"], h["egress"]) for h in found.hops} == {
        (device, 0) if direction else (0, device)
    }
    assert [*found.hops["ingress_ns"]] == [*found.hops["egress_ns"]]
    assert [*found.hops["ingress_ns"]] == sorted(found.hops["ingress_ns"])
    assert len(found.hops) == len(sent)


def test_what_finds_no_room_is_a_gap(veth: tuple[str, str]) -> None:
    with reporting(veth[0]) as (edge, sent):
        edge._shared["sequences"][0] = (1 << 22) - 1  # the last sequence number before the wrap
        with wire.end(veth[0]) as sender:
            sender.send(udp())
            wire.await_true(lambda: edge.kinds()["watched"] == 1)
            edge._shared["sequences"][0] += 3  # as if three reports were lost
            sender.send(udp())
    decoder = Decoder(ENCODING)
    (found,) = decoder.decode(datagrams(sent))
    assert [*found.groups["sequence"]] == [(1 << 22) - 1, 3]


def test_nobody_listens(veth: tuple[str, str]) -> None:
    wire.run("ip link set lo up")
    with PostcardEdge(veth[0], NODE, ("127.0.0.1", PORT)) as edge:
        fields = {"priority": 1, "share": ALL, "instructions": 0}
        edge.watch(dict.fromkeys(EVERYTHING, fields))
        with wire.end(veth[0]) as sender:
            for _ in range(20):
                sender.send(udp())
        assert edge.kinds()["watched"] == 20
    assert 0 < edge.unsent <= 20  # when a datagram is rejected, the next send call fails


HEAD = """
from contextlib import ExitStack
from collectors.int.application import Collector
from collectors.int.index import Limits
from controllers.connection import connections, cpu_ports
from controllers.int.domain import Domain, configure
from controllers.int.edge import postcard_edges
from controllers.int.watch import Instruction, Mode, WatchedFlow
from collectors.int.decoder import Encoding
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import ParkingLot
OURS = Encoding(timestamp_unit_ns=1000, latency_unit_ns=1000)
WANTED = Instruction.LEVEL_1 | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME
"""

BODY = """
topo = ParkingLot(2, rate_bps=100_000_000, delay_us=200, queue_packets=1000)
with Network(topo, run, program="p4src/int/int.p4", switch_options=cpu_ports(topo)) as net:
    collecting = net.run_application("collector", Collector(OURS, limits=Limits(settle_us=2e6)))
    flow = Flow(1, "h1", "h2", 800, 800)
    watched = WatchedFlow(net.host("h1").IP(), net.host("h2").IP(), 17, dst_port=flow.port,
                          instructions=WANTED, mode=Mode.EXPORT)
    domain = Domain("collector", [watched])
    async with connections(net) as switches:
        await configure(net, switches, domain)
        with ExitStack() as opened:
            edges = postcard_edges(net, {"h1": "s1", "h2": "s2"}, domain, opened)
            async with Traffic(net, [flow]) as traffic:
                records = await traffic.finish()
            kinds = {host: edge.kinds()["watched"] for host, edge in edges.items()}
        await run.clock.sleep_until(run.clock.now_ns() + 200_000_000)
found = collecting.result
(told,) = found.flows
path = told["path"][: told["hops"]]
received = records[1].received
return Report([], [Check("ran", 1, 1)], metrics={
    "kinds": kinds, "reports": int(found.reports), "packets": len(received),
    "parse_errors": len(found.parse_errors), "gaps": len(found.gaps),
    "changes": int(told["changes"]),
    "nodes": [int(hop["node"]) for hop in path],
    "paths": int(told["paths"]), "others": int(told["unmatched"]) + int(told["partial"]),
    "links": [[int(hop["link_ns"][n]) for n in ("count", "min", "max")] for hop in path[1:]],
    "ends": [int(path[0]["ingress"]), int(path[-1]["egress"])],
    "longest": float((received["received_ns"] - received["sent_ns"]).max()),
    "hosts": [topo.hosts().index(host) for host in ("h1", "h2")],
    "unsent": [edge.unsent + edge.without_room for edge in edges.values()],
})
"""


def test_paths_begin_and_end_at_hosts(start_experiment: StartExperiment, tmp_path: Path) -> None:
    process = start_experiment(BODY, "--out", str(tmp_path / "out"), head=HEAD)
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, output + errors
    found = json.loads((tmp_path / "out" / "summary.json").read_text())["metrics"]
    if found["gaps"] or found["reports"] < 4 * 800:
        pytest.fail(f"reports were lost; {IDLE_MACHINE}")
    assert found["packets"] == found["kinds"]["h1"] == found["kinds"]["h2"] == 800
    assert found["reports"] == 4 * 800
    assert found["paths"] == 800
    assert found["unsent"] == [0, 0]
    assert [found[name] for name in ("parse_errors", "gaps", "changes", "others")] == [0] * 4
    source, sink = (3 + host for host in found["hosts"])
    assert found["nodes"] == [source, 1, 2, sink]
    assert found["ends"] == [0, 0]
    assert [count for count, _, _ in found["links"]] == [800] * 3
    for (_, min_ns, max_ns), link_ns in zip(found["links"], (0, 200_000, 200_000), strict=True):
        # timestamps have a resolution of 1 us
        assert link_ns - 1000 <= min_ns <= max_ns < found["longest"] + 1000
