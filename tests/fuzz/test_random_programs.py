"""A short run of random_programs.py, which compares engine and interpreter on random programs."""

import pytest
import random_programs

from minip4.engine.codegen import statements
from minip4.native import build

SEEDS = range(2000, 2010)


@pytest.fixture(autouse=True)
def quickly_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "OPTIMISED", random_programs.QUICKLY_BUILT)


@pytest.mark.parametrize("seed", SEEDS)
def test_engine_and_interpreter_agree(seed: int) -> None:
    assert random_programs.check(seed) > 0


def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = {**statements.PRIMITIVES, "push": statements.PRIMITIVES["pop"]}
    monkeypatch.setattr(statements.Statements, "primitives", swapped)
    with pytest.raises(random_programs.Disagreement, match="frame"):
        list(map(random_programs.check, SEEDS))


def test_a_finding_is_made_small() -> None:
    lines = [f"line {i}" for i in range(100)]
    kept = random_programs.smaller(lines, lambda some: {"line 7", "line 93"} <= set(some))
    assert kept == ["line 7", "line 93"]
