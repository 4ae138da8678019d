"""The published RDMA prototype: model of its memory, segments, and both programs in a network.

The published program is not part of the repository. Tests that need it run if the environment
variable RDMA_PROTOTYPE names a folder with it.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scripts import module, run, samples
from virtual_networks import virtually

from collectors.roce.endpoint import gid
from experiments.shared.roce import prototype
from experiments.shared.roce.prototype import (
    FILE,
    OURS,
    PAYLOADS,
    PROTOTYPE,
    SIDES,
    SOURCE,
    Case,
    Finding,
    make_segments,
    measure,
    prototype_memory,
    ring,
)
from telemark.results.report import Check
from telemark.session.run import Run

FOLDER = os.environ.get("RDMA_PROTOTYPE", "")
CASES = {"IPv6": Case("IPv6", 6, 6), "IPv4": Case("IPv4", 6, 6, 4),
         "TOS": Case("IPv4, TOS 6", 6, 6, 4, 6), "small": Case("small region", 6, 4)}  # fmt: skip

needs_program = pytest.mark.skipif(
    not FOLDER, reason=f"RDMA_PROTOTYPE is not set: needs a folder with {SOURCE}"
)


def segments_of(case: Case) -> list[bytes]:
    return make_segments(case, np.random.default_rng(1))


def measured(
    folder: Path, case: Case, side: str, programs: str = ""
) -> tuple[Finding, list[Check]]:
    async def main(run: Run) -> tuple[Finding, list[Check]]:
        finding, checks = await measure(case, side, programs, run)
        return finding, list(checks)

    result: tuple[Finding, list[Check]] = virtually(folder, main)
    return result


@pytest.mark.parametrize("given", [(), ("--prototype", ".")])
def test_a_missing_folder_or_file_is_reported_with_its_source(given: tuple[str, ...]) -> None:
    done = run("roce_prototype", *given)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("roce_prototype: error: argument --prototype: ")
    assert "https://github.com/rutgerbeltman/telemetry-rdma-p4-switch" in line


@pytest.mark.parametrize("name", ["IPv6", "TOS"])
def test_segments_are_valid(name: str) -> None:
    case = CASES[name]
    for number, frame in enumerate(segments_of(case)):
        packet = Ether(frame)
        layer = packet[IP if case.version == 4 else IPv6]
        assert len(layer[TCP].payload) == PAYLOADS[number % len(PAYLOADS)]
        assert prototype.make_record(frame) == (
            gid(layer.src) + gid(layer.dst) + bytes(layer[TCP])[:12]
        )
        if case.version == 4:
            assert layer.tos == case.tos
            right = layer.copy()
            del right.chksum, right.len
            assert bytes(right)[:20] == bytes(layer)[:20]
        else:
            assert layer.plen == len(layer.payload)


def test_a_ring_keeps_the_newest_records() -> None:
    segments = segments_of(CASES["small"])
    records = [prototype.make_record(segment) for segment in segments]
    assert ring(segments, 4) == b"".join([records[4], records[5], records[2], records[3]])


@pytest.mark.parametrize(
    ("name", "executed", "zeros"),
    [("IPv6", 6, 0), ("IPv4", 0, 44), ("TOS", 6, 32), ("small", 4, 0)],
)
def test_the_model_has_the_faults_of_the_prototype(name: str, executed: int, zeros: int) -> None:
    case = CASES[name]
    segments = segments_of(case)
    memory, count = prototype_memory(segments, case.slots)
    expected = b"".join(bytes(zeros) + prototype.make_record(segment)[zeros:]
                        for segment in segments[: case.slots])  # fmt: skip
    assert (memory, count) == (expected, executed)


def test_the_model_rejects_requests_after_the_last_psn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prototype, "PSNS", 3)
    segments = segments_of(CASES["IPv6"])
    memory, count = prototype_memory(segments, 6)
    assert (memory, count) == (ring(segments[:3], 3) + bytes(3 * 44), 3)


@pytest.mark.parametrize("name", CASES)
def test_the_memory_of_telemark_equals_its_model(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    found, checks = measured(tmp_path, case, OURS)
    assert found == Finding(case.name, OURS, 6, 6, 6, case.slots, case.slots, case.slots, 0, 0, 0)
    assert all(check.passed for check in checks)


GOOD = Finding("IPv6", PROTOTYPE, 6, 6, 6, 6, 6, 6, 0, 0, 0)


@pytest.mark.parametrize("name", ["written", "wrong_bytes", "wrong_segments", "bad_packets"])
def test_each_deviation_fails_one_check(name: str) -> None:
    make_checks = module("roce_prototype").make_checks
    assert all(check.passed for check in make_checks([GOOD]))
    wrong: dict[str, Any] = {name: 1}
    checks = make_checks([replace(GOOD, **wrong)])
    assert sum(not check.passed for check in checks) == 1


def test_the_figure_has_both_sides_and_the_law() -> None:
    found = [replace(GOOD, case=case, side=side, segments=segments, complete=3)
             for case, segments in (("IPv6", 6), ("long", 1 << 16), ("long", 1 << 17))
             for side in SIDES]  # fmt: skip
    cases, long = module("roce_prototype").draw(found).axes
    drawn = {line.get_label(): line.get_ydata() for line in cases.get_lines()}
    assert [list(drawn[side]) for side in SIDES] == [[0.5], [0.5]]
    law = next(line for line in long.get_lines() if line.get_linestyle() == "-")
    assert law.get_ydata()[[0, -1]].tolist() == [1, 0.5]


@needs_program
def test_the_published_program_equals_its_model(tmp_path: Path) -> None:
    done = run("roce_prototype", "--time", "virtual", "--quick", "--prototype", FOLDER,
               "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr
    assert {row["side"] for row in samples(tmp_path)} == {*SIDES}


@needs_program
@pytest.mark.parametrize(
    ("text", "other", "name"),
    [
        ("hdr.grh.hop_lim          = 0x40;", "hdr.grh.hop_lim          = 0x41;", ""),
        ("0xFFFF0a010101;", "0xFFFF0a010103;", "written"),
        ("resv8a = 0xFF;", "resv8a = 0xFE;", "written"),
        ("data = data + TELEMETRY_LEN_64;", "data = data + 45;", "wrong_bytes"),
    ],
    ids=["hop limit", "GID", "iCRC", "offset"],
)
def test_another_program_is_found(text: str, other: str, name: str, tmp_path: Path) -> None:
    """Each change of the published program changes a result, except for that of the hop limit.

    The iCRC does not cover the hop limit.
    """
    source = (Path(FOLDER) / FILE).read_text()
    assert source.count(text) == 1
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / FILE).write_text(source.replace(text, other))
    found, _ = measured(tmp_path / "run", CASES["IPv6"], PROTOTYPE, str(programs))
    unlike = {"written": found.written != found.expected_written,
              "wrong_bytes": found.wrong_bytes > 0}  # fmt: skip
    assert unlike.get(name, not any(unlike.values()))
