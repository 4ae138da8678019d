"""Load balancing at XDP and by NAT: all packets of a connection arrive at one backend."""

import argparse
import os
from contextlib import ExitStack

import pytest
from scripts import module

from ebpf.loader import run_live
from experiments.shared.xdp import balancing, frames, veth_setup
from experiments.shared.xdp.interleaved_rounds import Candidate, Offer, Turn, turns

experiment = module("xdp_loadbalancer")
OPTIONS = argparse.Namespace(rounds=3, packets=100, time="real", quick=False)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")


def checked(xdp_ns: float) -> list[bool]:
    """Return which checks pass. The machine is faster in some of the rounds than in others."""
    costs = dict.fromkeys(balancing.ANYWHERE, 1600.0) | {balancing.XDP: xdp_ns}
    measured = [
        Turn(number, each.name, 1, 100, 100, noise * cost, 1e9 / cost, 0)
        for number, noise in enumerate((1, 3, 0.5), start=1)
        for each, cost in costs.items()
    ]
    report = experiment.report(measured, balancing.ANYWHERE, "none", OPTIONS)
    assert report.metrics["skipped"] == {"IPVS": "none"}
    assert report.caption.endswith("Without IPVS: none.")
    return [check.passed for check in report.checks]


def test_ratios_are_of_one_round_and_decide() -> None:
    assert checked(390) == [True, True]
    assert checked(410) == [False, True]


@needs_root
@pytest.mark.parametrize(
    "candidate", [*balancing.ANYWHERE, balancing.IPVS], ids=lambda each: each.name
)
def test_each_packet_comes_to_the_far_end(candidate: Candidate) -> None:
    if candidate is balancing.IPVS and (why := balancing.ipvs_missing()):
        pytest.skip(why)
    made = frames.flows(64, destination=balancing.VIP)
    (turn,) = turns([candidate], Offer(made, 3000, [[0]], balancing.MACS), 1, print)
    assert (turn.sent, turn.counted) == (3000, 3000)


@needs_root
@pytest.mark.parametrize(("candidate", "tracked"), [(balancing.NAT, 64), (balancing.STATELESS, 0)])
def test_connections_are_tracked_only_where_it_is_said(candidate: Candidate, tracked: int) -> None:
    place = veth_setup.VethPair()
    with place.entered(), ExitStack() as stack:
        ready = candidate.set_up(place, stack)
        made = frames.flows(64, destination=balancing.VIP)
        run_live(ready.program, made, 64, ingress=veth_setup.DEVICE)
        assert int(place.run("cat /proc/sys/net/netfilter/nf_conntrack_count")) == tracked
    place.close()
