"""Wrong clocks: theory, compared with a search over all times in a block; and the experiment."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scripts import run

from controllers.ampm.schedule import Schedule
from experiments.shared.ampm import sync

L = 2**20
BLOCK = 8
Times = NDArray[np.int64]


def bit_alone(time_us: Times, _colour: int) -> Times:
    return time_us >> 20


def time_slots(time_us: Times, colour: int) -> Times:
    """Return the block to which the rule of multiplexed.p4 assigns a packet.

    In the middle half of a block, packets of any colour belong to this block.
    """
    quarter = time_us % L // (L // 4)
    nearest = two_bits(time_us, colour)
    return np.where((quarter == 1) | (quarter == 2), time_us >> 20, nearest)


def two_bits(time_us: Times, colour: int) -> Times:
    return Schedule(L).attribute(time_us, np.full(time_us.shape, colour))


@pytest.mark.parametrize("error", [-2.5, -1.3, -0.6, -0.3, 0.1, 0.3, 0.5, 0.6, 0.9, 1.3, 2, 2.5])
@pytest.mark.parametrize(
    ("decoder", "block_of"),
    [(sync.NAIVE, bit_alone), (sync.MULTIPLEXED, time_slots), (sync.DOUBLE, two_bits)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_law_says_how_much_of_a_block_is_counted_elsewhere(
    decoder: sync.Decoder, block_of: Callable[[Times, int], Times], error: float
) -> None:
    setting = sync.Setting(error, L, seed=1)
    sent_us = BLOCK * L + np.arange(0, L, 64)
    seen_us = sent_us + setting.ahead_us + decoder.links * sync.LINK_DELAY_US
    elsewhere = np.mean(block_of(seen_us, BLOCK & 1) != BLOCK)
    assert setting.misplaced(decoder) == pytest.approx(elsewhere, abs=2 * 64 / L)


@pytest.mark.parametrize(("blocks", "within"), [(6, 0.1), (60, 0.02)])
def test_so_few_blocks_are_off_the_law_by_chance(blocks: int, within: float) -> None:
    """The rms error over a few blocks scatters as much as relative_scatter() says.

    The count of a block lacks the packets that arrived too late for it. It includes late packets of
    the block before.
    """
    late = np.random.default_rng(1).normal(0, np.sqrt(1 / 2), (20_000, blocks + 1))
    rms = np.sqrt(np.mean(np.diff(late) ** 2, axis=1))
    assert rms.std() == pytest.approx(sync.relative_scatter(blocks), rel=within)


def test_exact_as_far_as_theory_says_and_no_further(tmp_path: Path) -> None:
    few = ("--errors", "0.2", "0.49", "2", "--blocks", "2", "--rate", "800", "--quick")
    done = run("ampm_sync", *few, "--time", "virtual", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    wrong = {
        (row["decoder"], abs(float(row["clock_error_L"])))
        for row in rows
        if row["measured_loss"] != row["true_loss"] and row["block_us"] == "262144"
    }
    naive, slots, double = (decoder.name for decoder in sync.DECODERS)
    assert wrong == {
        *((naive, error) for error in (0.2, 0.49, 2)),
        *((slots, error) for error in (0.49, 2)),
        (double, 2),
    }
    assert (tmp_path / "ampm_sync.png").stat().st_size > 10_000


@pytest.mark.parametrize("error", ["-1", "3"])
def test_a_clock_error_without_a_law_is_refused(error: str, tmp_path: Path) -> None:
    done = run("ampm_sync", "--time", "virtual", "--errors", error, "--out", str(tmp_path))
    assert done.returncode == 2
    assert f"{error}" in done.stderr
    assert "Traceback" not in done.stderr
