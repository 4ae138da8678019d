"""CPU time per record at a collector: the offered load, the counts, and rejection of noisy runs."""

import argparse
import json
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wire
from arriving import frames
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether
from scripts import module
from wire import namespace, veth

from collectors.roce.application import FIRST_RKEY
from collectors.roce.region import TCP, Region
from collectors.roce.softnic import SoftNic
from experiments.shared.roce import candidates, interleaved_rounds, offered, receivers, rounds
from telemark.errors import TestbedError

experiment = module("roce_throughput")
OPTIONS = argparse.Namespace(rounds=3, seconds=1.0, time="real", quick=False)
COSTS = {  # CPU time in ns of the collector and of the sender
    candidates.BASELINE: (0, 600), candidates.UNREAD: (150, 800), candidates.ROCE: (200, 850),
    candidates.UDP: (900, 1200), candidates.UDP_NAPS: (300, 1000), candidates.PACKET: (200, 1100),
    candidates.PYTHON: (2000, 1000),
}  # fmt: skip


def some_rounds(
    noise: tuple[float, ...] = (1, 7, 0.9), waited: float = 0,
    wrong: Mapping[interleaved_rounds.Kind, Mapping[str, Any]] | None = None,
) -> list[Any]:  # fmt: skip
    """Return rounds that differ by a common factor of all costs.

    `wrong` has wrong values for some collectors in each round.
    """
    return [
        rounds.Round([
            interleaved_rounds.Turn(kind.name, load, 100, 1.0, 100 if kind.is_there else 0, 0, 0,
                       factor * sender_ns, factor * own_ns, waited)
            ._replace(**(wrong or {}).get(kind, {}))
            for load in experiment.LOADS for kind, (own_ns, sender_ns) in COSTS.items()
        ], candidates.BASELINE)
        for factor in noise
    ]  # fmt: skip


def counted(interface: str) -> Any:
    """Return the frames that the kernel counted at an interface."""
    said = subprocess.check_output(["ip", "-j", "-s", "link", "show", interface])
    return json.loads(said)[0]["stats64"]


def test_the_sender_counts_each_frame_that_its_interface_was_given_once(tmp_path: Path) -> None:
    """The sender counts each frame that its interface accepts, and counts it once.

    Two of five frames are too long for the other end, which drops them. The sender does not send
    these frames again.
    """
    path, lengths = tmp_path / "frames", (60, 60, 118, 118, 60)
    path.write_bytes(b"".join(struct.pack("<I", n) + bytes(12) + b"\x88\xb5" + bytes(n - 14)
                              for n in lengths))  # fmt: skip
    with namespace():
        veth("sender", "collector")
        wire.run("ip link set dev collector mtu 68")
        command = [str(interleaved_rounds._tool("offer")), "sender", str(path), "0", "0.05"]
        done = subprocess.run(command,
                              input="\n", text=True, capture_output=True, check=True)  # fmt: skip
        here, there = counted("sender"), counted("collector")
    sent = int(done.stdout.split()[2])
    passed, dropped = there["rx"]["packets"], here["tx"]["dropped"]
    assert (passed + dropped, dropped) == (sent, sum(n % 5 in (2, 3) for n in range(sent)))
    assert dropped > 0


def test_frames_of_roce_fill_the_region() -> None:
    writes = offered.RECORDS_WRITTEN
    nic = SoftNic(offered.COLLECTOR, mac=offered.MAC)
    region = Region(TCP, offered.COUNT)
    domain = nic.register(region, rkey=FIRST_RKEY)
    target = nic.connect(domain, offered.WRITER, transport=offered.TRANSPORT)
    assert target.qpn == offered.QPN
    assert nic.receive(frames(writes.frames(offered.MAC))) == []
    assert not nic.counts().refused
    assert region.records.tobytes() == offered.records().tobytes()
    assert receivers.wrong(region.records, offered.records(), offered.COUNT, 0) == 0
    assert receivers.alone_ns(writes) > 0
    region.records["sequence"][7] = 9
    region.records[[8, 9]] = np.zeros((), TCP)
    assert receivers.wrong(region.records, offered.records(), offered.COUNT, 1) == 2


def test_datagrams_hold_the_same_records() -> None:
    frames = offered.RECORDS_SENT.frames(offered.MAC)
    payloads = [bytes(Ether(each)[UDP].payload) for each in frames[:50]]
    assert b"".join(payloads) == offered.records()[:50].tobytes()


def test_costs_are_of_both_ends_and_ratios_of_one_round() -> None:
    report = experiment.report(some_rounds(), 80, OPTIONS)
    ratios = [check.measured for check in report.checks[:3]]
    assert ratios == pytest.approx([450 / 1500, 450 / 700, 450 / 350])
    assert report.passed
    assert report.metrics["records_per_s_per_core"][candidates.ROCE.name] == pytest.approx(
        1e9 / 450
    )


@pytest.mark.parametrize(
    ("wrong", "failed"),
    [
        ({"received": 99}, "records neither received nor counted as dropped"),
        ({"wrong": 1}, "wrong records in memory"),
        ({"collector_ns": 600}, "CPU time per record over RoCE (normalized to UDP in C),"),
    ],
)  # fmt: skip
def test_wrong_results_fail(wrong: dict[str, int], failed: str) -> None:
    report = experiment.report(some_rounds((1, 1, 1), wrong={candidates.ROCE: wrong}), 80, OPTIONS)
    assert not report.passed
    assert any(check.name.startswith(failed) for check in report.checks if not check.passed)


def test_noise_decides_nothing() -> None:
    dear = {candidates.ROCE: {"collector_ns": 6000}}
    with pytest.raises(TestbedError, match=r"run invalid: .* waited for a core for 9% of the"):
        experiment.report(some_rounds((1, 1, 1), 0.09, dear), 80, OPTIONS)
    experiment.report(some_rounds(waited=0.09), 80, OPTIONS)
    with pytest.raises(
        TestbedError, match=r"run invalid: the kernel dropped 10% .* UDP, C, max rate"
    ):
        experiment.report(
            some_rounds(wrong={candidates.UDP: {"received": 90, "dropped": 10}}), 80, OPTIONS
        )


TURN = """
import sys
from pathlib import Path
from experiments.shared.roce import candidates as all, interleaved_rounds
for kind in (all.BASELINE, all.ROCE, all.UDP_NAPS, all.PACKET, all.UNREAD):
    print(interleaved_rounds.turn(Path({folder!r}), kind, 20_000, 0.25))
"""


def test_a_turn_over_a_veth(tmp_path: Path) -> None:
    script = TURN.format(folder=str(tmp_path))
    done = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", script], capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    baseline, *taken = (
        eval(line, {"Turn": interleaved_rounds.Turn}) for line in done.stdout.splitlines()
    )
    assert baseline.received == 0
    assert len(taken) == 4
    for each in taken:
        assert each.sent == each.received + each.dropped > 0
        assert each.collector_ns > 0
        assert each.wrong == 0
