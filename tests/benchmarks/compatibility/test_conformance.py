"""The benchmark conformance.py, run on three programs in the folders that p4c uses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from minip4.compiler import compile_p4
from minip4.compiler.p4info.text import p4info_text

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "compatibility" / "conformance.py"
PROGRAM = """#include <v1model.p4>
header h_t { bit<8> a; }
struct headers { h_t h; } struct metadata { }
parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); transition accept; } }
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    register<bit<8>>(4) r; apply { hdr.h.a = hdr.h.a + 1; } }
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t std) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    testdata = tmp_path / "p4c" / "testdata"
    for folder in ("p4_16_samples", "p4_16_samples_outputs", "p4_16_errors"):
        (testdata / folder).mkdir(parents=True)
    good = testdata / "p4_16_samples" / "good-bmv2.p4"
    good.write_text(PROGRAM)
    good.with_suffix(".stf").write_text("packet 1 01\nexpect 0 02$\n")
    golden = testdata / "p4_16_samples_outputs" / "good-bmv2.p4.p4info.txtpb"
    golden.write_text(p4info_text(compile_p4(good).p4info))
    (golden.parent / good.name).write_text("as p4c sees it")
    wrong = testdata / "p4_16_errors" / "wrong.p4"
    wrong.write_text(PROGRAM.replace("hdr.h.a + 1", "hdr.h.b"))
    return testdata.parent


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def answers(out: Path) -> dict[str, tuple[int, int]]:
    programs = json.loads((out / "summary.json").read_text())["metrics"]["programs"]
    return {text: (count["good"], count["of"]) for text, count in programs.items()}


def test_all_is_well(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(corpus, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    assert answers(out) == {
        "STF scripts of v1model programs pass": (1, 1),
        "P4Info equals p4c's": (1, 1),
        "for programs *-bmv2.p4": (1, 1),
        "compared as text": (1, 1),
        "programs that p4c rejects are rejected": (1, 1),
        "v1model programs that p4c compiles are compiled": (1, 1),
        "all programs end in a switch or in an error with a source location": (2, 2),
    }


def test_differences_are_found_and_listed(corpus: Path, tmp_path: Path) -> None:
    testdata, out = corpus / "testdata", tmp_path / "out"
    (testdata / "p4_16_samples" / "good-bmv2.stf").write_text("packet 1 01\nexpect 0 03\n")
    golden = testdata / "p4_16_samples_outputs" / "good-bmv2.p4.p4info.txtpb"
    golden.write_text(golden.read_text().replace('"I.r"', '"I.s"'))
    (testdata / "p4_16_errors" / "wrong.p4").write_text(PROGRAM)
    done = run(corpus, "--out", out)
    assert done.returncode == 1, done.stdout + done.stderr
    found = answers(out)
    assert found["STF scripts of v1model programs pass"] == (0, 1)
    assert found["P4Info equals p4c's"] == (0, 1)
    assert found["programs that p4c rejects are rejected"] == (0, 1)
    assert "expected 03, got 02" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pass the folder of a p4c checkout"),
        (["/nowhere"], "/nowhere: no testdata/*/*.p4; pass"),
        (["{corpus}", "--only", "nothing"], "--only nothing: no program path contains it"),
        (["{corpus}", "--behavioral-model", "/nowhere"], "/nowhere: no BMv2 JSON"),
    ],
)
def test_wrong_folders_are_reported_in_one_line(
    corpus: Path, arguments: list[str], message: str
) -> None:
    done = run(*(a.format(corpus=corpus) for a in arguments))
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
