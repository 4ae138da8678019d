"""The benchmark roce_region.py: a short run, and each fault that it must detect."""

import json
from pathlib import Path
from types import ModuleType

import loaded
import numpy as np
import pytest
from numpy.typing import NDArray

from telemark.errors import TestbedError

FOLDER = Path(__file__).parents[3] / "benchmarks" / "speed"
COUNT, FIRST, LOST = 5000, 2000, 7  # COUNT records from FIRST on; record FIRST + LOST was dropped


@pytest.fixture
def roce_region(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    import roce_region  # noqa: PLC0415

    return roce_region


@pytest.fixture
def slots(roce_region: ModuleType) -> NDArray[np.uint8]:
    """Return the correct slots of COUNT records, starting with record FIRST: shape (COUNT, 44)."""
    found = bytearray()
    for number in range(FIRST, FIRST + COUNT):
        is_there = number % roce_region.SPOILED_EVERY and number != FIRST + LOST
        words = [(number + 1) * factor * bool(is_there) for factor in range(1, 22, 2)]
        found += b"".join(word.to_bytes(4, "big") for word in words)
    return np.frombuffer(found, np.uint8).reshape(COUNT, -1)


def test_a_short_run_is_off_by_nothing(tmp_path: Path) -> None:
    done = loaded.run(FOLDER / "roce_region.py", "--quick", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    checks = json.loads((tmp_path / "summary.json").read_text())["checks"]
    assert len(checks) == 4
    assert all(check["tolerance"] == 0 for check in checks)
    names, values = (tmp_path / "samples.csv").read_text().splitlines()
    found = dict(zip(names.split(","), map(float, values.split(",")), strict=True))
    assert (found["sent"], found["spoiled"]) == (100_000, 100)
    assert found["right"] + found["refused"] + found["dropped"] == 100_000
    assert found["refused"] > 0


def outcome(module: ModuleType, slots: NDArray[np.uint8], **counts: int) -> list[bool]:
    """Return for each check whether it passes for a region with these slots."""
    held = module.SlotCounts.of_slots(slots.reshape(-1).view(module.TCP), FIRST)
    told = {"accepted": COUNT - 6, "refused": 5, "refused_else": 0, "dropped": 1} | counts
    found = module.Outcome(sent=COUNT, spoiled=5, records_per_s=1e6, **told, **held._asdict())
    return [check.passed for check in module.report(found).checks]


def test_dropped_and_refused_records_are_not_in_memory(
    roce_region: ModuleType, slots: NDArray[np.uint8]
) -> None:
    assert outcome(roce_region, slots) == [True] * 4


@pytest.mark.parametrize("byte", [0, 20, 43])
def test_a_bit_of_a_record_is_seen(
    roce_region: ModuleType, slots: NDArray[np.uint8], byte: int
) -> None:
    slots[4711, byte] ^= 0x80
    assert outcome(roce_region, slots) == [False, False, False, True]


def test_a_byte_in_the_slot_of_a_lost_record_is_seen(
    roce_region: ModuleType, slots: NDArray[np.uint8]
) -> None:
    slots[LOST, 43] = 1
    assert outcome(roce_region, slots) == [True, True, False, True]


def test_a_record_in_the_slot_of_another_is_seen(
    roce_region: ModuleType, slots: NDArray[np.uint8]
) -> None:
    slots[12] = slots[11]
    assert not any(outcome(roce_region, slots)[:3])


def test_a_spoiled_record_that_was_taken_is_seen(
    roce_region: ModuleType, slots: NDArray[np.uint8]
) -> None:
    # content of the spoiled record without its bit error
    slots[1000].view(">u4")[:] = 3001 * np.arange(1, 22, 2)
    assert outcome(roce_region, slots) == [True, True, False, True]


@pytest.mark.parametrize(
    ("counts", "failed"),
    [({"dropped": 0}, 0), ({"dropped": 2}, 0), ({"refused": 4}, 0), ({"accepted": 4995}, 1)],
)
def test_a_record_that_was_counted_wrongly_is_seen(
    roce_region: ModuleType, slots: NDArray[np.uint8], counts: dict[str, int], failed: int
) -> None:
    expected = [number != failed for number in range(4)]
    assert outcome(roce_region, slots, **counts) == expected


@pytest.mark.parametrize(
    "counts", [{"refused": 6, "dropped": 0}, {"refused": 4, "refused_else": 1}]
)
def test_a_good_frame_that_was_refused_is_seen(
    roce_region: ModuleType, slots: NDArray[np.uint8], counts: dict[str, int]
) -> None:
    assert outcome(roce_region, slots, **counts) == [True, True, True, False]


def test_invalid_runs_have_no_result(roce_region: ModuleType, slots: NDArray[np.uint8]) -> None:
    with pytest.raises(TestbedError, match="run invalid: the kernel dropped 91% of the records"):
        outcome(roce_region, slots, dropped=COUNT * 91 // 100)
