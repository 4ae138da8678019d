"""Reordering: the theory of pulses, compared with all cases; and the experiment as a command."""

import csv
import itertools
import math
from pathlib import Path

import pytest
from scripts import module, run

reordering = module("ampm_reordering")
FATES = ("lost", "held", "straight")


def counted_out(held: float, packets: int, loss: float) -> tuple[float, float]:
    """Return mean and mean square of the number of packets that are reordered with the pulse.

    Mean and mean square are over all cases of lost and held packets, weighted by probability.
    """
    chances = {"lost": loss, "held": (1 - loss) * held, "straight": (1 - loss) * (1 - held)}
    mean = mean_square = 0.0
    for pulse, share in (("held", held), ("straight", 1 - held)):
        for fates in itertools.product(FATES, repeat=2 * packets):
            before, after = fates[:packets], fates[packets:]
            changed = before.count("held") if pulse == "straight" else after.count("straight")
            chance = share * math.prod(chances[fate] for fate in fates)
            mean += chance * changed
            mean_square += chance * changed**2
    return mean, mean_square


@pytest.mark.parametrize("packets", [0, 1, 3])
@pytest.mark.parametrize("held", [0, 0.1, 0.6, 1])
def test_the_law_of_pulses_is_what_all_cases_make(held: float, packets: int) -> None:
    setting = reordering.Setting(held, packets, rate=1000, block_us=2**18)
    assert setting.overtaken == pytest.approx(counted_out(held, packets, reordering.LOSS))


def test_every_law_holds_and_step_is_exact(tmp_path: Path) -> None:
    few = ("--quick", "--time", "virtual", "--blocks", "8", "--seeds", "1")
    done = run("ampm_reordering", *few, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == (len(reordering.SOME) + 1) * 8
    late = [row for row in rows if float(row["held_us"]) > 2**17]
    assert any(row["step_loss"] != row["true_loss"] for row in late)
    assert any(float(row["pulse_error"]) > 0 for row in rows if row not in late)
    assert (tmp_path / "ampm_reordering.png").stat().st_size > 10_000


@pytest.mark.parametrize(("step_loss", "overtaken", "failed"), [
    (7, 5.0, []),
    (8, 5.0, ["step: wrong blocks"]),
    (7, 0.0, ["packets reordered with a pulse (mean)"]),
])  # fmt: skip
def test_an_error_is_found_out(step_loss: int, overtaken: float, failed: list[str]) -> None:
    setting = reordering.Setting(0.1, 30, rate=4000, block_us=2**18)
    blocks = [
        reordering.BlockResult(setting, 0, b, step_loss, 7, overtaken, 0.0) for b in range(500)
    ]
    checks = reordering.make_checks(setting, blocks, noise_us=0)
    assert [c.name.partition("packets")[2].lstrip(",: ") for c in checks if not c.passed] == failed


def test_packets_held_back_beyond_the_network_s_end_are_refused(tmp_path: Path) -> None:
    done = run("ampm_reordering", "--time", "virtual", "--rate", "100", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "--rate 100: a packet is delayed until 900 others are sent" in done.stderr
