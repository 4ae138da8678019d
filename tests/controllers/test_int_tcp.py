"""TCP of kernels through five INT switches on shaped links: data integrity and goodput."""

import json
from pathlib import Path

import pytest
from loaded import StartExperiment

from telemark.errors import IDLE_MACHINE

HEAD = """
import numpy as np
from controllers.connection import connections
from controllers.int.domain import Changes, Domain, configure
from controllers.int.watch import Instruction, WatchedFlow
from telemark.network import Network
from telemark.traffic.tcp import TcpFlow
from telemark.traffic.flows import Traffic
from telemark.accounting import pcap
from mininet.topo import Topo
class FiveHops(Topo):
    def build(self):
        names = ("h1", "s1", "s2", "s3", "s4", "s5", "h2")
        for name in names:
            (self.addHost if name[0] == "h" else self.addSwitch)(name)
        for one, two, rate_bps in zip(names[1:], names[2:-1], RATES_BPS):
            self.addLink(one, two, rate_bps=rate_bps, queue_packets=10_000)
        self.addLink("h1", "s1")
        self.addLink("s5", "h2")
"""
# Bytes of a data segment's payload, of its headers (with timestamps), and of INT before the last
# switch.
SEGMENT, HEADERS, INT = 1448, 14 + 20 + 32, 16 + 4 * 8
BODY = """
flow = TcpFlow(1, "h1", "h2", duration_s=1.5)
with Network(FiveHops(), run, program="p4src/int/int.p4") as net:
    async with connections(net) as switches:
        watched = WatchedFlow("10.0.0.1", "10.0.0.2", protocol=6,
                              instructions=Instruction.NODE_ID | Instruction.QUEUE)
        await configure(net, switches, Domain("h2", [watched], mtu_bytes=1600, changes=Changes()))
        net.host("h1").cmd(f"sysctl -w net.ipv4.tcp_congestion_control={CONGESTION_CONTROL}")
        async with Traffic(net, [flow]) as traffic:
            record = (await traffic.finish())[1]
    wrong = {host: net.host(host).cmd("nstat -asz TcpInCsumErrors UdpInCsumErrors | tail -n +2")
             for host in ("h1", "h2")}
frames = pcap.read(net.capture("s4", "s5", "out"))  # of the last link, the narrowest one
time_ns, total = record.received["time_ns"], record.received["bytes"]
passed_ns = frames.time_ns[(time_ns[0] < frames.time_ns) & (frames.time_ns < time_ns[-1])]
is_late = time_ns >= time_ns[0] + 500_000_000  # slow start is over
whole = Check("bytes received", record.received_bytes, record.acknowledged_bytes)
return Report([], [whole], {
    "goodput_bps": 8e9 * float(np.ptp(total[is_late])) / float(np.ptp(time_ns[is_late])),
    "longest": int(frames.length.max()), "wrong": wrong,
    "again": record.retransmitted_segments, "received": record.received_bytes,
    "gap_ms": max(np.diff(times.astype(int)).max() for times in (passed_ns, time_ns)) / 1e6,
    "busy_s": 8 * int(frames.length.sum()) / RATES_BPS[-1],
})
"""


EQUAL, NARROW = (30e6,) * 4, (100e6, 100e6, 100e6, 30e6)


@pytest.mark.parametrize(
    ("rates_bps", "congestion_control", "is_always_busy"),
    [(NARROW, "reno", True), (EQUAL, "cubic", False)],
    ids=["narrow last link, Reno", "equal links, Cubic"],
)
def test_goodput_is_reduced_by_the_bytes_of_int(
    rates_bps: tuple[float, ...], congestion_control: str, is_always_busy: bool,
    start_experiment: StartExperiment, tmp_path: Path,
) -> None:  # fmt: skip
    """The bytes of INT reduce goodput as theory says.

    Goodput per time in which the last link is busy equals theory within 0.1 %. If packets always
    wait for that link, goodput per elapsed time equals theory, too, within 2 %.

    With equal links, packets do not always wait. On a loaded machine, a link does not recover the
    delay of another link. Cubic leaves slow start when queues reach about 10 ms (RFC 9406). A
    kernel that had to wait for a CPU may retransmit a segment. The retransmission also uses the
    link.
    """
    head = f"{HEAD}RATES_BPS, CONGESTION_CONTROL = {rates_bps}, '{congestion_control}'\n"
    process = start_experiment(BODY, head=head)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    found = json.loads((tmp_path / "out" / "summary.json").read_text())["metrics"]
    assert found["longest"] == HEADERS + SEGMENT + INT
    expected_bps = rates_bps[-1] * SEGMENT / (HEADERS + SEGMENT + INT)
    passed = found["received"] + SEGMENT * found["again"]
    assert 8 * passed / found["busy_s"] == pytest.approx(expected_bps, rel=0.001)
    if is_always_busy and found["goodput_bps"] != pytest.approx(expected_bps, rel=0.02):
        # a frame needs half a millisecond
        assert found["gap_ms"] < 10, f"gaps of {found['gap_ms']} ms; {IDLE_MACHINE}"
        assert found["goodput_bps"] == pytest.approx(expected_bps, rel=0.02)
    assert found["received"] > 1e6
    for host, counts in found["wrong"].items():
        values = [int(line.split()[1]) for line in counts.splitlines()]
        assert values == [0, 0], f"{host}: {counts}"
