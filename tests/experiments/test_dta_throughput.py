"""What reports cost the collector, in virtual time: N, 1/B and 1/5 operations, or it is found."""

import argparse
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripts import module
from virtual_networks import virtually

from collectors.roce.endpoint import Counts
from collectors.roce.shared import Reason
from testbed.results.report import Report
from testbed.run import Run


@pytest.mark.parametrize(
    ("wanted", "missing", "failed"),
    [
        ({"Key-Write 2", "Key-Increment 4", "Append 16", "Postcarding 5"}, 0, set()),
        ({"Key-Write 2", "Append 4", "Append 16"}, 1,
         {"Key-Write 2: requests carried out", "Key-Write 2: memory operations of a report",
          "Append 4: requests carried out", "Append 4: memory operations of a report",
          "Append 16: requests carried out", "Append 16: memory operations of a report"}),
    ],
    ids=["all", "a report missing"],
)  # fmt: skip
def test_operations_of_a_report(
    wanted: set[str], missing: int, failed: set[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    experiment = module("dta_throughput")
    chosen = [case for case in experiment.cases() if case.name in wanted]
    monkeypatch.setattr(experiment, "cases", lambda: chosen)
    whole = experiment.Case.frames
    monkeypatch.setattr(experiment.Case, "frames", lambda *given: whole(*given)[missing:])
    options = argparse.Namespace(
        reports=100, quick=True, rate=5000, program=experiment.PROGRAM, time="virtual"
    )

    async def main(run: Run) -> Report:
        run.target = "minip4"
        report: Report = await experiment.experiment(options, run)
        return report

    report = virtually(tmp_path, main)
    assert options.reports == experiment.SHARE
    assert {check.name for check in report.checks if not check.passed} == failed
    assert {f"{each['primitive']} {each['size']}" for each in report.samples} == wanted


@pytest.mark.parametrize(("reason", "is_fine"), [(Reason.DUPLICATE, True), (Reason.GAP, False)])
def test_of_what_is_refused_probes_are_no_fault(
    reason: Reason, is_fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    translating = module("dta.translating")
    books = SimpleNamespace(checks=lambda _: [])
    monkeypatch.setattr(translating, "Books", SimpleNamespace(of=lambda *_: books))
    counts = Counts(Counter(WRITE_ONLY=7), Counter({reason.name: 2}))
    net = SimpleNamespace(applications=[SimpleNamespace(result=SimpleNamespace(counts=counts))])
    assert all(check.passed for check in translating.checks("some", net, 7)) == is_fine
