"""Raw frames over real interfaces: IPv6 with and without AltMark option, fragments, long frames."""

import json
from pathlib import Path

from loaded import StartExperiment

HEAD = (
    f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "telemark")!r})
"""
    + """
import asyncio
import numpy as np
from scapy.layers.inet import IP, UDP, fragment
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from applications import until_left
from controllers.ampm.collector import Collector
from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, Method, Tunnel, WatchedFlow
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import IDLE_MACHINE, TestbedError
from telemark.network import Network
from topologies.basic import Line

PATH = ("s1", "s2", "s3")
SCHEDULE = Schedule(2**19)
BOUNDS = Bounds(delay_us=22_000)
TUNNEL = Tunnel("fd00:ed9e::1", "fd00:ed9e::2")
FLOWS = {
    "the host's option": WatchedFlow(
        1, "fd00::1", "fd00::2", flow_mon_id=0xABCDE, methods=Method.DOUBLE),
    "in a tunnel": WatchedFlow(
        2, "fd00::3", "fd00::2", flow_mon_id=0xABCDE, tunnel=TUNNEL, methods=Method.DOUBLE),
    "fragments": WatchedFlow(3, "10.9.0.1", "10.9.0.2", methods=Method.DOUBLE),
}
SENDER = '''import socket, sys, time
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind((sys.argv[1], 0))
for line in open(sys.argv[2]):
    raw.send(bytes.fromhex(line))
    time.sleep(0.001)'''


async def send(net, frames, run, start_us=0):
    host, path = net.host("h1"), net.folder / "frames"
    await run.clock.sleep_until(1000 * start_us)
    path.write_text("".join(frame.hex() + chr(10) for frame in frames))
    arguments = [sys.executable, "-c", SENDER, host.defaultIntf().name, str(path)]
    sender = await asyncio.create_subprocess_exec(*host.enter(), *arguments)
    assert await sender.wait() == 0


def collector_of(net, run, flows):
    hops = [Hop(connection(net, name), forwarding_entries(net, name)) for name in PATH]
    return Collector(dict.fromkeys(flows, hops), SCHEDULE, run.clock, bounds=BOUNDS)
"""
)

MEASURE = """
def frames_to(mac):
    ether = Ether(dst=mac, src="02:00:00:00:00:01")
    option = bytes.fromhex("11001204abcde000")
    for number in range(400):
        segment = bytes(UDP(sport=1, dport=2) / Raw(number.to_bytes(4, "big")))
        yield bytes(ether / IPv6(src="fd00::1", dst="fd00::2", nh=0) / Raw(option + segment))
        yield bytes(ether / IPv6(src="fd00::3", dst="fd00::2", nh=17, fl=number) / Raw(segment))
        datagram = IP(src="10.9.0.1", dst="10.9.0.2", id=number, proto=17) / Raw(segment + bytes(9))
        yield from (bytes(ether / part) for part in fragment(datagram, 16))

def flow_and_mark(frame):
    if frame[12:14] == b"\\x08\\x00":
        return 3, frame[15] >> 2 & 1
    in_tunnel = frame[14 + 8 : 14 + 12].hex() == "fd00ed9e"
    assert frame[54:60].hex() == ("2900" if in_tunnel else "1100") + "1204abcd", frame.hex()
    return 2 if in_tunnel else 1, frame[60] >> 3 & 1

def longest_us(net):
    # For which frames were on their way, at most: in switches, and 1 ms on each link.
    waited_ns = 0
    for near, switch, far in (("h1", "s1", "s2"), ("s1", "s2", "s3"), ("s2", "s3", "h2")):
        came, left = (pcap.read(net.capture(switch, end, what)).time_ns.astype(int)
                      for end, what in ((near, "in"), (far, "out")))
        waited_ns += (left - came).max()
    return waited_ns / 1000 + 2000

def by_block(net, near, far, what, reports):
    counts = {(f, r.block): 0 for f in (1, 2, 3) for r in reports}
    captured = pcap.read(net.capture(near, far, what))
    for time_ns, frame in zip(captured.time_ns, captured.bytes):
        flow, colour = flow_and_mark(bytes(frame))
        time_us = np.array([int(time_ns) // 1000])
        block = int(SCHEDULE.attribute(time_us, np.array([colour]))[0])
        if (flow, block) in counts:
            counts[flow, block] += 1
    return counts

topo = Line(loss_probability=0.1, delay_us=1000)
with Network(topo, run, program="p4src/ampm/ampm.p4", switch_options=cpu_ports(topo)) as net:
    sent = list(frames_to(net.host("h2").MAC()))
    async with collector_of(net, run, FLOWS.values()) as collector:
        await collector.watch()
        first = SCHEDULE.block_at(run.clock.now_ns() // 1000) + 2
        start_us, reports = SCHEDULE.start_us(first), []
        sending = asyncio.create_task(send(net, sent, run, start_us))
        async for report in collector.blocks(first, first + 50):
            if report.problems:
                raise TestbedError(f"{report.problems[0]}; {IDLE_MACHINE}")
            reports.append(report)
            if sending.done():
                break
        await sending
checks = [Check("whole blocks with frames", len(reports) > 1, True)]
points = [("s1", "s2", "out", "s1", "departures"), ("s2", "s1", "in", "s2", "arrivals"),
          ("s2", "s3", "out", "s2", "departures"), ("s3", "s2", "in", "s3", "arrivals")]
for near, far, what, switch, name in points:
    true = by_block(net, near, far, what, reports)
    found = {(f, r.block): r.records[f][Point(switch, name)].packets
             for f in (1, 2, 3) for r in reports}
    errors = [found[key] - true[key] for key in true]
    if any(errors) and longest_us(net) >= SCHEDULE.block_us / 4:  # see check_limits()
        raise TestbedError(f"frames took up to {longest_us(net)} us; {IDLE_MACHINE}")
    checks.append(Check(f"{switch} {name}: error", max(map(abs, errors)), 0))
    for flow in (1, 2, 3):
        total = sum(n for (f, _), n in true.items() if f == flow)
        checks.append(Check(f"{switch} {name}: frames of {flow} are many", total > 100, True))
pulses = [r.records[f][Point("s1", "departures")].pulses for f in (1, 2, 3) for r in reports[:-1]]
checks.append(Check("each flow's pulses a block", np.mean(pulses), 1))
out = pcap.read_frames(net.capture("s3", "h2", "out"))[1]
lost = sum(len(pcap.read(net.capture(a, b, "lost")).length) for a, b in (PATH[:2], PATH[1:]))
checks.append(Check("frames that left", len(out), len(sent) - lost))
checks.append(Check("frames that left changed", len(set(out) - set(sent)), 0))
checks.append(Check("frames were lost", lost > 100, True))
return Report([], checks)
"""


def test_real_frames_are_marked_counted_and_restored(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    process = start_experiment(MEASURE, head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    checks = json.loads((tmp_path / "out" / "summary.json").read_text())["checks"]
    assert len(checks) == 1 + 4 * (1 + 3) + 4


LONG = """
topo = Line()
with Network(topo, run, program="p4src/ampm/ampm.p4", switch_options=cpu_ports(topo)) as net:
    async with collector_of(net, run, [FLOWS["in a tunnel"]]) as collector:
        await collector.watch()
        packet = IPv6(src="fd00::3", dst="fd00::2", nh=17) / Raw(bytes(1460))
        await send(net, [bytes(Ether(dst=net.host("h2").MAC()) / packet)] * 20, run)
        await until_left(net, run, "s3", "h2", 20)
PacketAccounting.from_network(net, {})
frames = [pcap.read(net.capture(*ends, "out")).length for ends in (PATH[:2], ("s3", "h2"))]
return Report([], [Check(f"{size} bytes", sum(length == size), 20)
                   for length, size in zip(frames, (1562, 1514))])
"""


def test_a_tunnel_takes_packets_as_long_as_hosts_send(start_experiment: StartExperiment) -> None:
    process = start_experiment(LONG, head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
