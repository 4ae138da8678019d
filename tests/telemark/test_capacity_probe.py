"""The probe finds the highest rates that bmv2 sustains, and selects half of them.

If these rates are too low, it raises an error.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from telemark import capacity_probe
from telemark.backends.virtual.clock import VirtualClock
from telemark.capacity_probe import (
    CapacityEstimate,
    probe,
    probe_flow,
    probe_flows,
    probe_program,
)
from telemark.errors import TestbedError
from telemark.session.run import Run
from telemark.traffic.flows import RECEIVED, SENT, Flow, FlowRecord, RateError

FLOW = Flow(1, "h1", "h2", rate_pps=1000, count=5000)


class Bmv2:
    """A network of one bmv2.

    `outcome` returns the number of dropped frames and the waiting time (us) for a packet rate.
    """

    def __init__(self, outcome: Callable[[float], tuple[int, int]]) -> None:
        self.name = "probe"
        self.expected_drops: list[str] = []
        self.topo = SimpleNamespace(switches=lambda: ["s1"])
        self.tried: list[float] = []
        self._outcome = outcome
        self._inside = 0
        self._on_the_way = 0

    def switch(self, _name: str) -> Any:
        def read_counters() -> dict[str, Any]:
            """Return counters which show that packets in flight arrive step by step."""
            inside = self._inside + self._on_the_way
            self._on_the_way = max(self._on_the_way - 5, 0)
            return {"inner": {"into": 100_000, "out": 100_000 - inside}}

        return SimpleNamespace(read_counters=read_counters)

    def traffic(self, _net: Any, flows: list[Flow]) -> "Bmv2":
        self._flows = flows
        return self

    async def __aenter__(self) -> "Bmv2":
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def finish(self, _drain_s: float) -> dict[int, FlowRecord]:
        (flow,) = self._flows
        self.tried.append(flow.rate_pps)
        dropped, wait_us = self._outcome(flow.rate_pps)
        self._inside += dropped
        self._on_the_way = 23
        if wait_us < 0:
            raise RateError("rate too high for this machine")
        received = np.zeros(3, RECEIVED)
        received["received_ns"] = [10**6, 10**6 + 1000 * wait_us, 2 * 10**6]
        received["sent_ns"] = [0, 0, 10**6]
        return {1: FlowRecord(flow, np.zeros(3, SENT), received, 0, 0, 0, 0)}


def run_probe(
    net: Bmv2, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[CapacityEstimate, list[CapacityEstimate]]:
    monkeypatch.setattr(capacity_probe, "Traffic", net.traffic)
    clock = VirtualClock()
    run = Run("test", folder, 1, clock=clock)
    return clock.run(probe(net, [FLOW], run)), run.capacities  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "share", "wait_us"),
    [
        (lambda rate: (0, 700), 1, 700),
        (lambda rate: (9 if rate > 500 else 0, 700), 1 / 4, 700),  # bmv2 drops packets
        (lambda rate: (0, 200_000 if rate > 1000 else 40_000), 1 / 2, 40_000),  # the queue grows
        (lambda rate: (0, -1 if rate > 1000 else 5), 1 / 2, 5),  # the sender is late
    ],
)
def test_half_of_what_goes_well_is_taken(
    outcome: Callable[[float], tuple[int, int]], share: float, wait_us: float, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    net = Bmv2(outcome)
    found, noted = run_probe(net, tmp_path, monkeypatch)
    assert found == CapacityEstimate(share, wait_us)
    assert noted == [found]
    assert net.tried == [2000 / 2**n for n in range(len(net.tried))]
    assert net.tried[-1] == 2000 * share
    assert "bmv2" in net.expected_drops  # such drops cause no warning


def test_a_network_that_bears_nothing_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Bmv2(lambda rate: (7, 120_000))
    with pytest.raises(TestbedError) as raised:
        run_probe(net, tmp_path, monkeypatch)
    assert str(raised.value) == (
        "bmv2 cannot sustain 1/64 of the requested rates: it dropped 7 packets, with a queueing "
        "delay of 120.0 ms; reduce the load on the machine or use --target minip4"
    )


def test_what_is_still_on_its_way_is_not_dropped_and_does_not_meet_the_next_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe waits for packets in flight before it counts drops and starts the next trial.

    Otherwise, these packets would count as dropped. They would then reach closed ports, and the
    kernel would report this to the senders of the next trial.
    """
    net = Bmv2(lambda rate: (0, 1))
    run_probe(net, tmp_path, monkeypatch)
    assert net.tried == [2000]
    assert net._on_the_way == 0


@pytest.mark.parametrize(
    ("unreceived", "unhandled", "share"), [(0, 0, 1), (1, 0, 1 / 4), (0, 1, 1 / 4)]
)
def test_programs_that_add_and_consume_frames_count_packets(
    unreceived: int, unhandled: int, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rate is too high if packets do not reach the receiver, or if the program misses packets.

    In this test, one of the two misses a packet above 500 packets/s.
    """
    handled = 0

    async def count() -> int:
        return handled

    async def send_flows(_net: object, flows: list[Flow]) -> tuple[int, float]:
        nonlocal handled
        (flow,) = flows
        is_lossy = flow.rate_pps > 500
        handled += flow.count - unhandled * is_lossy
        return flow.count - unreceived * is_lossy, 5.0

    monkeypatch.setattr(capacity_probe, "_send_flows", send_flows)
    clock = VirtualClock()
    run = Run("test", tmp_path, 1, clock=clock)
    net: Any = Bmv2(lambda _rate: (0, 0))
    found = clock.run(probe_program(net, FLOW, count, run))
    assert found == CapacityEstimate(share, 5.0)
    assert run.capacities == [found]


def test_programs_that_add_frames_lose_packets_of_flows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rate is too high if packets are lost or wait too long.

    In this test, a packet is lost above 500 packets/s. Above 250 packets/s, packets wait 400 ms.
    """

    async def send_flows(_net: object, flows: list[Flow]) -> tuple[int, float]:
        rate_pps = flows[0].rate_pps
        received = sum(flow.count for flow in flows) - (rate_pps > 500)
        return received, 400_000.0 if rate_pps > 250 else 5.0

    monkeypatch.setattr(capacity_probe, "_send_flows", send_flows)
    clock = VirtualClock()
    run = Run("test", tmp_path, 1, clock=clock)
    flows = [FLOW, Flow(2, "h1", "h2", rate_pps=1000, count=5000)]
    for limit_us, share in ((500_000.0, 1 / 4), (400_000.0, 1 / 8)):
        net: Any = Bmv2(lambda _rate: (0, 0))
        assert clock.run(probe_flows(net, flows, run, limit_us)).share == share
        assert "bmv2" in net.expected_drops


@pytest.mark.parametrize(
    ("flow", "factor", "rate", "count", "after_s"),
    [
        (FLOW, 2, 2000, 2000, 0),
        (FLOW, 1 / 64, 1000 / 64, 15, 0),
        (Flow(1, "h1", "h2", 1000, 100), 1, 1000, 100, 0),
        (Flow(1, "h1", "h2", 1000, 100), 1 / 4, 250, 25, 0),  # the flow lasts a tenth of a second
        (Flow(1, "h1", "h2", 1000, 5000, after_s=0.25), 1, 1000, 750, 0.25),
        (Flow(1, "h1", "h2", 1000, 5000, after_s=7), 1, 1000, 1000, 0),
        (Flow(1, "h1", "h2", 1, 5), 1 / 64, 1 / 64, 1, 0),
    ],
)
def test_a_second_of_each_flow_is_tried(
    flow: Flow, factor: float, rate: float, count: int, after_s: float
) -> None:
    tried = probe_flow(flow, factor)
    assert (tried.rate_pps, tried.count, tried.after_s) == (rate, count, after_s)
    assert (tried.id, tried.port, tried.size) == (flow.id, flow.port, flow.size)


def test_rates_are_whole_and_never_nothing() -> None:
    assert [CapacityEstimate(1 / 4, 0).rate(rate) for rate in (1000, 5, 2)] == [250, 1, 1]
    assert CapacityEstimate(1, 0).rate(5) == 5
