"""INT on bmv2: captures on both sides of bmv2 give bounds, and losses make a run inconclusive."""

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scripts import module
from virtual_networks import virtually

from controllers.ampm.watch import Method, check_limits
from experiments.shared.int import loss, microburst, on_bmv2
from experiments.shared.int.marking import BMV2_BOUNDS, BMV2_SCHEDULE, SCHEDULE, schedule_on
from experiments.shared.int.truth import FRAME
from telemark.errors import InvalidRunError
from telemark.traffic.flows import Flow

FLOW = Flow(1, "h1", "h2", 100, 4)
int_microburst = module("int_microburst")


def net_of(captures: dict[tuple[str, str, str], Any]) -> Any:
    """Return a network with these inner captures, in the form in which read() returns them."""

    def capture(switch: str, neighbour: str, what: str, *, inner: bool) -> Any:
        assert inner
        return captures.get((switch, neighbour, what), frames())

    return SimpleNamespace(capture=capture, neighbours=lambda _switch: ["h1", "h2"])


def frames(*times_ns: int) -> Any:
    found = np.zeros(len(times_ns), FRAME)
    found["time_ns"], found["port"] = times_ns, FLOW.port
    found["number"] = np.arange(len(times_ns))
    return found


def test_packets_are_inside_between_the_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_bmv2, "read", lambda given: given)
    net = net_of({
        ("s1", "h1", "out"): frames(0, 1000, 2000, 9000),
        ("s1", "h2", "in"): frames(5000, 6000, 7000, 9500),
    })  # fmt: skip
    [(inside_us, ahead)] = on_bmv2.read_transits(net, FLOW, ["s1"])
    assert inside_us.tolist() == [6, 6, 6, 1]
    assert ahead.tolist() == [0, 1, 2, 0]


def test_packets_that_did_not_come_out_make_a_run_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_bmv2, "read", lambda given: given)
    net = net_of({("s1", "h1", "out"): frames(0, 1), ("s1", "h2", "in"): frames(5)})
    with pytest.raises(InvalidRunError, match="s1: bmv2 dropped 1 packets"):
        on_bmv2.read_transits(net, FLOW, ["s1"])


def test_a_path_s_queues_get_a_rate_and_a_depth() -> None:
    asked = []

    def switch(name: str) -> Any:
        return SimpleNamespace(
            set_queue=lambda port, **changes: asked.append((name, port, changes))
        )

    net: Any = SimpleNamespace(switch=switch, port=lambda near, far: f"{near}-{far}")
    on_bmv2.limit_queues(net, ["s1", "s2", "h2"], rate_pps=100, depth=7)
    limits = {"rate_pps": 100, "depth": 7}
    assert asked == [("s1", "s1-s2", limits), ("s2", "s2-h2", limits)]


def test_blocks_allow_for_the_bounds_of_bmv2() -> None:
    assert schedule_on("minip4") is SCHEDULE
    check_limits(Method.DOUBLE, schedule_on("bmv2"), BMV2_BOUNDS)


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ({}, None),
        ({("s3", None): [5]}, "dropped 1 packets in s3"),
        ({("s2", loss.DENIED): [0], ("s3", loss.UNROUTED): [0]}, None),  # expected drops
        ({("s1", loss.DENIED): [0]}, "dropped 1 packets in s1"),
        ({("s5", None): [10]}, None),  # while the burst fills the queue
        ({("s5", None): [0]}, "dropped 1 packets in s5"),  # before the burst
        ({("s5", None): [19]}, "dropped 1 packets in s5"),  # long after the burst
        ({("s5", loss.FULL): [1]}, None),
    ],
)
def test_losses_without_a_cause_make_a_run_invalid(
    monkeypatch: pytest.MonkeyPatch, lost: dict[Any, list[int]], message: str | None
) -> None:
    flows = loss.make_flows(5, 62.5, 4, BMV2_SCHEDULE)
    causes = {flow.id: cause for cause, flow in flows.items()}

    def read_flow(place: tuple[str, str], flow: Flow) -> Any:
        switch, what = place
        count, gap_ns = (4, 10**6) if causes[flow.id] is loss.FULL else (20, 10**9)
        sequence = np.arange(count)
        times_ns = (10**18 + 10 * 10**9 + sequence * gap_ns) if count == 4 else (
            10**18 + sequence * gap_ns + 5 * 10**6)  # fmt: skip
        if what == "in":
            kept = ~np.isin(sequence, lost.get((switch, causes[flow.id]), []))
            sequence, times_ns = sequence[kept], times_ns[kept]
        return SimpleNamespace(sequence=sequence, time_ns=times_ns)

    monkeypatch.setattr(loss.pcap, "read_flow", read_flow)
    net: Any = SimpleNamespace(capture=lambda switch, _near, what, *, inner: (switch, what))
    if message is None:
        loss.reject_bmv2_losses(net, flows)
    else:
        with pytest.raises(InvalidRunError, match=message):
            loss.reject_bmv2_losses(net, flows)


def microburst_outcome(folder: Path) -> Any:
    """Return a microburst in virtual time. The clock error is at most 100 us, as on bmv2."""
    options = Namespace(program="p4src/int/int.p4", before=0.1, bursting="orange", time="virtual")
    outcome = virtually(
        folder, lambda run: microburst.measure(options, microburst.Scale(), run)
    )  # fmt: skip
    switches = [f"s{number}" for number in range(1, microburst.SWITCHES + 1)]
    vars(outcome)["clock_errors_us"] = dict.fromkeys(switches, 100.0)
    return outcome


def failed(outcome: Any) -> set[str]:
    culprit = int_microburst.Culprit.of(int_microburst.sightings(outcome.kept))
    checks = [*int_microburst.check_hops(outcome), *int_microburst.check_culprit(outcome, culprit)]
    return {check.name for check in checks if not check.passed}


def test_values_of_a_microburst_have_bounds(tmp_path: Path) -> None:
    """Checks of a microburst fail if a hop's timestamp or queue is outside its bounds.

    A timestamp may be up to 100 us before the arrival or after the departure, because the clock
    error is 100 us.
    """
    outcome = microburst_outcome(tmp_path)
    assert failed(outcome) == set()
    hops, truth = outcome.reported["red"][:, 1], outcome.truth["red"][1]
    low_us, high_us = truth.arrived_ns[7] // 1000 - 100, truth.left_ns[7] // 1000 + 100
    for us, wrong in ((low_us, 0), (low_us - 1, 1), (high_us, 0), (high_us + 1, 1)):
        hops["ingress_ns"][7] = us * 1000
        assert failed(outcome) == ({"s2: max error of arrival (us)"} if wrong else set())
    hops["ingress_ns"][7] = low_us * 1000
    hops["occupancy"][7] = truth.max_queued[7] + 1
    assert failed(outcome) == {"s2: max error of queue (packets)"}


def test_late_packets_of_a_microburst_have_bounds(tmp_path: Path) -> None:
    outcome = microburst_outcome(tmp_path)
    late, (low, high) = int_microburst.late_packets(outcome)
    assert low <= late <= high
    assert low < high
    outcome.reported["red"]["latency_ns"][:, -1] += 10**9
    name = "packets of the red flow later than 20 ms"
    assert failed(outcome) == {name}
