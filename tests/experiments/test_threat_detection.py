"""Detection and mitigation of attacks.

Both take a bounded number of windows and packets. The mitigation does not drop clean traffic.
"""

import argparse
import os
from typing import Any

import pytest
from scripts import module

from ebpf.threats.alerts import Kind
from ebpf.threats.mitigation import Mitigation
from experiments.shared.xdp import attacks
from experiments.shared.xdp.attacks import Label
from experiments.shared.xdp.detection_pipeline import STEPS, WINDOW, StreamResult, summary

experiment = module("threat_detection")
OPTIONS = argparse.Namespace(runs=1, time="real", quick=False)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")


def streamed(kind: Kind, windows: int = 5) -> dict[str, Any]:
    clean, mixed = attacks.clean(), attacks.mixed(kind)
    detected = experiment.streamed(clean, mixed, windows, STEPS + STEPS // 2, 1)
    return summary(detected, kind)


@needs_root
@pytest.mark.parametrize("kind", Kind)
def test_a_threat_is_reported_and_stopped(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "WINDOW_S", 0)
    row = streamed(kind)
    own, of = attacks.SHARES[kind]
    assert row["packets"] == 5 * WINDOW
    assert row["windows_to_alert"] <= 2
    assert row["attack"] == pytest.approx(3.5 * WINDOW * own / of, abs=STEPS)
    assert 0 < row["attack_through"] <= 2.5 * WINDOW * own / of + STEPS
    assert (row["lost"], row["through_after_rules"], row["false_alarms"]) == (0, 0, 0)
    assert row["clean_stopped"] == 0
    assert (row["openings_stopped"] > 0) == (kind is Kind.SYN_FLOOD)


@needs_root
def test_without_rules_all_of_it_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "WINDOW_S", 0)
    monkeypatch.setattr(Mitigation, "act", lambda *_: [])
    row = streamed(Kind.PORT_SCAN)
    assert row["attack_through"] == row["through_after_rules"] == row["attack"] > 0


def test_frames_are_valid_and_have_labels() -> None:
    from scapy.layers.inet import IP, TCP  # noqa: PLC0415  slow to import
    from scapy.layers.l2 import Ether  # noqa: PLC0415

    for kind in Kind:
        packets = [Ether(each) for each in attacks.attack(kind)[:3]]
        for packet in packets:
            again = packet.copy()
            del again[IP].chksum
            assert Ether(bytes(again))[IP].chksum == packet[IP].chksum
            assert (packet[IP].id, len(packet)) == (Label.ATTACK, attacks.LENGTH)
    opening = Ether(attacks.clean()[0])
    assert (opening[IP].id, opening[TCP].flags) == (Label.OPENING, "S")
    assert Ether(attacks.clean()[1])[IP].id == Label.CLEAN


def make_row(kind: Kind, **others: Any) -> dict[str, Any]:
    row = {"kind": kind.value, "windows_to_alert": 2, "ms_to_alert": 60.0, "ms_to_rules": 4.0,
           "attack": 100, "attack_through": 20, "through_after_rules": 0, "clean_stopped": 0,
           "openings_stopped": 0, "false_alarms": 0}  # fmt: skip
    return row | others


@pytest.mark.parametrize(
    ("wrong", "failed"),
    [
        ({}, []), ({"windows_to_alert": 3}, [0]), ({"through_after_rules": 1}, [1]),
        ({"false_alarms": 1}, [2]), ({"clean_stopped": 1}, [3]),
    ],
)  # fmt: skip
def test_wrong_results_fail(wrong: dict[str, Any], failed: list[int]) -> None:
    rows = [make_row(kind) for kind in Kind]
    rows[2] |= wrong
    quiet = StreamResult([], 0, [], None)
    checks = experiment.report(rows, quiet, {}, OPTIONS).checks
    assert [number for number, each in enumerate(checks) if not each.passed] == failed
