"""Loss measured by drop reports and by AM-PM, in virtual time.

Both measurements are exact, and faults of both are detected.
"""

from pathlib import Path

import pytest
from scripts import REPORTED, failed_checks, run, samples, with_faults

SHORT = ("--time", "virtual", "--blocks", "2", "--loss", "5")
AT = "loss 5 %, "
DROPPED = f"{AT}drop reports: max error per cause (packets)"
GAPS = f"{AT}drop reports: max error of gaps per cause (reports)"
NAMED = f"{AT}drop reports: wrong port, reason or flow (reports)"


def test_ampm_finds_all_losses_and_int_drops_of_switches(tmp_path: Path) -> None:
    done = run("int_loss", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    assert all(row["ampm"] == row["true"] for row in rows)
    found = {
        cause: [sum(int(row[what]) for row in rows if row["cause"] == cause)
                for what in ("true", "drop_reports")]
        for cause in {row["cause"] for row in rows}
    }  # fmt: skip
    assert found.pop("lossy link")[1] == 0
    assert found.keys() == {"access list", "no route", "time to live", "full queue"}
    assert all(0.8 * true < reports <= true for true, reports in found.values()), found
    assert sum(true - reports for true, reports in found.values()) > 0  # the link lost some reports
    assert (tmp_path / "int_loss.png").stat().st_size > 10_000


COUNTED = "arrivals.count(meta.ampm.cell);"


FAULTS = {
    "reports that vanish": (
        "pipeline.p4", REPORTED,
        REPORTED + "if (meta.report.sequence == 10) { mark_to_drop(standard_metadata); }",
        {DROPPED, GAPS},
    ),
    "another reason": (
        "ingress.p4", "drop_reason = NO_ROUTE;", "drop_reason = NO_SUCH_MAC;", {NAMED},
    ),
    "another reason of queues": (
        "pipeline.p4", "drop_reason = QUEUE_FULL;", "drop_reason = NO_ROUTE;", {NAMED},
    ),
    "another port": (
        "pipeline.p4", "meta.hop.ingress_port = standard_metadata.ingress_port;",
        "meta.hop.ingress_port = 0;", {NAMED},
    ),
    "drops before the count": (
        "with_ampm.p4", COUNTED, f"if (standard_metadata.egress_spec != DROPPED) {{ {COUNTED} }}",
        {f"{AT}AM-PM: max loss error per block (packets)"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "names", [("another reason", "reports that vanish"), ("another reason of queues",),
              ("another port", "drops before the count")],
)  # fmt: skip
def test_inexact_results_fail(names: tuple[str, ...], tmp_path: Path) -> None:
    faults = [FAULTS[name] for name in names]
    program = with_faults(tmp_path, (fault[:3] for fault in faults), "int/with_ampm.p4")
    done = run("int_loss", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed_checks(tmp_path / "out") == set().union(*(fault[3] for fault in faults))


def test_more_loss_than_there_is_to_lose_is_refused(tmp_path: Path) -> None:
    done = run("int_loss", *SHORT[:-1], "34", "--out", str(tmp_path))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "--loss 34: 4 switches each drop this percentage" in done.stderr.splitlines()[-1]
    assert "less than 25" in done.stderr.splitlines()[-1]
