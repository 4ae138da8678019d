"""Forwarding by XDP and by the kernel: each packet leaves and is then counted."""

import argparse
import os

import pytest
from scripts import module

from experiments.shared.xdp import forwarding, frames
from experiments.shared.xdp.interleaved_rounds import Candidate, Offer, Turn, turns
from experiments.shared.xdp.switching import MINIP4

experiment = module("xdp_forward")
OPTIONS = argparse.Namespace(rounds=3, packets=100, time="real", quick=False)
NS = {forwarding.TX: 90, forwarding.REDIRECT: 100, forwarding.TC: 300, forwarding.BRIDGE: 500,
      forwarding.ROUTING: 400, MINIP4: 900}  # fmt: skip


def made(redirect_ns: float = 100) -> list[Turn]:
    return [
        Turn(number, each.name, 1, 100, 100,
             noise * (redirect_ns if each is forwarding.REDIRECT else ns), 1e9 / ns, 0)
        for number, noise in enumerate((1, 3, 0.5), start=1)
        for each, ns in NS.items()
    ]  # fmt: skip


def test_ratios_are_of_one_round_and_decide() -> None:
    report = experiment.report(made(), OPTIONS)
    assert [check.measured for check in report.checks] == pytest.approx([100 / 400, 0])
    assert report.passed
    slow = experiment.report(made(redirect_ns=140), OPTIONS)
    assert [check.passed for check in slow.checks] == [False, True]


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
@pytest.mark.parametrize("candidate", experiment.CANDIDATES, ids=lambda each: each.name)
def test_each_packet_is_counted_where_it_leaves(candidate: Candidate) -> None:
    made_frames = frames.flows(64, destination=forwarding.DESTINATION)
    (turn,) = turns([candidate], Offer(made_frames, 5000, [[0]], forwarding.RESTORED), 1, print)
    assert (turn.sent, turn.counted) == (5000, 5000)
