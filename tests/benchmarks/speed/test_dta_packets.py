"""The benchmark dta_packets.py: a short run, and detection of a faulty translator."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from virtual_networks import virtually

from telemark.results.report import Report
from telemark.session.run import Run

FOLDER = Path(__file__).parents[3] / "benchmarks" / "speed"
COUNT = 1500


@pytest.fixture
def dta_packets(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    import dta_packets  # noqa: PLC0415

    monkeypatch.setattr(dta_packets, "SHARE", 1000)
    return dta_packets


@pytest.mark.parametrize("is_right", [True, False])
def test_each_query_result_is_right_or_empty(
    is_right: bool, tmp_path: Path, dta_packets: ModuleType
) -> None:
    async def main(run: Run) -> Report:
        found: Any = await dta_packets.translate_reports(COUNT, run)
        assert len(np.unique(found.keys, axis=0)) == COUNT
        if not is_right:
            found.data[7] += 1
        report: Report = dta_packets.make_report(found, run)
        return report

    report = virtually(tmp_path, main)
    failed = {check.name for check in report.checks if not check.passed}
    assert failed == (set() if is_right else FAILS)
    written, absent = report.samples
    assert (written["right"] > 0.6 * COUNT, absent["right"], absent["wrong"]) == (True, 0, 0)


FAILS = {
    "bytes of memory that differ from the model",
    "right and wrong answers: p-value of 4 points under theory",
}
