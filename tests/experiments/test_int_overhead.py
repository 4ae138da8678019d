"""Goodput with INT equals theory, and the checks detect deviations."""

import json
from pathlib import Path

import pytest
from scripts import failed_checks, faulty_program, run, samples

SHORT = ("--time", "virtual", "--quick", "--hops", "1", "3", "--seconds", "0.01",
         "--tcp-seconds", "0.2")  # fmt: skip


def test_goodput_agrees_with_the_frame_lengths(tmp_path: Path) -> None:
    done = run("int_overhead", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {(row["hops"], row["metadata_bytes"], row["frame_bytes"]): float(row["goodput_bps"])
            for row in samples(tmp_path) if row["protocol"] == "UDP"}  # fmt: skip
    assert len(rows) == 2 * 3 * 2
    assert rows["3", "48", "128"] == pytest.approx(1e7 * 86 / (128 + 16 + 3 * 48), rel=1e-12)
    assert rows["1", "16", "1514"] == pytest.approx(1e7 * 1472 / (1514 + 16 + 16), rel=1e-12)
    assert rows["3", "0", "128"] == pytest.approx(1e7 * 86 / 128, rel=1e-12)
    tcp = {(row["hops"], row["metadata_bytes"]): float(row["goodput_bps"])
           for row in samples(tmp_path) if row["protocol"] == "TCP"}  # fmt: skip
    assert tcp["3", "32"] == pytest.approx(1e7 * 1448 / (1514 + 16 + 3 * 32), rel=1e-9)
    assert [*tcp] == [("1", "0"), ("1", "32"), ("3", "0"), ("3", "32")]
    ratios = json.loads((tmp_path / "summary.json").read_text())["metrics"]["cpu_ratio"]
    assert [*ratios] == ["0", "16", "48"]
    assert all(0 < ratio < 20 for ratio in ratios.values())
    assert (tmp_path / "int_overhead.png").stat().st_size > 10_000


PUSH = "transit.apply(hdr, meta.hop, mtu, event);"


def test_a_switch_that_does_not_push_is_found_out(tmp_path: Path) -> None:
    program = faulty_program(
        tmp_path, "pipeline.p4", PUSH, f"if (meta.hop.node_id != 3) {{ {PUSH} }}", "int/int.p4"
    )
    done = run("int_overhead", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed_checks(tmp_path / "out") == {
        "frames with wrong length",
        "max error of departure times to the narrow link (ns)",
        "packets received before the end of their transmission",
        "max error of the transfer time at a host (ns)",
        "flows with correctly reported path",
        "TCP, 3 hops, 32 bytes: goodput (% of theory)",
    }


def test_too_many_hops_are_refused(tmp_path: Path) -> None:
    done = run("int_overhead", *SHORT, "--hops", "16", "--out", str(tmp_path / "out"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "--hops 16: expected 1 to 15" in done.stderr.splitlines()[-1]
