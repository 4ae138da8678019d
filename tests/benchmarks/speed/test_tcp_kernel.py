"""The benchmark tcp_kernel.py: its evaluation of records, and its detection of disturbed runs."""

from pathlib import Path
from types import ModuleType

import loaded
import numpy as np
import pytest

from telemark.errors import TestbedError
from telemark.traffic import flows
from telemark.traffic.tcp import ANSWERS, PROGRESS, RECEIVED, TcpFlow, TcpRecord

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "speed" / "tcp_kernel.py"


@pytest.fixture
def tcp_kernel(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import tcp_kernel  # noqa: PLC0415

    return tcp_kernel


def test_it_takes_real_time(tmp_path: Path) -> None:
    done = loaded.run(SCRIPT, "--time", "virtual", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "use --time real" in done.stderr.splitlines()[-1]


def test_goodput_is_that_after_slow_start(tcp_kernel: ModuleType) -> None:
    """Goodput and RTT are those of the time after slow start, from 2 to 4 s.

    During this time, a segment arrives every 10 ms, and the RTT is 20 ms. Before and after it, both
    values differ.
    """
    seconds = np.arange(0, 6, 0.01)
    steps = np.where((seconds > 2) & (seconds < 4), 1448, 9000)
    received = np.zeros(len(seconds), RECEIVED)
    received["time_ns"] = 10**9 + np.round(seconds * 1e9)
    received["bytes"] = steps.cumsum()
    progress = np.zeros(len(seconds), PROGRESS)
    progress["time_ns"] = received["time_ns"]
    progress["rtt_us"] = np.where((seconds >= 2) & (seconds < 4), 20_000, 90_000)
    flow = TcpFlow(1, "h1", "h2", duration_s=4)
    found = tcp_kernel.goodput_of(TcpRecord(flow, progress, received, np.zeros(0, ANSWERS)), 4.0)
    assert found.rtt_ms == pytest.approx(20)
    assert found.window == pytest.approx(2)


@pytest.mark.parametrize(("rtt_ms", "is_refused"), [(20.8, False), (21.6, True)])
def test_a_slow_machine_makes_a_run_invalid(
    rtt_ms: float, is_refused: bool, tcp_kernel: ModuleType
) -> None:
    case = tcp_kernel.Case(tcp_kernel.PATHS[0], "reno")
    real, virtual = tcp_kernel.FlowGoodput(1e7, rtt_ms, 9), tcp_kernel.FlowGoodput(1.02e7, 20.0, 10)
    samples = [tcp_kernel.sample(case, real, virtual)]
    (window,) = tcp_kernel.checks(samples)
    assert samples[0].goodput == pytest.approx(1.02)
    assert window.measured == pytest.approx(1.02 * 20 / rtt_ms)
    if is_refused:
        with pytest.raises(TestbedError, match=r"run invalid.*lost, reno: the RTT was 8%"):
            tcp_kernel.reject_if_late(samples, {"": 0.0})
    else:
        tcp_kernel.reject_if_late(samples, {"": 0.0})


def test_a_machine_that_stalled_makes_a_run_invalid(tcp_kernel: ModuleType) -> None:
    """A run is invalid if too many probes were late or lost.

    Of 1,000 probes, 17 arrived 1.1 ms after the link delay, and ten were lost.
    """
    sent, received = np.zeros(1000, flows.SENT), np.zeros(990, flows.RECEIVED)
    sent["sent_ns"] = 10**9 + 10**6 * np.arange(1000)
    received["sequence"], received["sent_ns"] = np.arange(10, 1000), sent["sent_ns"][10:]
    took_ns = np.where(np.arange(990) < 17, 16_100_000, 15_900_000)
    received["received_ns"] = sent["sent_ns"][10:] + took_ns.astype(np.uint64)
    late = tcp_kernel.late_share(
        flows.FlowRecord(flows.Flow(1, "p", "q", 1000, 1000), sent, received, 0, 0, 0, 0)
    )
    assert late == pytest.approx(0.027)
    case = tcp_kernel.Case(tcp_kernel.PATHS[0], "reno")
    same = tcp_kernel.FlowGoodput(1e7, 20.0, 9)
    samples = [tcp_kernel.sample(case, same, same)]
    with pytest.raises(TestbedError, match=r"run invalid: 2\.7% of the probes were late"):
        tcp_kernel.reject_if_late(samples, {"a": 0.0, "b": late})
    tcp_kernel.reject_if_late(samples, {"a": 0.0, "b": 0.01})


def test_flows_that_disagree_are_no_failure(tcp_kernel: ModuleType) -> None:
    assert not tcp_kernel.check_mean("", [1.06, 1.1]).passed
    assert not tcp_kernel.check_mean("", [0.9, 0.94]).passed
    assert tcp_kernel.check_mean("", [0.9, 1.06]).passed
    for found in ([0.96, 1.2], [0.9, 0.96], [0.8, 1.06]):
        with pytest.raises(TestbedError, match=r"run invalid: .*flows of one case have"):
            tcp_kernel.check_mean("", found)
