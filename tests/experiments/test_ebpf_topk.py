"""TopK: wrong results fail the claims. Captures are read; invalid captures are rejected."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap
from scripts import module

from ebpf.statistics import frequent
from experiments.shared.xdp.streams import read_stream, zipf
from telemark.errors import TestbedError
from telemark.session.run import Run

experiment = module("ebpf_topk")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="BPF needs root")


def found(**changes: object) -> list[object]:
    heavy = experiment.Found("HeavyKeeper", 64, 20, 1, 0, 1.0, 1.0, 0.0, 0.0, 0)
    return [heavy._replace(**changes), heavy._replace(method="FREQUENT", wrong=0)]


@pytest.mark.parametrize(
    ("changes", "beside", "failed"),
    [
        ({}, {}, None),
        ({"recall": 0.985}, {}, "recall of the top 20"),
        ({"wrong": 1}, {}, "above ground truth"),
        ({}, {"heavy": 0.61}, "HeavyKeeper: CPU time"),
        ({}, {"exact": 0.61}, "FREQUENT: CPU time"),
    ],
)
def test_wrong_results_fail(changes: dict, beside: dict, failed: str | None) -> None:
    each = found(**changes)
    costs = {"heavy": 0.3, "exact": 0.5, **beside}
    wrong = [c.name for c in experiment.make_checks(each, each[:1], costs, False) if not c.passed]
    assert len(wrong) == (failed is not None)
    assert all(failed in name for name in wrong)


@pytest.mark.parametrize(
    ("heavy_ns", "hash_ns", "problem"),
    [
        ([90, 90, 10], [100, 100, 100], "rounds differ: HeavyKeeper needs 0.1 to 0.9 times .*;"),
        (
            [30, 30, -9],
            [100, 100, -10],
            "the hash map took no more CPU time than an empty program in one round;",
        ),
    ],
)
def test_rounds_that_differ_decide_nothing(
    heavy_ns: list[float], hash_ns: list[float], problem: str
) -> None:
    over = {"heavy": np.array(heavy_ns), "hash": np.array(hash_ns)}
    with pytest.raises(TestbedError, match=f"^run invalid: {problem} reduce the load.*$"):
        experiment.compare_with_hash_map("heavy", over)


@pytest.mark.parametrize(("heavy_ns", "median"), [([10, 30, 90], 0.3), ([70, 80, 90], 0.8)])
def test_the_median_of_rounds_decides(heavy_ns: list[float], median: float) -> None:
    over = {"heavy": np.array(heavy_ns), "hash": np.array([100, 100, 100])}
    assert experiment.compare_with_hash_map("heavy", over) == median


@needs_root
def test_the_top_is_found_and_promises_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, made = zipf(20_000, 1000, np.random.default_rng(1)), Run("test", tmp_path, seed=1)
    heavy = experiment.kept_heavy(64, 0, stream, made)
    assert (heavy.recall, heavy.wrong) == (1, 0)
    assert heavy.error < 0.01
    small = experiment.kept_heavy(1, 0, stream, made)
    assert small.recall < 0.9
    monkeypatch.setattr(experiment, "BASIC_WINDOWS", (4, 2))
    kept = experiment.frequent(stream, made)
    assert len(kept) == 2 * len(experiment.LISTED)
    assert not any(each.wrong for each in kept)
    monkeypatch.setattr(frequent.Frequent, "reported", lambda self: {})
    assert any(each.wrong for each in experiment.frequent(stream, made))


def test_a_capture_is_read_by_flows(tmp_path: Path) -> None:
    path = tmp_path / "some.pcap"
    one = Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=5, dport=6) / bytes(100)
    other = Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=5, dport=6, flags="S")
    later = Ether() / IP(src="10.0.0.1", dst="10.0.0.2", frag=3) / UDP(sport=5, dport=6)
    wrpcap(str(path), [one, other, later, one, Ether() / b"other"])
    stream = read_stream(path, 10)
    assert sorted(stream.counts) == [1, 2]
    assert sorted(stream.lengths) == [60, 142, 142]
    assert {(int(each["protocol"]), int(each["source_port"])) for each in stream.flows} == {
        (6, 5), (17, 5)
    }  # fmt: skip
    assert len(read_stream(path, 1).numbers) == 1


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "No such file"),
        (b"no capture", "pcap"),
        (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1), "no TCP or UDP over IPv4"),
    ],
)
def test_files_that_are_not_captures_are_refused(
    content: bytes | None, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "some.pcap"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TestbedError, match=text):
        read_stream(path, 10)
