"""A P4 switch that writes to the memory of rdma_rxe, in a virtual machine at a host.

The link between them loses frames in both directions. Memory, responses and completions are
compared with those of the software responder for the same frames.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arriving import frames
from loaded import StartExperiment
from requester import Answer, Session
from scapy.layers.inet import ICMP
from scapy.layers.l2 import Ether

from collectors.roce import softnic
from collectors.roce.endpoint import Completion, Peer, Target
from collectors.roce.packets import BTH, UC, Op
from collectors.roce.region import Region
from telemark.backends.real.vm import machine
from telemark.sweep.plain_data import load

pytestmark = pytest.mark.skipif(machine.missing() is not None, reason=str(machine.missing()))

HEAD = """
import ctypes, os, socket
from pathlib import Path
import numpy as np
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from collectors.roce.endpoint import Peer, Transport
from collectors.roce.region import Region
from collectors.roce.verbs import Verbs
from controllers.connection import connections, cpu_ports
from controllers.roce.running import events
from controllers.roce.session import Content, Reporter, Session, configure
from controllers.roce.watch import RecordedFlow, RecordAction
from telemark.network import Network
from telemark.backends.real.vm.host import machine_at
from telemark.sweep.plain_data import dump
from telemark.accounting.pcap import read
from topologies.basic import Dumbbell

SO_RCVBUFFORCE, ETH_P_ALL = 33, 3
PSN, COUNT, SLOTS, IPV6 = 0xFFFFF0, 200, 64, "fd09::9"
RECORDS = {"ack_every": 8, "immediate_every": 4, "patience": 16}
KINDS = (
    ("10.0.9.1", Content.FLOWS, Transport.RC, RECORDS),
    ("10.0.9.1", Content.FLOWS, Transport.UC, {"immediate_every": 8}),
    ("10.0.9.1", Content.COUNTERS, Transport.RC, {"patience": 8}),
    ("fd09::a00:901", Content.FLOWS, Transport.RC, RECORDS),
    ("fd09::a00:901", Content.COUNTERS, Transport.RC, {"patience": 8}),
)

def segment(i):
    packet = (Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:03")
              / IP(src="10.0.0.1", dst="10.0.0.3")
              / TCP(sport=1000 + i, dport=5001 + i % len(KINDS), seq=i, ack=i + 1))
    return bytes(packet)

def listening(host):
    # A packet socket at the host's interface: captures have no more than 128 bytes of a frame.
    libc = ctypes.CDLL(None, use_errno=True)
    here, there = (os.open(f"/proc/{pid}/ns/net", os.O_RDONLY) for pid in ("self", host.pid))
    libc.setns(there, 0)
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
    packets.bind((str(host.defaultIntf()), ETH_P_ALL))
    libc.setns(here, 0)
    return packets

def heard(packets):
    # What left the host, and what came to it.
    frames = {"in": [], "out": []}
    try:
        while True:
            frame, (_, _, kind, *_) = packets.recvfrom(4096)
            frames["in" if kind == socket.PACKET_OUTGOING else "out"].append(frame)
    except BlockingIOError:
        return frames
"""

SCRIPT = """
topo = Dumbbell(2, loss_probability=0.05)
with Network(topo, run, program="p4src/roce/roce.p4", switch_options=cpu_ports(topo),
             expected_drops=("ingress", "miss", "egress")) as net:
    host = net.host("h2")
    packets = listening(host)
    neighbours = {kind[0]: "06:00:0a:00:09:01" for kind in KINDS}
    with machine_at(host, run.folder / "vm", neighbours, [IPV6 + "/64"]) as machine:
        endpoints = [machine.make(Verbs, address) for address in (host.IP(), IPV6)]
        peers, regions, sessions, flows = [], [], [], []
        for number, (address, content, transport, more) in enumerate(KINDS, start=1):
            endpoint = endpoints[":" in address]
            peers.append(Peer(address, 0x10 + number, PSN))
            regions.append(machine.make(Region, np.dtype("u1"), SLOTS * content.value))
            domain = endpoint.register(regions[-1])
            target = endpoint.connect(domain, peers[-1], transport=transport)
            sessions.append(Session(number, "h2", peers[-1], target, content=content, **more))
            what = RecordAction.PACKET if content is Content.COUNTERS else RecordAction.RECORD
            flows.append(RecordedFlow("10.0.0.1", "10.0.0.3", dst_port=5000 + number,
                                      sessions=range(number, number + 1), what=what, cell=5))
        async with connections(net) as switches:
            await configure(net, switches, {"s1": Reporter(sessions, flows, node_id=1)})
            start_ns = run.clock.now_ns() + 100_000_000
            times = [start_ns + 2_000_000 * i for i in range(len(KINDS) * COUNT)]
            net.send_frames("h1", times, [segment(i) for i in range(len(KINDS) * COUNT)])
            port, came = str(net.port("s1", "h1")), 0
            while came < len(times):
                await run.clock.sleep_until(run.clock.now_ns() + 200_000_000)
                came = net.switch("s1").read_counters()["ports"][port]["received_packets"]
            before = None
            while (now := endpoints[0].counts()) != before:  # until it has taken all
                before = now
                await run.clock.sleep_until(run.clock.now_ns() + 200_000_000)
            counts = [await events(switches["s1"], session) for session in sessions]
        found = heard(packets) | {
            "mac": host.MAC(), "peers": peers, "targets": [session.target for session in sessions],
            "events": counts, "completions": sum((e.completions() for e in endpoints), []),
            "memory": [machine.call(getattr, region, "bytes").tobytes() for region in regions],
        }
lost = read(net.capture("s1", "s2", "lost")).length
options.out.mkdir(exist_ok=True)
(options.out / "found").write_bytes(dump(found | {"lost": len(lost)}, "found"))
return Report(checks=[Check("done", 1, 1, 0)], samples=[{"done": 1}])
"""


def of_queue_pair(captured: list[bytes], qpn: int) -> list[bytes]:
    """Return the frames of a queue pair, but not the frames that ICMP errors quote."""
    packets = [(each, Ether(each)) for each in captured]
    return [each for each, packet in packets
            if BTH in packet and ICMP not in packet and packet[BTH].dqpn == qpn]  # fmt: skip


def ours(
    target: Target, peer: Peer, mac: str, requests: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> tuple[bytes, list[Completion], list[bytes]]:
    """Return what the software responder makes of the frames: memory, completions, responses."""
    monkeypatch.setattr(softnic, "BASE", target.base)
    nic = softnic.SoftNic(target.address, mac=mac, first_qpn=target.qpn)
    region = Region(np.dtype("u1"), target.length)
    domain = nic.register(region, rkey=target.rkey)
    assert nic.connect(domain, peer, transport=target.transport) == target
    answers = nic.receive(frames(requests))
    return region.bytes.tobytes(), nic.completions(), answers


def test_rxe_makes_of_a_switchs_packets_what_it_should(
    start_experiment: StartExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = start_experiment(SCRIPT, head=HEAD)
    output = started.communicate(timeout=300)
    assert started.returncode == 0, output
    found: dict[str, Any] = load((tmp_path / "out" / "found").read_bytes())
    for peer, target, memory in zip(found["peers"], found["targets"], found["memory"], strict=True):
        requests = of_queue_pair(found["out"], target.qpn)
        answers = of_queue_pair(found["in"], peer.qpn)
        version = "v2_ipv6" if ":" in peer.address else "v2"
        session = Session(version, found["mac"], peer, "06:00:0a:00:09:01", target)
        expected = ours(target, peer, found["mac"], requests, monkeypatch)
        assert memory == expected[0]
        assert [each for each in found["completions"] if each.qpn == target.qpn] == expected[1]
        read = [[Answer.read(session, each) for each in some] for some in (answers, expected[2])]
        assert read[0] == read[1]
        assert 180 <= len(requests) < 200 + 30
    records, unreliable, *others = found["events"]
    assert all(each[kind] > 0 for each in (records, *others) for kind in ("acked", "naked"))
    assert unreliable["acked"] == unreliable["naked"] == 0
    assert all(each["damaged"] == each["refused"] == 0 for each in found["events"])
    assert found["lost"] > 10
    assert {Ether(each)[BTH].opcode for each in found["out"]} == {
        Op.WRITE_ONLY, Op.WRITE_ONLY_IMMEDIATE, Op.FETCH_ADD, Op.WRITE_ONLY | UC,
        Op.WRITE_ONLY_IMMEDIATE | UC,
    }  # fmt: skip
