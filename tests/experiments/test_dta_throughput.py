"""What reports cost the collector, in virtual time: N, 1/B and 1/5 operations, or it is found."""

import argparse
from pathlib import Path

import pytest
from scripts import module
from virtual_networks import virtually

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
