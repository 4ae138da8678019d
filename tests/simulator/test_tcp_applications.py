"""TCP applications in virtual time: requests and off periods, compared with theory."""

import numpy as np
import pytest
from lines import START_NS, Line

from minip4.simulator.tcp import TcpResult

SEGMENT = 1448  # bytes of data
KINDS = ("reno", "cubic", "dctcp")
DELAY_US = 10_000
RTT_NS = 2 * DELAY_US * 1000


def conversation(line: Line, requests: int, asked: int, answer: int, **more: object) -> TcpResult:
    number = line.tcp(requests * asked, request_bytes=asked, response_bytes=answer, **more)
    line.run()
    result = line.virtual.connections.result(number)
    assert (result.is_acknowledged, result.has_failed) == (True, False)
    assert line.virtual.next_ns is None  # no event is left, so both ends are closed
    return result


@pytest.mark.parametrize(
    ("answer", "rounds"),
    [(1, 1), (10 * SEGMENT, 1), (11 * SEGMENT, 2), (30 * SEGMENT, 2), (31 * SEGMENT, 3)],
)
def test_an_answer_takes_the_round_trips_of_slow_start(answer: int, rounds: int) -> None:
    """A response takes as many RTTs as slow start needs for its segments.

    The window has 10 segments, and doubles after each RTT (RFC 6928, RFC 5681).
    """
    line = Line({"delay_us": DELAY_US}, back={"delay_us": DELAY_US})
    (only,) = conversation(line, 1, 100, answer).answers.tolist()
    assert only[0] == START_NS + RTT_NS  # the first request is sent at the end of the handshake
    assert only[1] - only[0] == rounds * RTT_NS
    line.virtual.close()


def test_the_next_request_follows_the_answer() -> None:
    line = Line({"delay_us": DELAY_US}, back={"delay_us": DELAY_US})
    answers = conversation(line, 20, 100, 1000, think_ns=7_000_001).answers
    asked, answered = answers["asked_ns"].astype(int), answers["answered_ns"].astype(int)
    assert np.all(answered - asked == RTT_NS)
    assert np.all(asked[1:] - answered[:-1] == 7_000_001)
    line.virtual.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("asked", "answer"), [(1, 1), (200, 50_000), (50_000, 3), (3000, 3000)])
def test_all_is_answered_whatever_is_lost(kind: str, asked: int, answer: int) -> None:
    line = Line({"delay_us": 100, "loss_probability": 0.05}, back={"loss_probability": 0.05})
    result = conversation(line, 30, asked, answer, congestion=kind)
    assert len(result.answers) == 30
    assert np.all(result.answers["answered_ns"] > result.answers["asked_ns"])
    assert result.received["bytes"][-1] == 30 * asked
    assert result.progress["acknowledged"][-1] == 30 * asked
    line.virtual.close()


def received_by(result: TcpResult, until_s: float) -> int:
    at = np.searchsorted(result.received["time_ns"], START_NS + round(until_s * 1e9))
    return int(result.received["bytes"][at - 1]) if at else 0


def test_a_flow_is_silent_in_turns() -> None:
    line = Line({"rate_bps": 10**8})
    second = 10**9
    number = line.tcp(duration_ns=4 * second, on_ns=second // 2, off_ns=second // 2,
                      rate_bps=8e6)  # fmt: skip
    line.run()
    result = line.virtual.connections.result(number)
    for cycle in range(4):  # 10^6 bytes/s for half a second, then nothing for half a second
        assert received_by(result, cycle + 0.55) == pytest.approx(
            (cycle + 1) * 500_000, abs=2 * SEGMENT
        )
        assert received_by(result, cycle + 0.999) == received_by(result, cycle + 0.55)
    line.virtual.close()


def test_as_much_as_goes_in_each_turn() -> None:
    """In each on period, a flow fills the link. Then the data in its buffer are still sent."""
    line = Line({"rate_bps": 10**7, "queue_packets": 20})
    number = line.tcp(duration_ns=2 * 10**9, on_ns=10**8, off_ns=9 * 10**8)
    line.run()
    result = line.virtual.connections.result(number)
    link_bytes_s = 10**7 / 8 * SEGMENT / 1514
    for cycle in (0, 1):
        came = received_by(result, cycle + 0.99) - received_by(result, cycle)
        assert 0.09 * link_bytes_s < came < 0.1 * link_bytes_s + (1 << 17)
        assert received_by(result, cycle + 0.99) == received_by(result, cycle + 0.5)
    line.virtual.close()


def test_after_a_silence_the_window_is_the_first_again() -> None:
    """After an idle second, the window is below a quarter of its size, but at least 10 segments.

    The window is halved for each timeout of about 0.2 s that fits in the idle time (RFC 5681, 4.1).
    """
    line = Line({"delay_us": DELAY_US}, back={"delay_us": DELAY_US})
    number = line.tcp(duration_ns=3 * 10**9, on_ns=10**9, off_ns=10**9, rate_bps=5e7)
    line.run()
    result = line.virtual.connections.result(number)
    since_s = (result.progress["time_ns"] - START_NS) / 1e9
    window = dict(zip(np.round(since_s, 2), result.progress["window"], strict=True))
    assert window[0.99] > 60
    assert 10 <= window[2.01] < window[0.99] / 4
    line.virtual.close()


def window_before_and_after_a_lost_tail(kind: str) -> tuple[int, int]:
    """Return the window before and after the loss of a request's last segment.

    Each request has 20 segments. The last segment of the last request but one is lost on the second
    link.
    """
    line = Line({"rate_bps": 10**7}, {"delay_us": 1000}, back={"delay_us": 1000})
    requests, asked = 100, 20 * SEGMENT
    number = line.tcp(requests * asked, kind, request_bytes=asked, response_bytes=1,
                      think_ns=10**8)  # fmt: skip
    connections = line.virtual.connections
    seconds = 0.0
    while len(connections.result(number).answers) < requests - 2:
        seconds += 0.001
        line.run(seconds)
    (_, answered_ns) = connections.result(number).answers[-1].tolist()
    asks_s = (answered_ns + 10**8 - START_NS) / 1e9
    line.run(asks_s + 0.0236)
    before = int(connections.result(number).progress["window"][-1])
    line.change(1, 2, delay_us=1000, loss_probability=1.0)
    line.run(asks_s + 0.025)
    line.change(1, 2, delay_us=1000)
    line.run(asks_s + 20)
    result = connections.result(number)
    assert (result.is_acknowledged, len(result.answers)) == (True, requests)
    assert result.retransmitted == 1
    line.virtual.close()
    return before, int(result.progress["window"][-1])


def test_a_probe_of_a_late_segment_does_not_reduce_the_window() -> None:
    """When the delay grows, probes are sent for segments that are only late.

    The window does not shrink. For the second copy of a segment, the receiver reports a duplicate
    after the ACK of the first copy (RFC 8985, 7.4).
    """
    line = Line({"delay_us": DELAY_US}, back={"delay_us": DELAY_US})
    number = line.tcp(30 * 5 * SEGMENT, request_bytes=5 * SEGMENT, response_bytes=1,
                      think_ns=10**8)  # fmt: skip
    line.run(2)
    before = int(line.virtual.connections.result(number).progress["window"][-1])
    line.change(0, 2, delay_us=6 * DELAY_US)
    line.run()
    result = line.virtual.connections.result(number)
    assert len(result.answers) == 30
    assert result.retransmitted > 0
    assert result.progress["window"][-1] >= before
    line.virtual.close()


@pytest.mark.parametrize("kind", ["reno", "dctcp"])
def test_a_loss_that_a_probe_repairs_halves_the_window(kind: str) -> None:
    """After a probe has repaired a loss, the window is half as large, for Reno and for DCTCP.

    DCTCP halves the window after a loss for any fraction of marked packets (RFC 8257, 3.5).
    """
    before, after = window_before_and_after_a_lost_tail(kind)
    assert before >= 20
    assert 0.45 * before <= after <= 0.6 * before
