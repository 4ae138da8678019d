"""experiments/gallery_lightguardian.py equals its model, and detects faults of the program."""

import json
from pathlib import Path

import pytest
import scripts
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from experiments.shared.gallery.traces import OTHER_TRACE

WRONG = "packets whose sketchlet differs from the model"


@pytest.mark.parametrize("seed", [11, 12])
def test_the_sketchlets_equal_the_model(seed: int, tmp_path: Path) -> None:
    done = scripts.run("gallery_lightguardian", "--time", "virtual", "--quick",
                       "--seed", str(seed), "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("if (sum <= least) {", "if (sum < least) {"),
        ("windows.write(drawn, window);", ""),
        ("largest < value", "largest > value"),
        ("sums_1.apply(meta, meta.column_1, least", "sums_1.apply(meta, meta.column_0, least"),
    ],
)
def test_a_fault_of_the_program_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    program = scripts.faulty_program(
        tmp_path, "lightguardian.p4", right, wrong, "gallery/lightguardian.p4"
    )
    out = tmp_path / "out"
    done = scripts.run("gallery_lightguardian", "--time", "virtual", "--quick",
                       "--program", program, "--out", str(out))  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert WRONG in scripts.failed_checks(out)


def test_a_short_capture_of_the_user_does_not_fail(tmp_path: Path) -> None:
    capture, out = tmp_path / "short.pcap", tmp_path / "out"
    frame = Ether() / IP(dst="10.0.0.1") / UDP(dport=53)
    wrpcap(str(capture), [frame] * 50)
    done = scripts.run("gallery_lightguardian", "--time", "virtual", "--quick", "--pcap",
                       str(capture), "--out", str(out))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = {
        each["verdict"] for each in json.loads((out / "summary.json").read_text())["reproductions"]
    }
    assert verdicts == {f"not reproduced: {OTHER_TRACE}"}
