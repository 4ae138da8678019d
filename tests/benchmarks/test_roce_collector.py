"""benchmarks/roce_collector.py sends records that the responder takes as they are meant."""

import struct
from pathlib import Path

import pytest
from arriving import frames

from collectors.roce.application import FIRST_RKEY
from collectors.roce.region import TCP, Region
from collectors.roce.softnic import SoftNic


def test_its_frames_fill_the_region(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import roce_collector as made  # noqa: PLC0415

    content = made.frames(made.ROCE, tmp_path / "frames").read_bytes()
    (length,) = struct.unpack("<I", content[:4])
    size = 4 + length
    sent = [content[at + 4 : at + size] for at in range(0, len(content), size)]
    nic = SoftNic(made.COLLECTOR, mac=made.MAC)
    region = Region(TCP, made.COUNT)
    domain = nic.register(region, rkey=FIRST_RKEY)
    target = nic.connect(domain, made.WRITER, transport=made.TRANSPORT)
    assert target.qpn == made.QPN
    assert nic.receive(frames(sent)) == []
    assert not nic.counts().refused
    assert region.records.tobytes() == made.records().tobytes()


def test_its_claims_are_of_medians_and_of_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import roce_collector as made  # noqa: PLC0415

    def rows(kind: str, collector_ns: float, sender_ns: float) -> list[object]:
        return [
            made.Taken(kind, pace, 100, 100, 0, noise * collector_ns, noise * sender_ns)
            for pace in (made.PACE, made.AS_FAST, made.PYTHON_PACE) for noise in (1, 0.9, 7)
        ]  # fmt: skip

    report = made.report([
        *rows(made.NOBODY, 0, 600), *rows(made.ROCE, 300, 700), *rows(made.UDP_C, 700, 1000),
        *rows(made.PACKET_C, 350, 700), *rows(made.UDP_PYTHON, 2000, 1000),
    ], 80)  # fmt: skip
    ratio, rate, books = report.checks
    assert ratio.measured == pytest.approx(400 / 1100)
    assert rate.measured == pytest.approx(1e3 / 300)
    assert ratio.passed
    assert rate.passed
    assert books.passed
