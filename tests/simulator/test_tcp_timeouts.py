"""Timeouts: backoff (RFC 6298), spurious timeouts (RFC 3522, 4015), losses without SACK, ECN."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from lines import START_NS, Line
from scapy.layers.inet import IP, TCP
from scapy.utils import rdpcap
from transfers import ISN, PEER_ISN, SEGMENT, finished, send

NOTHING_ARRIVES = {"loss_probability": 1.0}
ECT_0 = 2
MSS_AND_SACK = [("MSS", 1460), ("SAckOK", b"")]


class Sent(NamedTuple):
    """A segment that h1 sent."""

    time_s: float
    offset: int  # sequence number, relative to that of the SYN
    length: int  # length of its data
    ecn: int


def sent(folder: Path) -> list[Sent]:
    """Return the segments that h1 sent, from its capture."""
    found = []
    for frame in rdpcap(str(folder / "in.pcap")):
        ip, tcp = frame[IP], frame[TCP]
        length = ip.len - 20 - 4 * tcp.dataofs
        time_s = float(frame.time) - START_NS / 1e9
        found.append(Sent(time_s, (tcp.seq - ISN) % 2**32, length, ip.tos & 3))
    return found


# --- the backoff ----------------------------------------------------------------------------------


def waits_for_the_second_segment(folder: Path, *, has_timestamps: bool) -> list[float]:
    """Return the times between the copies of the second segment.

    The first segment timed out thrice. The copies of the first segment are sent at 10, 220 (a tail
    loss probe), 430, 850 and 1690 ms, and all are lost. Then an ACK is injected. With timestamps,
    this ACK refers to the last copy.
    """
    line = Line(NOTHING_ARRIVES, captures=folder)
    # the application writes the second segment after 2 s
    line.tcp(2 * SEGMENT, rate_bps=8 * SEGMENT / 2)
    first_time = [("Timestamp", (1, 0))] if has_timestamps else []
    send(line, 1, 10, flags="SA", seq=PEER_ISN, ack=ISN + 1, window=65535,
         options=MSS_AND_SACK + first_time)  # fmt: skip
    echo = [("Timestamp", (2, START_NS // 10**6 + 1690))] if has_timestamps else []
    send(line, 1, 1910, flags="A", seq=PEER_ISN + 1, ack=ISN + 1 + SEGMENT, window=65535,
         options=echo)  # fmt: skip
    line.run(8)
    line.virtual.close()
    segments = sent(folder)
    assert [round(each.time_s, 3) for each in segments if each.offset == 1 and each.length] == [
        0.01, 0.22, 0.43, 0.85, 1.69,
    ]  # fmt: skip
    return list(np.diff([each.time_s for each in segments if each.offset == 1 + SEGMENT]))


def test_the_backoff_stays_until_a_round_trip_is_measured(tmp_path: Path) -> None:
    """Without timestamps, the timeout is not reset by an ACK of a retransmission.

    Such an ACK gives no RTT sample (Karn's algorithm). The timeout is 210 ms, first doubled three
    times, and then four times.
    """
    waits_s = waits_for_the_second_segment(tmp_path, has_timestamps=False)
    assert waits_s[1:] == pytest.approx([1.68, 3.36], abs=1e-3)


def test_a_timestamp_tells_the_round_trip_of_a_retransmission(tmp_path: Path) -> None:
    """With timestamps, an ACK of a retransmission gives an RTT sample, here 220 ms.

    By RFC 6298, it changes SRTT from 10 ms to 36.25 ms, and RTTVAR from 5 ms to 56.25 ms. The next
    timeout follows from these values.
    """
    waits_s = waits_for_the_second_segment(tmp_path, has_timestamps=True)
    rto_s = 0.03625 + 4 * 0.05625
    assert waits_s[1:3] == pytest.approx([rto_s, 2 * rto_s], abs=1e-3)


def test_after_a_syn_that_was_sent_again_the_timeout_is_three_seconds(tmp_path: Path) -> None:
    """If the SYN was sent twice, the first timeout of data is 3 s (RFC 6298, 5.7).

    Without timestamps, nothing shows which copy of the SYN was answered.
    """
    line = Line(NOTHING_ARRIVES, captures=tmp_path)
    line.tcp(1000)
    send(line, 1, 1500, flags="SA", seq=PEER_ISN, ack=ISN + 1, window=65535, options=MSS_AND_SACK)
    line.run(6)
    line.virtual.close()
    times_s = [each.time_s for each in sent(tmp_path) if each.length]
    assert times_s == pytest.approx([1.5, 4.5])


# --- spurious timeouts ----------------------------------------------------------------------------


def test_a_spurious_timeout_is_undone() -> None:
    """After a timeout because all ACKs are 600 ms late, the window is as large as before.

    Only one segment is retransmitted. No data are lost.
    """
    line = Line({"rate_bps": 10**7, "delay_us": 10_000, "queue_packets": 100},
                back={"delay_us": 10_000})  # fmt: skip
    flow = line.tcp(3_000_000, "cubic")
    line.run(1.0)
    line.change(0, 1, delay_us=600_000)
    result = finished(line, flow)
    line.virtual.close()
    since_s = (result.progress["time_ns"] - START_NS) / 1e9
    before, timed_out, after = (
        result.progress[np.flatnonzero(since_s <= time_s)[-1]] for time_s in (1.0, 1.6, 1.65)
    )
    assert result.is_acknowledged
    assert timed_out["window"] == 1
    assert timed_out["retransmitted"] - before["retransmitted"] == 1
    assert after["window"] >= before["window"]
    assert result.progress["retransmitted"][-1] == timed_out["retransmitted"]
    assert after["rtt_us"] > 600_000  # with this RTT, the next timeout is later


def test_a_timeout_after_losses_is_not_undone() -> None:
    line = Line({"rate_bps": 10**7, "delay_us": 10_000, "queue_packets": 100},
                back={"delay_us": 10_000})  # fmt: skip
    flow = line.tcp(3_000_000, "cubic")
    line.run(1.0)
    line.change(0, 2, rate_bps=10**7, delay_us=10_000, loss_probability=1.0)
    line.run(1.6)
    line.change(0, 2, rate_bps=10**7, delay_us=10_000)
    result = finished(line, flow)
    line.virtual.close()
    since_s = (result.progress["time_ns"] - START_NS) / 1e9
    before, after = (
        result.progress[np.flatnonzero(since_s <= time_s)[-1]] for time_s in (1.0, 2.5)
    )
    assert after["acknowledged"] > before["acknowledged"]
    assert after["window"] < before["window"]


# --- losses, without SACK -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("acknowledged", "repeated_ms"),
    [
        # (ms, acknowledged segments): three duplicate ACKs, an ACK of some data, and of all data
        ([(20, 0), (20.5, 0), (21, 0), (30, 2), (40, 12)], {0: [21], 2: [30]}),
        ([(20, 0), (20.5, 0), (30, 2), (40, 12)], {}),
    ],
    ids=["three", "two"],
)
def test_a_peer_without_sack_tells_of_losses_by_duplicates(
    acknowledged: list[tuple[float, int]], repeated_ms: dict[int, list[float]], tmp_path: Path
) -> None:
    """Without SACK, three duplicate ACKs, or a partial ACK after them, cause a retransmission.

    RFC 5681, 3.2, and RFC 6582. Each of the first two duplicates permits a new segment (RFC 3042).
    """
    mss = 1460
    line = Line(NOTHING_ARRIVES, captures=tmp_path)
    flow = line.tcp(100 * mss)
    send(line, 1, 10, flags="SA", seq=PEER_ISN, ack=ISN + 1, window=65535,
         options=[("MSS", mss)])  # fmt: skip
    for after_ms, count in acknowledged:
        send(line, 1, after_ms, flags="A", seq=PEER_ISN + 1, ack=(ISN + 1 + count * mss) % 2**32,
             window=65535)  # fmt: skip
    line.run(0.05)
    progress = line.virtual.connections.result(flow).progress
    line.virtual.close()
    copies: dict[int, list[float]] = {}
    for each in sent(tmp_path):
        if each.length and each.time_s < 0.0395:
            copies.setdefault((each.offset - 1) // mss, []).append(round(each.time_s * 1000, 3))
    assert {number: times[1:] for number, times in copies.items() if times[1:]} == repeated_ms
    assert copies[10] == [20]
    assert copies[11] == [20.5]
    assert (int(progress["window"][-1]) < 10) == bool(repeated_ms)


# --- window probes --------------------------------------------------------------------------------


def test_window_probes_are_not_ecn_capable(tmp_path: Path) -> None:
    """Neither a window probe nor its copies are ECN-capable. All other new data are.

    RFC 3168, 6.1.6.
    """
    line = Line(NOTHING_ARRIVES, captures=tmp_path)
    line.tcp(5000, ecn=True)
    send(line, 1, 10, flags="SAE", seq=PEER_ISN, ack=ISN + 1, window=0, options=MSS_AND_SACK)
    send(line, 1, 500, flags="A", seq=PEER_ISN + 1, ack=ISN + 2, window=65535)
    line.run(0.6)
    line.virtual.close()
    data = [each for each in sent(tmp_path) if each.length]
    probes = [each for each in data if each.length == 1]
    assert len(probes) >= 2
    assert {each.ecn for each in probes} == {0}
    assert {each.ecn for each in data if each.time_s == pytest.approx(0.5)} == {ECT_0}
