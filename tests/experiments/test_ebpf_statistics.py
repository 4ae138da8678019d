"""Statistics, compared with theory: correct results pass; a bias or inexact values are detected."""

import argparse
import os
from pathlib import Path

import numpy as np
import pytest
from scripts import module

from ebpf.statistics import distinct
from ebpf.statistics.minwise import Minima
from telemark.results.goodness_of_fit import agreement_check
from telemark.session.run import Run

experiment = module("ebpf_statistics")
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="BPF needs root")
OPTIONS = argparse.Namespace(packets=4000)
RUNS = 6


def measured(number: int = RUNS) -> list:
    rng, run = np.random.default_rng(2), Run("test", Path(), seed=2)
    return [experiment.once(each, OPTIONS, rng, run) for each in range(number)]


def chance(runs: list) -> dict[str, float]:
    return {name: experiment.make_point(name, runs).chance for name in runs[0].errors}


def test_errors_agree_with_theory_and_exact_results_are_exact() -> None:
    runs = measured()
    assert not any(each.inexact or each.beyond for each in runs)
    assert agreement_check("errors", [*chance(runs).values()]).passed
    share = experiment.make_point("sample, quarter 1", runs)
    assert share.expected_error == pytest.approx(0.0191 * np.sqrt(3488 / 3999), rel=0.01)


@pytest.mark.parametrize("fault", ["rarity", "registers"])
def test_a_bias_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "rarity":
        right = Minima.rarity
        monkeypatch.setattr(Minima, "rarity", lambda self, times: 1.1 * right(self, times))
    else:
        law = distinct.at_most
        monkeypatch.setattr(distinct, "at_most", lambda rank, flows: law(rank, flows + 200))
    assert not agreement_check("errors", [*chance(measured()).values()]).passed


def test_inexact_results_and_large_errors_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment.exact, "variance", lambda values: np.var(values) * 1.001)
    monkeypatch.setattr(experiment, "medians", lambda values, clusters: np.array([10_000]))
    monkeypatch.setattr(experiment, "wasserstein", lambda one, other: -1.0)
    (run,) = measured(1)
    assert run.inexact == 1
    assert run.beyond >= 1
