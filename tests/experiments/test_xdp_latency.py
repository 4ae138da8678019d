"""Forwarding latency: each packet is timed once. Verdicts use ratios of values of one round."""

import os

import pytest
from scripts import module

from experiments.shared.xdp import delays, forwarding, frames
from experiments.shared.xdp.delays import ALONE, BATCH, BATCHES, Delay, Plan
from experiments.shared.xdp.interleaved_rounds import Candidate, ReadyCandidate
from telemark.errors import TestbedError
from telemark.results.report import Report

experiment = module("xdp_latency")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
PLAN = Plan(frames.flows(64, destination=forwarding.DESTINATION), 5, 3, 0)
NOISE = (1.0, 3.0, 0.5)  # factor of each round


def report(redirect: tuple[float, ...] = (0.3, 0.3, 0.3)) -> Report:
    """Return the report for a bridge that takes 10 us, and for XDP_REDIRECT.

    `redirect` has the ratio of XDP_REDIRECT to the bridge in each round.
    """
    found = experiment.report(
        [
            Delay(number, each.name, arrived, 5, 1e4 * noise * part, 2e4 * noise)
            for number, (noise, of_redirect) in enumerate(zip(NOISE, redirect, strict=True), 1)
            for each in experiment.CANDIDATES
            for arrived in (ALONE, BATCHES)
            for part in [of_redirect if each is forwarding.REDIRECT else 1]
        ],
        PLAN,
    )
    assert isinstance(found, Report)
    return found


def test_ratios_are_of_one_round_and_decide() -> None:
    assert [check.measured for check in report().checks] == pytest.approx([0.3, 0.3])
    assert [check.passed for check in report((0.4, 0.4, 0.4)).checks] == [True, False]
    assert [check.passed for check in report((0.6, 0.6, 0.6)).checks] == [False, False]


def test_where_rounds_differ_the_run_is_invalid() -> None:
    with pytest.raises(TestbedError, match=r"^run invalid: .* alone take 0.4 to 0.7 times "):
        report((0.4, 0.7, 0.6))


@needs_root
@pytest.mark.parametrize("candidate", experiment.CANDIDATES, ids=lambda each: each.name)
def test_each_packet_is_timed_where_it_leaves(candidate: Candidate) -> None:
    alone, batches = delays.delays([candidate], PLAN._replace(rounds=1), lambda _: None)
    assert (alone.packets, batches.packets) == (5, 5 * BATCH)
    for each in (alone, batches):
        assert 100 < each.median_ns <= each.p99_ns < 60e9


@needs_root
def test_a_packet_that_does_not_end_makes_the_run_invalid() -> None:
    def set_up(veth: delays.VethPair, stack: delays.ExitStack) -> ReadyCandidate:
        ready = forwarding.ROUTING.set_up(veth, stack)
        veth.run("echo 0 > /proc/sys/net/ipv4/ip_forward")
        return ready

    with pytest.raises(TestbedError, match=r"^run invalid: deaf: 13 packets sent, but 0 received"):
        list(delays.delays([Candidate("deaf", set_up)], PLAN, lambda _: None))
