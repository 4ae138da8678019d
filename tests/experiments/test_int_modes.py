"""INT modes and AM-PM, in virtual time.

Bytes and losses equal ground truth, and faults are detected.
"""

from pathlib import Path

import pytest
from scripts import LOST, REPORTED, failed_checks, faulty_program, run, samples

SHORT = ("--time", "virtual", "--blocks", "2", "--loss", "5")
MODES, GROUPED = ("MD", "MX", "XD"), "XD, grouped"


def test_each_mode_costs_and_sees_what_it_must(tmp_path: Path) -> None:
    done = run("int_modes", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["mode"]: row for row in samples(tmp_path)}
    added = {mode: float(row["added_bytes_per_packet_per_link"]) for mode, row in rows.items()}
    assert added["MD"] > 70
    assert 12 < added["MX"] < 16
    assert added["XD"] == added[GROUPED] == added["AM-PM"] == 0
    assert all(int(row["lost"]) > 5 for row in rows.values())
    seen = {mode for mode, row in rows.items() if row["losses_detected"] == row["lost"]}
    assert seen == {"MX", "XD", GROUPED, "AM-PM"}
    alone, grouped = (int(rows[mode]["report_packets"]) for mode in ("XD", GROUPED))
    assert alone / 8 <= grouped < alone / 8 + 5  # plus an incomplete group of each switch
    reported = {rows[mode]["latencies_known"] for mode in ("XD", GROUPED)}
    assert reported == {str(alone)}
    assert int(rows["AM-PM"]["latencies_known"]) < 0.02 * int(rows["MD"]["latencies_known"])
    assert (tmp_path / "int_modes.png").stat().st_size > 10_000


PUSH = "transit.apply(hdr, meta.hop, mtu, event);"


@pytest.mark.parametrize(
    ("right", "wrong", "failed"),
    [
        (
            REPORTED, REPORTED + LOST,
            {f"{mode}: {what}" for mode in MODES for what in (
                "bytes of reports", "hop latencies measured", "missing report sequence numbers",
                "max error of the latency sum per switch (us)",
            )},
        ),
        (
            PUSH, f"if (meta.hop.node_id != 2) {{ {PUSH} }}",
            {f"MD: {what}" for what in (
                "bytes added to packets on all links", "bytes of reports", "hop latencies measured"
            )},
        ),
    ],
    ids=["lost reports", "a switch that does not push"],
)  # fmt: skip
def test_a_switch_that_does_not_do_its_part_is_found_out(
    right: str, wrong: str, failed: set[str], tmp_path: Path
) -> None:
    program = faulty_program(tmp_path, "pipeline.p4", right, wrong, "int/int.p4")
    done = run("int_modes", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed_checks(tmp_path / "out") == failed
