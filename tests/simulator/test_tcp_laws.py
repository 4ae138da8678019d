"""Goodput of TCP on virtual hosts: on a busy link, with random losses, and with ECN marks."""

from math import sqrt

import numpy as np
import pytest
from lines import MARKING, START_NS, Line
from transfers import FRAME, KINDS, SEGMENT, finished, goodput_bps


@pytest.mark.parametrize("kind", KINDS)
def test_goodput_of_a_full_link_is_its_rate_without_headers(kind: str) -> None:
    line = Line({"rate_bps": 10**8, "delay_us": 1000, "queue_packets": 10**5})
    result = finished(line, line.tcp(duration_ns=3 * 10**9, congestion=kind))
    assert result.retransmitted == 0
    assert goodput_bps(result, 1, 3) == pytest.approx(1e8 * SEGMENT / FRAME, rel=1e-3)
    line.virtual.close()


@pytest.mark.parametrize("share", [0.25, 0.5, 1, 2])
def test_a_queue_fills_the_link_as_its_size_lets_it(share: float) -> None:
    """Reno's goodput on a link with a queue equals theory, for queues of several sizes.

    The window grows by one segment per RTT, from half of the capacity of link and queue to this
    capacity. If the window is at most the bandwidth-delay product, an RTT is the delay plus the
    transmission time of a segment. The RTT of a larger window is the transmission
    time of the whole window.
    """
    rate_bps, delay_us = 20_000_000, 30_000
    link = rate_bps * delay_us / 1e6 / 8 / FRAME + 1
    queue = round(share * link)
    line = Line({"rate_bps": rate_bps, "delay_us": delay_us, "queue_packets": queue})
    result = finished(line, line.tcp(duration_ns=60 * 10**9))
    windows = np.arange(int(link + queue) // 2, int(link + queue) + 1)
    used = windows.sum() / np.maximum(windows, link).sum()
    assert goodput_bps(result, 10, 60) == pytest.approx(used * rate_bps * SEGMENT / FRAME, rel=0.02)
    line.virtual.close()


def mean_window(probability: float) -> float:
    """Return the mean window of Reno in segments. Each segment is lost with this probability.

    The window is a whole number. An RTT with a loss halves the window, and any other RTT increases
    it by one.
    """
    windows = np.arange(300)
    is_whole = (1 - probability) ** windows
    share = np.where(windows == 10, 1.0, 0.0)
    for _ in range(1000):
        grown = np.append(0, (share * is_whole)[:-1])
        share = grown + np.bincount(
            np.maximum(2, windows // 2), share * (1 - is_whole), len(windows)
        )
    return float((share * windows).sum()) * (1 - probability)


@pytest.mark.parametrize("probability", [0.001, 0.005, 0.02])
def test_reno_follows_the_square_root_law_with_random_loss(probability: float) -> None:
    """Reno's goodput with random loss equals that of a Markov chain of its window: mean_window().

    For small p, it is 1.31 / sqrt(p) segments per RTT (Ott, Kemperman, Mathis).
    """
    assert mean_window(1e-3) == pytest.approx(1.31 / sqrt(1e-3), rel=0.02)
    line = Line({"delay_us": 20_000, "loss_probability": probability})
    result = finished(line, line.tcp(duration_ns=400 * 10**9), 500)
    sent, came = (line.virtual.host_counters(host)[way]
                  for host, way in zip(line.hosts, ("sent", "received"), strict=True))  # fmt: skip
    assert result.retransmitted == sent - came  # one retransmission per lost segment
    rtt_s = result.progress["rtt_us"][2000:].mean() / 1e6
    expected_bps = mean_window(probability) * SEGMENT * 8 / rtt_s
    assert goodput_bps(result, 20, 400) == pytest.approx(expected_bps, rel=0.04)
    line.virtual.close()


@pytest.mark.parametrize("probability", [0.005, 0.01])
def test_cubic_with_random_loss_agrees_with_the_kernel(probability: float) -> None:
    """CUBIC's goodput with random loss equals that of the Linux kernel: see docs/reference/tcp.md.

    If the Reno-friendly window grew as fast as in RFC 9438, the goodput would be a fifth higher.
    """
    line = Line({"delay_us": 20_000, "rate_bps": 10**8, "loss_probability": probability})
    result = finished(line, line.tcp(0, "cubic", duration_ns=400 * 10**9), 500)
    rtt_s = result.progress["rtt_us"][2000:].mean() / 1e6
    expected_bps = 1.1 / sqrt(probability) * SEGMENT * 8 / rtt_s
    assert goodput_bps(result, 20, 400) == pytest.approx(expected_bps, rel=0.05)
    line.virtual.close()


def test_lost_segments_are_retransmitted_one_rtt_later() -> None:
    """A gap is filled one RTT after three later segments have arrived (RFC 5681, 3.2).

    The test checks the lower quartile of the times until gaps are filled.
    """
    line = Line({"rate_bps": 10**7}, {"delay_us": 100_000, "loss_probability": 0.005})
    result = finished(line, line.tcp(duration_ns=60 * 10**9), 100)
    waits_ns = np.diff(result.received["time_ns"].astype(np.int64))
    holes_ns = waits_ns[result.received["bytes"][1:] - result.received["bytes"][:-1] > 3 * SEGMENT]
    assert len(holes_ns) > 10
    assert np.quantile(holes_ns, 0.25) < 112_000_000
    line.virtual.close()


@pytest.mark.parametrize("kind", KINDS)
def test_ten_flows_share_a_link(kind: str) -> None:
    line = Line({"rate_bps": 10**8, "delay_us": 10_000, "queue_packets": 80})
    flows = [line.tcp(0, kind, 5001 + i, duration_ns=60 * 10**9, start_ns=START_NS + i * 10**8)
             for i in range(10)]  # fmt: skip
    line.run()
    got = [goodput_bps(line.virtual.connections.result(flow), 20, 59) for flow in flows]
    assert sum(got) == pytest.approx(1e8 * SEGMENT / FRAME, rel=0.01)
    assert sum(got) ** 2 / (10 * sum(x * x for x in got)) > 0.95  # Jain's fairness index
    line.virtual.close()


# --- ECN marks ------------------------------------------------------------------------------------

CONGESTED = {"rate_bps": 10**8, "delay_us": 1000, "queue_packets": 200}  # the link holds 8 packets


@pytest.mark.parametrize("kind", KINDS)
def test_flows_with_ecn_lose_no_packets(kind: str) -> None:
    marked = Line(CONGESTED, program=MARKING)
    result = finished(marked, marked.tcp(0, kind, duration_ns=5 * 10**9, ecn=True))
    assert result.retransmitted == 0
    assert goodput_bps(result, 1, 5) > 0.9e8 * SEGMENT / FRAME
    # The switch marks packets if its queue has 20 packets. With 8 packets on the link, this is a
    # window of 28 segments.
    late = result.progress[100:-1]
    assert 10 < late["window"].mean() < 40
    marked.virtual.close()


def test_dctcp_keeps_the_window_at_the_mark() -> None:
    """The window of DCTCP varies less than half as much as that of Reno.

    DCTCP reduces the window in proportion to the fraction of marked packets (RFC 8257), so that the
    queue is nearly constant.
    """
    spread = {}
    for kind in ("reno", "dctcp"):
        line = Line(CONGESTED, program=MARKING)
        result = finished(line, line.tcp(0, kind, duration_ns=5 * 10**9, ecn=True))
        spread[kind] = np.ptp(result.progress["window"][100:-1].astype(int))
        line.virtual.close()
    assert spread["dctcp"] < spread["reno"] / 2


def test_without_ecn_nothing_is_marked() -> None:
    line = Line(CONGESTED, program=MARKING)
    result = finished(line, line.tcp(0, duration_ns=2 * 10**9))
    assert result.retransmitted > 0
    line.virtual.close()
