"""CUBIC's window after a loss and after an idle period, as in RFC 9438 and in Linux."""

import numpy as np
import pytest
from lines import START_NS, Line
from numpy.typing import NDArray

C = 0.4  # segments / s^3 (RFC 9438, 5)
RTT_S = 0.05
LINK = {"delay_us": 1e6 * RTT_S, "rate_bps": 10**9, "queue_packets": 5000}
Trace = tuple[NDArray[np.float64], NDArray[np.float64]]


def windows(lost_from_s: float, lost_s: float, until_s: float) -> Trace:
    """Return times and windows of a CUBIC flow. Its link loses all packets for `lost_s` seconds."""
    line = Line(LINK, {})
    flow = line.tcp(duration_ns=10**11, congestion="cubic")
    line.run(lost_from_s)
    line.change(0, 2, loss_probability=1.0, **LINK)
    line.run(lost_from_s + lost_s)
    line.change(0, 2, loss_probability=0.0, **LINK)
    line.run(until_s)
    progress = line.virtual.connections.result(flow).progress
    line.virtual.close()
    return (progress["time_ns"] - START_NS) / 1e9, progress["window"].astype(np.float64)


def test_after_a_loss_the_window_is_on_the_curve() -> None:
    """At seven points in time after a loss, the window is that of W_cubic (RFC 9438, 4.2).

    This also holds after the plateau, where no ACK changes the window. For this, the window is
    computed again at regular times (in Linux every HZ / 32).
    """
    time_s, window = windows(0.352, 0.001, 15)
    at = int(np.argmin(np.where(time_s < 0.45, np.inf, window)))
    largest = window[at] / 0.7  # in segments; 0.7 is from RFC 9438, 4.6
    k_s = np.cbrt(0.3 * largest / C)
    since_s = np.array([1, 2, 4, 6, k_s, k_s + 3, k_s + 5])
    found = window[np.searchsorted(time_s, time_s[at] + since_s)]
    assert found == pytest.approx(largest + C * (since_s - k_s) ** 3, rel=0.01)


def test_after_a_silence_the_window_grows_by_a_twentieth_a_round_trip() -> None:
    """After an idle period, the window grows by 5 % per RTT, as in a new epoch (RFC 9438, 4.8).

    Linux lets the window grow by at least this much if no loss has occurred yet.
    """
    time_s, window = windows(0.3, 1.5, 3.7)
    began = int(np.searchsorted(time_s, 2.7))
    trips = np.arange(1, 20)
    found = window[np.searchsorted(time_s, time_s[began] + RTT_S * trips)]
    assert found == pytest.approx(window[began] * 1.05**trips, rel=0.01)
