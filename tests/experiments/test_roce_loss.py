"""The number of records lost per lost packet, in virtual time; a faulty switch is detected."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scapy.packet import Raw
from scapy.utils import wrpcap
from scripts import failed_checks, faulty_program, module, run, samples

SHORT = ("--time", "virtual", "--quick", "--rate", "10000")


def test_records_that_each_way_loses(tmp_path: Path) -> None:
    done = run("roce_loss", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    lost = {row["recovery"]: int(row["lost"]) for row in samples(tmp_path)}
    assert lost["UC"] == 1
    assert lost["resync"] == 2 + 10  # the records of one RTT
    assert lost["resync, NAK lost"] <= 2 + 2 * 64 + 3 * 11
    assert (
        100_000 + 1000 < lost["hold off 100,000"] < 100_000 + 2002
    )  # the collector responds after a millisecond
    assert lost["no resync"] == 1 << 24
    assert (tmp_path / "roce_loss.png").stat().st_size > 10_000


def test_more_than_a_switch_waits_for_is_refused(tmp_path: Path) -> None:
    done = run("roce_loss", *SHORT[:3], "--rate", "20000000", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "--rate 20000000: more records per RTT" in done.stderr
    assert "use at most 64000" in done.stderr


def test_a_switch_that_goes_on_one_too_far_is_found_out(tmp_path: Path) -> None:
    program = faulty_program(
        tmp_path, "answers.p4", "expected = hdr.bth.psn;", "expected = hdr.bth.psn + 1;",
        "roce/roce.p4",
    )  # fmt: skip
    done = run("roce_loss", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    # A probe resumes the session, and the counter of the switch is right, but captures show the
    # fault.
    assert failed_checks(tmp_path / "out") == {"resync, 10,000 packets/s: PSN resets"}


@pytest.mark.parametrize(
    ("written", "by_link", "shown"), [(2323, 19, 3), (2343, 1, 1), (2342, 1, 2)]
)
def test_of_records_that_are_lost_in_a_row_the_figure_counts_one(
    written: int, by_link: int, shown: int
) -> None:
    """If a link loses several records in a row, the plot shows one lost record.

    In real time, a link may lose all records of some milliseconds. Theory applies to a single lost
    record.
    """
    experiment = module("roce_loss")
    outcome: Any = SimpleNamespace(counts=SimpleNamespace(accepted=Counter(WRITE_ONLY=written)))
    nothing: Any = None
    sent_records = experiment.SentRecords(2344 - written, late=0, turns=1)
    found = experiment.Found(
        "resync", 1000, 2344, by_link, 2344, 0, 0, outcome, sent_records, nothing
    )
    assert found.records_lost_per_drop == shown
    left, right = experiment.draw([found]).axes
    assert [patch.get_width() for patch in left.patches] == [shown]
    assert right.lines[1].get_xydata().tolist() == [[shown - 1, shown]]


def test_what_is_in_flight_is_what_captures_tell(tmp_path: Path) -> None:
    """Records in flight are counted from captures: they are the records whose PSNs are sent again.

    The test includes PSNs that wrap, and PSNs that are sent three times.
    """
    experiment = module("roce_loss")
    frames = np.zeros((9, 80), np.uint8)
    frames[:, experiment.LENGTH] = 1
    psns = [0xFFFFFE, 0xFFFFFF, 0, 1, 0xFFFFFF, 0, 0, 1, 2]
    for frame, psn in zip(frames, psns, strict=True):
        frame[experiment.PSN : experiment.PSN + 3] = list(psn.to_bytes(3, "big"))
    naks = np.zeros((1, 80), np.uint8)
    naks[0, [experiment.BTH, experiment.AETH]] = experiment.ACK, experiment.NAK_SEQUENCE
    links = {"out": (np.arange(9), frames), "in": (np.array([2]), naks)}
    captures = {mode: tmp_path / mode for mode in links}
    for mode, (times_us, bytes_) in links.items():
        packets = zip(times_us, bytes_, strict=True)
        wrpcap(str(captures[mode]), [_at(time_us, data) for time_us, data in packets], nano=True)
    net: Any = SimpleNamespace(capture=lambda _switch, _other, mode: captures[mode])
    assert experiment.read_sent_records(net) == experiment.SentRecords(3 + 1, late=1, turns=2)


def _at(time_us: int, data: NDArray[np.uint8]) -> Raw:
    """Return a packet of a capture, with this time and this data."""
    packet = Raw(data.tobytes())
    packet.time = time_us / 1e6
    return packet
