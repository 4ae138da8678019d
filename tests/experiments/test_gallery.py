"""Experiments of the gallery agree with their models, and detect faults of their programs."""

import json
from pathlib import Path

import pytest
import scripts
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from experiments.shared.gallery.traces import OTHER_TRACE

NAMES = [path.stem.removeprefix("gallery_") for path in scripts.EXPERIMENTS.glob("gallery_*.py")]
# For each experiment: text of its program, wrong text, and the check that then fails
FAULTS = {
    "cocosketch": [
        ("count_2 < count_1", "count_2 <= count_1", "buckets that differ from the model"),
        ("is_in_2 || ", "", "buckets that differ from the model"),
        (
            "number * (bit<64>)(count_1 + 1)",
            "number * (bit<64>)count_1",
            "buckets that differ from the model",
        ),
        ("keys_2.write(index_2, key);", "", "buckets that differ from the model"),
        (
            "random(number, 0, 0xFFFFFFFF);",
            "number = 0;",
            "mean of the random numbers: deviation (standard errors)",
        ),
    ],
    "conquest": [
        ("bit<3> CLEANING = 7", "bit<3> CLEANING = 6", "cells that differ from the model"),
        ("column + 1 == COLUMNS ? 0 : column + 1", "0", "cells that differ from the model"),
        ("first < second ? first : second", "first", "marks that differ from the model"),
        ("window - (arrived_us >> WINDOW_SHIFT)", "0", "marks that differ from the model"),
        (" && delay_us >= MIN_DELAY_US", "", "marks that differ from the model"),
    ],
    "flowradar": [
        ("word | flag", "flag", "cells that differ from the model"),
        ("is_new = true;", "is_new = counted && number == 1;", "cells that differ from the model"),
        ("flows ^ flow", "flow", "cells that differ from the model"),
        ("packets + 1", "packets + (is_new ? 32w1 : 0)", "cells that differ from the model"),
    ],
    "hashpipe": [
        ("stored_count < count", "stored_count <= count", "slots that differ from the model"),
        ("stored_count + count", "stored_count + 1", "slots that differ from the model"),
        ("number == 1 || ", "", "slots that differ from the model"),
        ("count = stored_count;", "count = 0;", "slots that differ from the model"),
    ],
    "intsight": [
        ("hdr.telemetry.delay_us + latency_us", "latency_us", "headers that differ from the model"),
        ("48w1 << hdr.telemetry.path_length", "48w1", "headers that differ from the model"),
        (
            "(is_new ? 0 : meta.packets) + 1",
            "meta.packets + 1",
            "headers that differ from the model",
        ),
        (
            "now.contention | telemetry.contention",
            "telemetry.contention",
            "reports that differ from the model",
        ),
        (
            "previous.egress_bytes < meta.min_bytes\n                &&",
            "",
            "reports that differ from the model",
        ),
    ],
    "lightguardian": [
        (
            "if (sum <= least) {",
            "if (sum < least) {",
            "packets whose sketchlet differs from the model",
        ),
        ("windows.write(drawn, window);", "", "packets whose sketchlet differs from the model"),
        ("largest < value", "largest > value", "packets whose sketchlet differs from the model"),
        (
            "sums_1.apply(meta, meta.column_1, least",
            "sums_1.apply(meta, meta.column_0, least",
            "packets whose sketchlet differs from the model",
        ),
    ],
    "netseer": [
        (
            "meta.evicted_count = count;",
            "meta.evicted_count = 0;",
            "reports that differ from the model",
        ),
        (
            "stored != meta.flow || path != current",
            "stored != meta.flow",
            "reports that differ from the model",
        ),
        (
            "resubmit_preserving_field_list(NOTICE_FIELDS);",
            "",
            "reports that differ from the model",
        ),
        (
            "stored == meta.missing ? meta.flow : 0",
            "meta.flow",
            "reports that differ from the model",
        ),
        ("hdr.ipv4.identification - meta.missing;", "1;", "notices that differ from the gaps"),
    ],
    "pint": [
        ("bits = bits ^ own;", "bits = own;", "digests that differ from the model"),
        ("(bit<64>)layer_value < meta.baseline", "true", "digests that differ from the model"),
        ("SWITCH + meta.number", "SWITCH", "digests that differ from the model"),
        ("upper = code;", "upper = code + 1;", "digests that differ from the model"),
    ],
    "remote_memory": [
        ("(bit<64>)cell << 3;", "0;", "counters: cells of the memory that differ from the model"),
        (
            "hdr.entry.port[8:0];",
            "OUT;",
            "lookup table: packets that are lost, wrong or out of order",
        ),
        (
            "(bit<64>)cell * 72 + 8;",
            "(bit<64>)cell * 72;",
            "lookup table: cells of the memory that differ from the model",
        ),
        (
            " || meta.slot != back;",
            ";",
            "packet buffer: packets that are lost, wrong or out of order",
        ),
        ("psns.write((bit<32>)session, number.psn + 1);", "", "counters: rejected requests"),
    ],
    "sonata": [
        ("stored_key == key", "stored_window == window", "keys whose count differs from the trace"),
        ("stored_count + 1", "stored_count", "keys whose count differs from the trace"),
        (
            "result = DISTINCT_OVERFLOW",
            "occurrences = 1",
            "keys whose count differs from the trace",
        ),
        ("fields & key_mask", "fields & distinct_mask", "keys whose count differs from the trace"),
        (
            "has_distinct = distinct_mask != 0",
            "has_distinct = false",
            "keys whose count differs from the trace",
        ),
    ],
}


def run(name: str, folder: Path, *options: str) -> int:
    """Run an experiment of the gallery in virtual time; return its exit status."""
    if name == "sonata":
        pytest.importorskip("duckdb")
    done = scripts.run(f"gallery_{name}", "--time", "virtual", "--quick", "--out", str(folder),
                       *options)  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


@pytest.mark.parametrize("seed", [11, 12])
@pytest.mark.parametrize("name", NAMES)
def test_the_program_equals_the_model(name: str, seed: int, tmp_path: Path) -> None:
    assert run(name, tmp_path, "--seed", str(seed)) == 0, scripts.failed_checks(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_each_experiment_has_faults(name: str) -> None:
    assert len(FAULTS[name]) >= 3


@pytest.mark.parametrize(
    ("name", "right", "wrong", "check"),
    [(name, *fault) for name, faults in FAULTS.items() for fault in faults],
)
def test_a_fault_of_the_program_is_found(
    name: str, right: str, wrong: str, check: str, tmp_path: Path
) -> None:
    program = scripts.faulty_program(tmp_path, f"{name}.p4", right, wrong, f"gallery/{name}.p4")
    assert run(name, tmp_path / "out", "--program", program) == 1
    assert check in scripts.failed_checks(tmp_path / "out")


@pytest.mark.parametrize("name", ["hashpipe", "lightguardian"])
def test_a_short_capture_of_the_user_does_not_fail(name: str, tmp_path: Path) -> None:
    capture, out = tmp_path / "short.pcap", tmp_path / "out"
    frame = Ether() / IP(dst="10.0.0.1") / UDP(dport=53)
    wrpcap(str(capture), [frame] * 50)
    assert run(name, out, "--pcap", str(capture)) == 0
    verdicts = {
        each["verdict"] for each in json.loads((out / "summary.json").read_text())["reproductions"]
    }
    assert verdicts == {f"not reproduced: {OTHER_TRACE}"}


def test_sonata_s_stream_processor_adds_overflows_to_counts() -> None:
    pytest.importorskip("duckdb")
    from experiments.shared.gallery.stream_processor import complete  # noqa: PLC0415

    reports = [("a", "a1", 1), ("a", "a2", 2), ("a", "a2", 2), ("a", "a3", 3), ("a", "a3", 3),
               ("b", "b1", 2)]  # fmt: skip
    assert complete(reports, {"a": 4, "b": 5}, 7) == {0xA: 4 + 1 + 2}
