"""TCP flows over lossy links in real and virtual time, and invalid flows."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaded import StartExperiment
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from virtual_networks import MARKING, WIRE, Pair, virtually

from telemark.apps.application import Application
from telemark.apps.application import Host as ApplicationHost
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from telemark.traffic.received import Frames
from telemark.traffic.tcp import ANSWERS, PROGRESS, RECEIVED, TcpFlow, TcpRecord

HEAD = f"""
import numpy as np
from telemark.network import Network
from telemark.traffic.tcp import TcpFlow
from telemark.traffic.flows import Flow, Traffic
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from topologies.basic import Line
PROGRAM = {str(WIRE)!r}
"""

TRANSFERS = """
SIZE = 2_000_000
bulk = TcpFlow(1, "h1", "h2", size_bytes=SIZE, dscp=10)
paced = TcpFlow(2, "h2", "h1", duration_s=2.5, rate_bps=4e6, source_port=5007, port=80, after_s=0.1)
with Network(Line(switches=2, bw=40, loss=1), run, program=PROGRAM) as net:
    async with Traffic(net, [bulk, paced, Flow(3, "h1", "h2", 500, 200)]) as traffic:
        start_ns, records = traffic.start_ns, await traffic.finish()
    async with Traffic(net, [bulk]) as traffic:  # by the ports of the one before
        again = (await traffic.finish())[1]
one, two = records[1], records[2]
lost = pcap.read(net.capture("s1", "s2", "lost")).bytes
sent = pcap.read(net.capture("s1", "h1", "in")).bytes.astype(int)
ports = sent[:, 34] * 256 + sent[:, 35], sent[:, 36] * 256 + sent[:, 37]
data = sent[(sent[:, 23] == 6) & (ports[0] == bulk.source_port) & (ports[1] == bulk.port)]
accounting = PacketAccounting.from_network(net, records)
return Report([], accounting.checks(), {
    "acknowledged": [one.acknowledged_bytes, again.acknowledged_bytes],
    "received": [one.received_bytes, again.received_bytes, two.received_bytes],
    "goodput_bps": one.goodput_bps, "over": one.goodput_over(0.01).sum() * 0.01 / 8,
    "retransmitted": one.retransmitted_segments + again.retransmitted_segments,
    "lost": int((lost[:, 23] == 6).sum()), "datagrams": accounting.sent,
    "tos": np.unique(data[:, 15] & 0xFC), "segments": len(data),
    "after_ns": [one.began_ns - start_ns, again.began_ns - traffic.start_ns,
                 two.began_ns - start_ns - 100_000_000],
    "window": int(one.progress["window"].max()), "rtt_us": int(one.progress["rtt_us"][-1]),
    "ascending": bool((np.diff(one.progress["acknowledged"].astype(int)) >= 0).all()),
})
"""

# fraction to which the window falls if the queue drops packets after slow start
TAIL_DROPS = """
shrunk, rtt_ms, checks = {}, 0, []
topo = Line(switches=2, rate_bps=20_000_000, delay_us=10_000, queue_packets=40)
with Network(topo, run, program=PROGRAM) as net:
    for number, kind in enumerate(("reno", "cubic"), start=1):
        flow = TcpFlow(number, "h1", "h2", duration_s=5, congestion=kind)
        async with Traffic(net, [flow]) as traffic:
            record = (await traffic.finish())[number]
        checks.append(Check("bytes", record.received_bytes, record.acknowledged_bytes))
        rtt_ms = max(rtt_ms, record.progress["rtt_us"].max() / 1e3)
        window = record.progress["window"].astype(float)[150:-5]
        falls = np.flatnonzero(window[15:] < 0.8 * window[:-15])
        shrunk[kind] = float(np.median([window[i : i + 16].min() / window[i : i + 16].max()
                                        for i in falls]))
return Report([], checks, {**shrunk, "rtt_ms": rtt_ms})
"""


@pytest.mark.parametrize("time", ["virtual", "real"])
def test_data_arrive_whole_whatever_links_lose(
    time: str, start_experiment: StartExperiment, tmp_path: Path
) -> None:
    arguments = ["--time", time, "--out", str(tmp_path / "out")]
    process = start_experiment(TRANSFERS, *arguments, head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    measured: dict[str, Any] = json.loads((tmp_path / "out" / "summary.json").read_text())[
        "metrics"
    ]
    assert measured["acknowledged"] == measured["received"][:2] == [2_000_000] * 2
    assert measured["over"] == pytest.approx(2_000_000)
    # a loaded machine may be arbitrarily slow
    min_bps, least = (1e6, 200_000) if time == "virtual" else (0, 0)
    assert min_bps < measured["goodput_bps"] < 40e6  # the rate of the link includes headers
    assert measured["segments"] >= 2 * 2_000_000 / 1460
    # 1 % of 2,700 segments is lost; lost pure ACKs need no retransmission
    assert measured["retransmitted"] > 10
    assert measured["lost"] > 10
    assert measured["tos"] == [40]
    assert measured["datagrams"] == 200
    assert min(measured["after_ns"]) >= 0
    # at least a second: a lost SYN is sent again after one second (RFC 6298, 2.1)
    assert least < measured["received"][2] <= 1_250_000 + 1448
    assert measured["window"] > 1
    assert measured["rtt_us"] >= 2000
    assert measured["ascending"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "flow 1: expected either size_bytes or duration_s"),
        ({"size_bytes": 1, "duration_s": 1}, "expected either"),
        ({"size_bytes": -1}, "size_bytes -1: expected 0"),
        ({"size_bytes": 1.5}, "size_bytes 1.5: expected a whole number"),
        ({"duration_s": float("nan")}, "duration_s nan"),
        ({"size_bytes": 9, "rate_bps": -1}, "rate_bps -1"),
        ({"size_bytes": 9, "port": 65536}, "port 65536"),
        ({"size_bytes": 9, "on_s": 1}, "expected both on_s and off_s"),
        ({"size_bytes": 9, "off_s": 1}, "expected both on_s and off_s"),
        ({"size_bytes": 9, "requests": 2}, "expected both requests and response_bytes"),
        ({"size_bytes": 9, "response_bytes": 2}, "expected both requests and response_bytes"),
        ({"size_bytes": 9, "think_s": 0.1}, "think_s needs requests"),
        (
            {"duration_s": 9, "requests": 2, "response_bytes": 1},
            "requests have size_bytes and no pacing",
        ),
        ({"size_bytes": 9, "rate_bps": 8, "requests": 2, "response_bytes": 1}, "no duration_s"),
        ({"size_bytes": 9, "requests": 1.5, "response_bytes": 1}, "expected a whole number"),
    ],
)
def test_flows_that_cannot_be_sent_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(TestbedError, match=words):
        TcpFlow(1, "h1", "h2", **values)


def record(received: list[tuple[int, int]]) -> TcpRecord:
    progress = np.zeros(1, PROGRESS)
    progress["time_ns"] = 10**9
    flow = TcpFlow(1, "h1", "h2", size_bytes=1)
    return TcpRecord(flow, progress, np.array(received, RECEIVED), np.zeros(0, ANSWERS))


def test_goodput_is_what_came_in_each_interval() -> None:
    some = record([(10**9 + 1, 100), (10**9 + 10**8, 300), (10**9 + 250_000_000, 1000)])
    assert list(some.goodput_over(0.1)) == [24_000, 0, 56_000]
    assert some.goodput_bps == pytest.approx(8 * 1000 / 0.25)
    nothing = record([])
    assert (nothing.received_bytes, nothing.goodput_bps) == (0, 0)
    assert not nothing.goodput_over(0.1).any()


def test_a_tcp_and_a_udp_flow_may_have_the_same_port(tmp_path: Path) -> None:
    """A TCP flow and a UDP flow may have the same port, because TCP and UDP have separate ports.

    Two flows with the same protocol and the same port are rejected.
    """

    async def main(run: Run) -> None:
        with Network(Pair(), run, program=WIRE) as net:
            tcp = TcpFlow(2, "h1", "h2", size_bytes=1, port=5001)
            async with Traffic(net, [Flow(1, "h1", "h2", 1, 1), tcp]) as traffic:
                assert (await traffic.finish())[2].received_bytes == 1
            with pytest.raises(
                TestbedError, match="flows 2 and 3: both use destination port 5001 of h2"
            ):
                Traffic(net, [tcp, TcpFlow(3, "h1", "h2", size_bytes=1, port=5001)])

    virtually(tmp_path, main)


def test_who_reaches_nobody_says_so(tmp_path: Path) -> None:
    """A TCP flow that reaches no host ends with a timeout.

    In real time, the kernel gives up after the same time.
    """

    async def main(run: Run) -> None:
        with Network(Pair(loss_probability=1.0), run, program=WIRE) as net:
            async with Traffic(net, [TcpFlow(2, "h1", "h2", size_bytes=1)]) as traffic:
                await traffic.finish()

    with pytest.raises(TestbedError, match="flow 2: connection from h1 to h2: timeout"):
        virtually(tmp_path, main)


class Refuses(Application):
    """Application that rejects every connection to its host."""

    def start(self, host: ApplicationHost) -> None:
        self._port = host.frames(self.on_frames)

    def on_frames(self, frames: Frames) -> None:
        for each in frames:
            asked = Ether(each.frame)
            if TCP in asked:
                addresses = IP(src=asked[IP].dst, dst=asked[IP].src)
                refusal = TCP(sport=asked.dport, dport=asked.sport, flags="RA", ack=asked.seq + 1)
                self._port.send(bytes(Ether(src=asked.dst, dst=asked.src) / addresses / refusal))


def test_who_is_refused_says_so_at_once(tmp_path: Path) -> None:
    """A TCP flow whose connection is rejected ends immediately, with an error.

    In this test, an application rejects the connection. A firewall in a switch could do the same.
    """

    async def main(run: Run) -> int:
        with Network(Pair(), run, program=WIRE) as net:
            net.run_application("h2", Refuses())
            async with Traffic(net, [TcpFlow(2, "h1", "h2", size_bytes=1)]) as traffic:
                with pytest.raises(TestbedError, match="flow 2: connection from h1 to h2"):
                    await traffic.finish()
                return run.clock.now_ns() - traffic.start_ns

    assert virtually(tmp_path, main) < 10**9


def test_marks_need_both_ends(tmp_path: Path) -> None:
    """A flow with ECN loses no packets; a flow without ECN loses packets in the same network."""

    async def main(run: Run) -> list[int]:
        topo = Pair(rate_bps=10**8, delay_us=1000, queue_packets=100)
        with Network(topo, run, program=MARKING) as net:
            again = []
            for number, has_ecn in enumerate((True, False), start=1):
                flow = TcpFlow(number, "h1", "h2", duration_s=2, ecn=has_ecn)
                async with Traffic(net, [flow]) as traffic:
                    again.append((await traffic.finish())[number].retransmitted_segments)
        return again

    with_marks, without = virtually(tmp_path, main)
    assert with_marks == 0 < without


@pytest.mark.parametrize("time", ["virtual", "real"])
def test_congestion_control_is_that_which_is_asked_for(
    time: str, start_experiment: StartExperiment, tmp_path: Path
) -> None:
    """After a loss, Reno multiplies cwnd by 0.5, and Cubic multiplies it by 0.7 (RFC 9438)."""
    process = start_experiment(
        TAIL_DROPS, "--time", time, "--out", str(tmp_path / "out"), head=HEAD
    )
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    found = json.loads((tmp_path / "out" / "summary.json").read_text())["metrics"]
    kinds = {"reno": pytest.approx(0.5, abs=0.06), "cubic": pytest.approx(0.7, abs=0.06)}
    shrunk = {kind: found[kind] for kind in kinds}
    if time == "real" and shrunk != kinds:  # the links and a full queue give an RTT of 45 ms
        rtt_ms = found["rtt_ms"]
        assert rtt_ms < 48, f"segments took {rtt_ms:.0f} ms: reduce the load on the machine"
    assert shrunk == kinds
