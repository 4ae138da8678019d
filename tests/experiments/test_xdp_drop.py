"""Drops at XDP and at later hooks: each packet is counted by the candidate that drops it."""

import argparse
import os
from contextlib import ExitStack
from typing import Any

import pytest
from scripts import module, run

from ebpf.loader import run_live
from experiments.shared.xdp import dropping, frames, veth_setup
from experiments.shared.xdp.interleaved_rounds import Offer, Turn, turns
from telemark.errors import TestbedError

experiment = module("xdp_drop")
OPTIONS = argparse.Namespace(rounds=3, packets=100, time="real", quick=False)
NS = {dropping.ALL: 50, dropping.PORTS: 60, dropping.SOCKET: 200, dropping.TC: 180,
      dropping.NFT: 190, dropping.RAW: 250, dropping.FILTER: 300,
      dropping.CONNTRACK: 600}  # fmt: skip
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")


def made(**other_ns: float) -> list[Turn]:
    """Return rounds of a machine that is sometimes faster and sometimes slower."""
    return [
        Turn(number, each.name, cores, 100, 100, noise * other_ns.get(each.name, ns),
             cores * 1e9 / ns / noise, 0)
        for number, noise in enumerate((1, 3, 0.5), start=1)
        for each, ns in NS.items()
        for cores in range(1, each.cores + 1)
    ]  # fmt: skip


def checked(measured: list[Turn]) -> list[bool]:
    return [
        check.passed for check in experiment.report(measured, {"drop_ports": 9}, OPTIONS).checks
    ]


def test_ratios_are_of_one_round() -> None:
    report = experiment.report(made(), {"drop_ports": 9}, OPTIONS)
    assert [check.measured for check in report.checks] == pytest.approx([60 / 250, 60 / 600, 0])
    assert report.passed
    assert report.metrics["speedup_on_two_cores"]["conntrack"] == pytest.approx(2)
    assert dropping.SOCKET.name not in report.metrics["speedup_on_two_cores"]


def test_low_rates_fail() -> None:
    assert checked(made(**{dropping.PORTS.name: 72})) == [False, True, True]
    assert checked(made(**{dropping.CONNTRACK.name: 470})) == [True, False, True]


def test_frames_are_whole_and_differ() -> None:
    from scapy.layers.inet import IP, UDP  # noqa: PLC0415  slow to import
    from scapy.layers.l2 import Ether  # noqa: PLC0415

    made_frames = frames.flows()
    assert len({*made_frames}) == frames.FLOWS
    for each in made_frames[:: frames.FLOWS // 50]:
        packet = Ether(each)
        again = Ether(each)
        del again[IP].chksum, again[IP].len, again[UDP].len
        again[UDP].chksum = 0
        assert bytes(again) == each
        assert (packet.dst, packet[IP].dst) == ("02:00:00:00:00:01", frames.ADDRESS)
        assert packet[UDP].dport == 9


@needs_root
@pytest.mark.parametrize("candidate", dropping.CANDIDATES, ids=lambda each: each.name)
def test_each_contender_counts_each_packet_of_its_own(candidate: dropping.Candidate) -> None:
    offer = Offer(frames.flows(64), 5000, [[0]])
    (turn,) = turns([candidate], offer, 1, print)
    assert (turn.sent, turn.counted) == (5000, 5000)
    assert turn.ns_per_packet > 0
    elsewhere = Offer(frames.flows(64, port=20), 100, [[0]])
    if candidate not in (dropping.ALL, dropping.SOCKET):  # these candidates do not check the port
        with pytest.raises(TestbedError, match="100 packets sent, but 0 counted"):
            list(turns([candidate], elsewhere, 1, print))


@needs_root
@pytest.mark.parametrize(("candidate", "tracked"), [(dropping.CONNTRACK, 64), (dropping.FILTER, 0)])
def test_conntrack_is_on_only_for_its_candidate(
    candidate: dropping.Candidate, tracked: int
) -> None:
    place = veth_setup.VethPair()
    with place.entered(), ExitStack() as stack:
        ready = candidate.set_up(place, stack)
        run_live(ready.program, frames.flows(64, port=20), 64, ingress=veth_setup.DEVICE)
        assert int(place.run("cat /proc/sys/net/netfilter/nf_conntrack_count")) == tracked
    place.close()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--rounds", "0"), "--rounds"),
    ],
)
def test_unsupported_options_are_refused(
    arguments: tuple[str, ...], text: str, tmp_path: Any
) -> None:
    done = run("xdp_drop", *arguments, "--out", str(tmp_path))
    assert done.returncode == 2
    assert text in done.stderr
