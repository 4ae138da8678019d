"""CPU utilization as a function of load: verdicts, and rejection of disturbed measurements."""

import os

import pytest
from scripts import module

from experiments.shared.xdp import loads
from experiments.shared.xdp.dropping import PORTS, passing
from experiments.shared.xdp.frames import flows
from experiments.shared.xdp.loads import CANDIDATES, POLLING, Loaded, Plan
from experiments.shared.xdp.pace import Offered, start_pace
from experiments.shared.xdp.veth_setup import VethPair
from telemark.errors import TestbedError

experiment = module("xdp_cpu")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
NS = dict(zip(CANDIDATES, (70, 300, 700, 200, 150), strict=True))  # ns per packet of each candidate
PLAN = Plan([], (100_000, 400_000, 1_600_000), 0.1, 3, [0, 1])


def made(process: float = 1.0, **changed_ns: float) -> list[Loaded]:
    """Return rounds of a machine that is sometimes faster and sometimes slower."""
    found = []
    for number, noise in enumerate((1, 1.3, 0.8), start=1):
        for each, ns in NS.items():
            cost_s = noise * changed_ns.get(each.name, ns) / 1e9
            own = process if each is POLLING else 0.0
            for pps in (*PLAN.loads_pps, 0):
                carried = min(pps or 1e12, 1 / cost_s)
                found.append(Loaded(number, each.name, pps, 9, 9, carried,
                                    carried * cost_s + own, own, 0, 1))  # fmt: skip
    return found


def checked(measured: list[Loaded]) -> list[bool]:
    return [check.passed for check in experiment.report(measured, PLAN).checks]


def test_ratios_are_of_one_round_and_decide() -> None:
    report = experiment.report(made(), PLAN)
    assert report.passed
    assert report.checks[3].measured == pytest.approx(70 / 300)
    assert checked(made(**{PORTS.name: 160})) == [True, True, True, False, True]
    assert checked(made(process=0.5)) == [True, False, True, True, True]
    assert checked(made(**{PORTS.name: 3000})) == [False, True, False, False, True]


def test_rounds_that_differ_decide_nothing() -> None:
    """A run is inconclusive if some of its rounds meet a claim and others do not.

    Here, one of three rounds meets it. In the others, the machine may have been slower.
    """
    for pps, less, text in (
        (100_000, 2.5, r"0\.23 to 0\.58 of the CPU time of iptables raw at 100,000;"),
        (400_000, 0.1, r"0\.25 to 2\.5 of the CPU time of XDP, by UDP port at 400,000;"),
    ):  # fmt: skip
        measured = [
            each._replace(busy=each.busy * less)
            if (each.candidate, each.offered_pps) == (PORTS.name, pps) and each.round > 1 else each
            for each in made()
        ]  # fmt: skip
        with pytest.raises(TestbedError, match=f"^run invalid: rounds differ: .*{text}"):
            experiment.report(measured, PLAN)


class Script:
    """A given sequence of measurements, which replaces measurements on a machine."""

    def __init__(self, *found: tuple[Offered, float, float]) -> None:
        self.found = list(found)

    def __call__(self, *_arguments: object) -> tuple[Offered, float, float]:
        return self.found.pop(0)


def test_disturbed_measurements_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = loads.ReadyCandidate(None, lambda: 0)  # type: ignore[arg-type]
    quiet, disturbed = Offered(0, 10, 0.5, 0.0), Offered(0, 10, 0.9, 0.4)
    monkeypatch.setattr(
        loads, "_offered", Script((disturbed, 0, 0), (quiet, 0, 0.4), (quiet, 0, 0))
    )
    found = loads._at_last(PLAN, (1, "x", 5), None, ready)  # type: ignore[arg-type]
    assert (found.busy, found.tries) == (0.5, 3)
    monkeypatch.setattr(loads, "_offered", Script(*[(disturbed, 0, 0)] * loads.TRIES))
    with pytest.raises(TestbedError, match="used its cores for 40% of the time"):
        loads._at_last(PLAN, (1, "x", 5), None, ready)  # type: ignore[arg-type]


@needs_root
@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda each: each.name)
def test_offered_packets_are_counted(candidate: loads.Candidate) -> None:
    veth = VethPair()
    plan = Plan(flows(64), (), 0.01, 1, [0, max(os.sched_getaffinity(0))])
    with veth.entered(), loads.ExitStack() as stack:
        ready = candidate.set_up(veth, stack)
        with start_pace(ready.program, plan.frames) as pace:
            offered, process, _ = loads._offered(plan, pace, ready, 50_000)
        assert 0 < offered.packets <= 50_000 * 0.01
        if ready.follow is None:
            assert ready.counted() == offered.packets
        else:  # the ring has room for all packets
            assert (ready.counted(), process > 0) == (offered.packets, True)
    veth.close()


@needs_root
def test_the_pace_is_kept_by_the_clock() -> None:
    veth = VethPair()
    with (
        veth.entered(), loads.ExitStack() as stack,
        start_pace(passing(stack), flows(16, port=20)) as pace,
    ):  # fmt: skip
        found = [pace.offer(100_000, 0.002) for _ in range(30)]
        due = [each.wall_ns * 1e-4 for each in found]
        assert all(each.packets <= limit for each, limit in zip(found, due, strict=True))
        assert any(each.packets > limit - 1.01 for each, limit in zip(found, due, strict=True))
        # other processes may use the core during some measurements
        assert any(0 < each.busy < 0.5 for each in found)
        assert any(pace.offer(0, 0.002).busy > 0.5 for _ in found)
    veth.close()
