"""TCP of virtual hosts.

Data arrive complete even if segments are lost, and goodput follows theory.
"""

import hashlib
import os
import random
import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from lines import ADDRESS, MAC, START_NS, Line
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from transfers import KINDS, SEGMENT, finished, goodput_bps

from minip4.engine.errors import InvalidArgument

SLOW = {"rate_bps": 10**7, "delay_us": 10_000, "queue_packets": 30}


# --- complete and intact data ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("there", "back"),
    [
        ({}, {}),
        (SLOW, {}),
        ({"delay_us": 100, "loss_probability": 0.1}, {"loss_probability": 0.1}),
        ({"delay_us": 5000, "jitter_us": 5000}, {"jitter_us": 100}),
        ({"delay_us": 900, "reorder_probability": 0.2, "reorder_us": 700}, {}),
    ],
    ids=["nothing", "a slow link", "losses", "jitter", "reordering"],
)
def test_data_come_whole_and_in_order(
    kind: str, there: dict[str, float], back: dict[str, float]
) -> None:
    size = 500_001
    line = Line(there, {}, back=back)
    result = finished(line, line.tcp(size, kind))
    assert (result.is_acknowledged, result.has_failed) == (True, False)
    assert result.received["bytes"][-1] == size
    assert np.all(np.diff(result.received["bytes"].astype(np.int64)) > 0)
    last = result.progress[-1]
    assert (last["written"], last["acknowledged"], last["retransmitted"]) == (
        size, size, result.retransmitted,
    )  # fmt: skip
    if not there:
        assert result.retransmitted == 0
    if "loss_probability" in there:
        assert result.retransmitted > size / SEGMENT / 10
    assert line.virtual.next_ns is None  # both ends are closed, and no timer is left
    for host in line.hosts:
        counters = line.virtual.host_counters(host)
        assert counters["checksum_errors"] == counters["unclaimed"] == 0
    line.virtual.close()


def digest_of(seed: int) -> str:
    line = Line({**SLOW, "loss_probability": 0.02}, seed=seed, back={"loss_probability": 0.02})
    flows = [line.tcp(300_000, kind, 5001 + i, start_ns=START_NS + i * 10**7)
             for i, kind in enumerate(KINDS)]  # fmt: skip
    line.run()
    results = [line.virtual.connections.result(flow) for flow in flows]
    line.virtual.close()
    parts = [array.tobytes() for r in results for array in (r.progress, r.received)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert len({digest_of(1), digest_of(1), digest_of(1)}) == 1
    assert digest_of(2) != digest_of(1)


# --- segments lost at given times -----------------------------------------------------------------

LOSES, LOSES_NOT = {"loss_probability": 1.0}, {"loss_probability": 0.0}


@pytest.mark.parametrize("port", [2, 1], ids=["SYN", "SYN and ACK"])
def test_a_lost_syn_or_syn_ack_is_retransmitted_after_a_second(port: int) -> None:
    line = Line(LOSES if port == 2 else {}, back=LOSES if port == 1 else None)
    flow = line.tcp(1000)
    line.run(0.5)
    line.change(0, port, **LOSES_NOT)
    result = finished(line, flow, 2)
    assert result.is_acknowledged
    assert result.received["time_ns"][-1] - START_NS == 1_000_000_000  # RFC 6298, 2.1: 1 s
    line.virtual.close()


def test_without_a_connection_a_flow_fails() -> None:
    line = Line(LOSES)
    flow = line.tcp(1000)
    line.run(14.9)
    assert not line.virtual.connections.is_over(flow)
    line.run(15.1)  # timeouts of 1, 2, 4 and 8 s
    result = line.virtual.connections.result(flow)
    assert (result.has_failed, result.retransmitted, len(result.received)) == (True, 3, 0)
    assert line.virtual.next_ns is None
    line.virtual.close()


def test_a_flow_that_stalls_fails() -> None:
    line = Line({"rate_bps": 10**7})
    flow = line.tcp(10**7)
    line.run(1)
    line.change(0, 2, **LOSES)
    line.run(10.9)
    assert not line.virtual.connections.is_over(flow)
    result = finished(line, flow, 30)
    assert (result.has_failed, result.is_acknowledged) == (True, False)
    assert line.virtual.next_ns is None
    line.virtual.close()


@pytest.mark.parametrize(
    ("lost_ms", "last_ms", "again"),
    [
        # The last five segments, sent at 20 ms, are lost. At 40 ms, the last one is sent again as a
        # probe. Its ACK at 50 ms reports the other four as lost. These are sent again: one, then
        # two, then one (RFC 6937).
        ((19, 21), 80, 5),
        # The first ten segments and the probe at 30 ms are lost. 210 ms later, the first segment is
        # sent again. Then 2, 4 and 5 segments are sent per RTT (5 is half of ten, where slow start
        # ends), and then the rest.
        ((9, 31), 290, 11),
    ],
    ids=["probe", "timeout"],
)
def test_losses_without_duplicate_acks_are_retransmitted(
    lost_ms: tuple[int, int], last_ms: int, again: int
) -> None:
    """Segments lost at the end of the data are sent again after a probe, or after a timeout.

    A probe is sent after two RTTs (RFC 8985, 7). A timeout occurs an RTT and 200 ms after the
    segment was sent (RFC 6298).
    """
    line = Line({"delay_us": 10_000})
    flow = line.tcp(15 * SEGMENT)  # ten segments at 10 ms, and five at 20 ms
    for at_ms, loses in zip(lost_ms, (LOSES, LOSES_NOT), strict=True):
        line.run(at_ms / 1000)
        line.change(0, 2, delay_us=10_000, **loses)
    result = finished(line, flow)
    assert result.received["time_ns"][-1] - START_NS == last_ms * 10**6
    assert result.retransmitted == again
    line.virtual.close()


def test_a_lone_segment_that_is_lost_does_not_close_the_window() -> None:
    """A probe replaces a lone lost segment before its timeout, so that the window stays at 10.

    See RFC 8985, 7.2.
    """
    line = Line({"delay_us": 10_000})
    flow = line.tcp(2 * SEGMENT, rate_bps=8e3 * SEGMENT / 500)
    line.run(0.4)
    line.change(0, 2, **LOSES)
    line.run(0.6)
    line.change(0, 2, delay_us=10_000)
    result = finished(line, flow)
    assert result.retransmitted == 1
    assert result.progress["window"][1:].min() == 10
    line.virtual.close()


def test_a_pause_of_the_application_is_no_stall() -> None:
    """A flow does not fail if its application pauses for 11.6 s and the next segment is lost."""
    line = Line({})
    flow = line.tcp(2 * SEGMENT, rate_bps=1000.0)
    line.run(11)
    line.change(0, 2, **LOSES)
    line.run(11.7)
    line.change(0, 2, **LOSES_NOT)
    result = finished(line, flow)
    assert (result.is_acknowledged, result.has_failed) == (True, False)
    line.virtual.close()


def test_a_goodbye_after_a_long_flow_may_be_lost() -> None:
    """A flow of 12 s does not fail if the answer to its FIN is lost.

    The receiving end sends no data, so it got no acknowledgements after the handshake.
    """
    line = Line({"rate_bps": 10**6}, back={})
    flow = line.tcp(0, duration_ns=12 * 10**9, rate_bps=1e5)
    line.run(11.999)
    line.change(0, 1, **LOSES)
    line.run(12.3)
    line.change(0, 1, **LOSES_NOT)
    result = finished(line, flow)
    assert (result.is_acknowledged, result.has_failed) == (True, False)
    line.virtual.close()


def test_a_lost_goodbye_is_repeated() -> None:
    line = Line({"delay_us": 1000})
    flow = line.tcp(SEGMENT)
    line.run(0.0015)  # now its data are in flight
    line.change(0, 2, delay_us=1000, **LOSES)
    line.run(0.1)
    line.change(0, 2, delay_us=1000, **LOSES_NOT)
    assert finished(line, flow).is_acknowledged
    assert line.virtual.next_ns is None
    line.virtual.close()


# --- effects of the application -------------------------------------------------------------------


def test_a_paced_flow_keeps_its_rate() -> None:
    line = Line({"rate_bps": 10**8, "delay_us": 5000})
    result = finished(line, line.tcp(0, duration_ns=2 * 10**9, rate_bps=4e6, start_ns=START_NS + 5))
    sent = int(result.progress["written"][-1])
    assert 0 <= sent - 4e6 / 8 * 2 <= SEGMENT
    assert result.received["bytes"][-1] == sent
    assert goodput_bps(result, 0.1, 1.9) == pytest.approx(4e6, rel=0.01)
    assert result.progress["window"].max() <= 20  # the window does not grow if it is not used
    line.virtual.close()


def test_progress_has_a_sample_every_ten_milliseconds() -> None:
    line = Line(SLOW)
    result = finished(line, line.tcp(10**6, start_ns=START_NS + 3))
    since_ns = result.progress["time_ns"] - (START_NS + 3)
    assert np.array_equal(since_ns[:-1], 10_000_000 * np.arange(len(since_ns) - 1))
    assert 20_000 < result.progress["rtt_us"][-1] < 60_000
    line.virtual.close()


def test_the_byte_counts_of_a_flow_are_known_while_it_runs() -> None:
    """At 12 Mbit/s, a third of 1.5 MB takes a third of a second; reading changes nothing."""
    results = []
    for is_read in (False, True):
        line = Line({"rate_bps": 12_000_000, "delay_us": 1000, "queue_packets": 1000})
        flow = line.tcp(1_500_000)
        if is_read:
            assert line.virtual.connections.byte_counts(flow) == (0, 0)
            for s in np.arange(0.001, 0.34, 0.001):
                line.run(s)
                written, received = line.virtual.connections.byte_counts(flow)
                assert received <= written <= 1_500_000
            assert received == pytest.approx(500_000, rel=0.1)
        results.append(finished(line, flow))
        assert line.virtual.connections.byte_counts(flow) == (1_500_000, 1_500_000)
        line.virtual.close()
    assert np.array_equal(results[0].received, results[1].received)


def test_half_of_the_segments_are_acknowledged_by_themselves() -> None:
    """The receiver sends an ACK for each second segment (RFC 5681, 4.2).

    Each of the first segments has an ACK. Otherwise, slow start would wait.
    """
    line = Line({"rate_bps": 10**7, "delay_us": 1000, "queue_packets": 1000})
    finished(line, line.tcp(1000 * SEGMENT))
    there, back = (line.virtual.host_counters(host)["sent"] for host in line.hosts)
    assert there == 1000 + 4  # 1000 segments, SYN, two ACKs and FIN
    assert 500 < back < 525
    line.virtual.close()


def test_a_port_is_free_again() -> None:
    line = Line({})
    connections = line.virtual.connections
    flow = line.tcp(10)
    with pytest.raises(InvalidArgument, match="from TCP port 49152 to 5001 exists already"):
        line.tcp(10)
    other = line.tcp(10, port=5002)
    assert finished(line, flow, 1).is_acknowledged
    connections.remove(flow)
    again = line.tcp(20, start_ns=START_NS + 2 * 10**9)
    for number, size in ((again, 20), (other, 10)):
        assert finished(line, number).received["bytes"][-1] == size
    line.virtual.close()


def test_connections_to_one_port_are_distinguished() -> None:
    line = Line({"delay_us": 100})
    flows = [line.tcp(size, source_port=port) for port, size in ((6000, 1000), (6001, 99_000))]
    line.run()
    results = [line.virtual.connections.result(flow) for flow in flows]
    assert [result.received["bytes"][-1] for result in results] == [1000, 99_000]
    line.virtual.close()


def test_many_connections_at_once() -> None:
    line = Line({"rate_bps": 10**9, "delay_us": 100, "queue_packets": 1000})
    flows = [line.tcp(5000, port=port, start_ns=START_NS + 1000 * port) for port in range(1, 3001)]
    line.run()
    assert all(line.virtual.connections.result(f).received["bytes"][-1] == 5000 for f in flows)
    line.virtual.close()


# --- checks by tshark -----------------------------------------------------------------------------

COMPLAINTS = (
    "tcp.checksum.status == 0 || ip.checksum.status == 0 || _ws.malformed || "
    "tcp.analysis.ack_lost_segment || tcp.analysis.lost_segment || _ws.expert.severity == error"
)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("kind", KINDS)
def test_tshark_has_nothing_to_complain_of(kind: str, tmp_path: Path) -> None:
    """tshark finds no mistake in a flow that the sender has captured.

    tshark checks checksums, options, and that only sent data are acknowledged.
    """
    loses = {"loss_probability": 0.02}
    line = Line({**SLOW, **loses}, back=loses, captures=tmp_path)
    result = finished(line, line.tcp(300_000, kind, ecn=True))
    sent = line.virtual.host_counters(line.hosts[0])["sent"]
    line.virtual.close()
    both = tmp_path / "both.pcap"
    # with a preloaded sanitizer, mergecap would hang
    environment = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    run = partial(subprocess.run, capture_output=True, text=True, check=True, env=environment)
    run(["mergecap", "-w", both, tmp_path / "in.pcap", tmp_path / "out.pcap"])
    tshark = ["tshark", "-r", both, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
              "-T", "fields", "-e", "ip.src", "-e", "tcp.analysis.retransmission"]  # fmt: skip
    seen = run(tshark).stdout.splitlines()
    assert sum(line.startswith(ADDRESS[0]) for line in seen) == sent
    assert 0 < sum(line.endswith("1") for line in seen) <= result.retransmitted
    assert run([*tshark, "-Y", COMPLAINTS]).stdout == ""


# --- hostile segments -----------------------------------------------------------------------------


def test_a_window_that_seems_closed_is_probed() -> None:
    """A flow transfers all data although its window seems closed: the sender probes the window.

    A forged response to the SYN has the window 0, and no other segment has a window before the
    probe.
    """
    line = Line({"delay_us": 1000}, {"delay_us": 0})
    answer = Ether(src=MAC[1], dst=MAC[0]) / IP(src=ADDRESS[1], dst=ADDRESS[0]) / TCP(
        sport=5001, dport=49152, flags="SA", seq=77, ack=2**32 - 4999, window=0,
        options=[("MSS", 1460), ("WScale", 7)],
    )  # fmt: skip
    flow = line.tcp(50_000)
    line.virtual.send_frames(line.hosts[1], [START_NS + 500_000], [bytes(answer)])
    result = finished(line, flow)
    assert result.received["bytes"][0] == 1
    assert result.received["bytes"][-1] == 50_000
    line.virtual.close()


def odd_segment(rng: random.Random, forward: bool, isn: tuple[int, int]) -> bytes:
    """Return a segment of the connection. Its sequence number is near the sent data, or any number.

    The header length of the segment is sometimes wrong.
    """
    near = rng.choice([0, 1, 2, 1449, 10_000, 2**31, rng.randrange(2**32)])
    options = [("NOP", None)] * rng.randrange(3)
    if rng.random() < 0.5:
        blocks = tuple((isn[0] + rng.randrange(-2000, 90_000)) % 2**32 for _ in range(6))
        options.append(("SAck", blocks[: 2 * rng.randrange(1, 4)]))
    if rng.random() < 0.3:
        options.append(rng.choice([("MSS", 1), ("WScale", 255), ("Timestamp", (1, 2))]))
    ends = (0, 1) if forward else (1, 0)
    segment = TCP(
        sport=(49152, 5001)[ends[0]], dport=(49152, 5001)[ends[1]],
        seq=(isn[ends[0]] + near) % 2**32, ack=(isn[ends[1]] + rng.choice([0, 1, near])) % 2**32,
        flags=rng.randrange(256), window=rng.choice([0, 1, 65535]), options=options,
        dataofs=rng.choice([None] * 5 + [rng.randrange(16)]),
    )  # fmt: skip
    mac, address = (MAC, ADDRESS) if forward else (MAC[::-1], ADDRESS[::-1])
    frame = Ether(src=mac[0], dst=mac[1]) / IP(src=address[0], dst=address[1], tos=rng.randrange(4))
    return bytes(frame / segment / Raw(bytes(rng.choice([0, 1, 1448]))))


def test_an_ece_ack_between_two_writes_does_not_stop_the_flow() -> None:
    """A flow continues after an ACK with ECE that acknowledges no new data.

    The ACK arrives when no data are in flight.
    """
    line = Line({})
    flow = line.tcp(3 * SEGMENT, rate_bps=1e6, ecn=True)
    segment = TCP(sport=5001, dport=49152, seq=78, ack=(2**32 - 5000 + 1 + SEGMENT) % 2**32,
                  flags="AE", window=65535)  # fmt: skip
    frame = Ether(src=MAC[1], dst=MAC[0]) / IP(src=ADDRESS[1], dst=ADDRESS[0]) / segment
    line.virtual.send_frames(line.hosts[1], [START_NS + 5 * 10**6], [bytes(frame)])
    assert finished(line, flow).is_acknowledged
    line.virtual.close()


@pytest.mark.parametrize("seed", range(3))
def test_hostile_segments_break_nothing(seed: int) -> None:
    """After 800 hostile segments, the connection ends in some way, and its counters are correct.

    As in a kernel, such segments may end the connection. They must not end the run.
    """
    rng, isn, count = random.Random(seed), (2**32 - 5000, 77), 400
    line = Line({"rate_bps": 10**7, "delay_us": 1000, "loss_probability": 0.01})
    flow = line.tcp(200_000, "cubic")
    times = sorted(START_NS + rng.randrange(2 * 10**8) for _ in range(2 * count))
    for host, forward in ((0, True), (1, False)):
        frames = [odd_segment(rng, forward, isn) for _ in range(count)]
        line.virtual.send_frames(line.hosts[host], times[host::2], frames)
    result = finished(line, flow)
    assert result.is_acknowledged or result.has_failed
    assert result.progress["acknowledged"][-1] <= 200_000
    assert np.all(np.diff(result.received["bytes"].astype(np.int64)) > 0)
    assert sum(line.virtual.host_counters(host)["received"] for host in line.hosts) > count
    line.virtual.close()
