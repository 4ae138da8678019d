"""INT hop by hop, in virtual time: equal to ground truth, and deviations are detected."""

import shutil
from pathlib import Path

import pytest
from scripts import LOST, REPORTED, failed_checks, faulty_program, run, samples, with_faults

from telemark.backends.real.targets.bmv2 import PROGRAM

SHORT = ("--time", "virtual", "--packets", "100")


def test_metadata_of_all_switches_agree_with_the_packets(tmp_path: Path) -> None:
    done = run("int_path", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    assert len(rows) == 5 * 100
    assert all(row["latency_us"] == row["true_latency_us"] for row in rows)
    queues = {name: [int(row["queue_packets"]) for row in rows if row["switch"] == name]
              for name in ("s1", "s5")}  # fmt: skip
    assert sum(queues["s5"]) > 5 * sum(queues["s1"]) > 0
    assert (tmp_path / "int_path.png").stat().st_size > 10_000


RESIDUAL = "packets with a residual other than the last link"
TIMES = ("arrival (us)", "departure (us)")


FAULTS = {
    "a clock that is off": (
        "watch.p4", "hop.offset_us = offset_us;",
        "hop.offset_us = offset_us + (node_id == 3 ? 48w800 : 0);",
        {*(f"s3: max error of {what}" for what in TIMES),
         "packets with timestamps out of order",
         "clock offsets out of their error bounds"},
    ),
    "swapped ports": (
        "hop.p4", "7w0 ++ hop.ingress_port ++ 7w0 ++ hop.egress_port",
        "7w0 ++ hop.egress_port ++ 7w0 ++ hop.ingress_port",
        {"packets with wrong path"},
    ),
    "a late stamp": (
        "../include/hop.p4", "- standard_metadata.ingress_global_timestamp)[31:0]",
        "- standard_metadata.ingress_global_timestamp)[31:0] + (bit<32>)hop.node_id[2:2]",
        {*(f"s{n}: max error of latency (us)" for n in (4, 5)), RESIDUAL},
    ),
    "another queue": (
        "../include/hop.p4", "standard_metadata.enq_qdepth", "standard_metadata.deq_qdepth",
        {f"s{n}: max error of queue (packets)" for n in range(1, 6)},
    ),
    "a lost report": (
        "pipeline.p4", REPORTED, REPORTED + LOST,
        {"packets without a report", "reports",
         "missing report sequence numbers"},
    ),
    "a sink that does not restore the DSCP": (
        "sink.p4", "dscp[5:2] = hdr.shim.original[7:4];", "",
        {"packets received with wrong DSCP"},
    ),
    "no E bit": (
        "transit.p4", "tell(1, 0);", "tell(0, 0);", {"packets with a wrong E bit, on all links"},
    ),
    "no M bit": (
        "transit.p4", "tell(0, 1);", "tell(0, 0);", {"packets with a wrong M bit, on all links"},
    ),
    "no checksum complement": (
        "transit.p4", "16w0 ++ ~folded(added)", "0",
        {"packets with wrong checksum complement",
         "frames with a wrong checksum or length at hosts (100 at h2)",
         "flows that lost all packets (limits: flow 3 from h1 to h2)"},
    ),
    "another utilisation": (
        "hop.p4", "count + standard_metadata.packet_length",
        "count + standard_metadata.packet_length + 4",
        {"max error of egress tx utilization (ppm)"},
    ),
    "a wrong UDP checksum": (
        "lengths.p4", "hdr.ports.word[15:0] = checksum == 0 ? 16w0xFFFF : checksum;",
        "hdr.ports.word[15:0] = checksum + 1;",
        # 100 packets in the first network; 40 in each direction in the second; 3 * 100 in the third
        {"frames with a wrong checksum or length at hosts (440 at h2, 40 at h1)",
         "flows that lost all packets (network: flow 1 from h1 to h2 and 5 more)",
         "packets received in order", "sum of hop and link latencies in the collector (us)"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "names", [("a clock that is off", "swapped ports", "another queue"),
              ("a late stamp", "a lost report"),
              ("a sink that does not restore the DSCP", "no E bit", "no M bit",
               "another utilisation"),
              ("no checksum complement",), ("a wrong UDP checksum",)],
)  # fmt: skip
def test_wrong_metadata_fail(names: tuple[str, ...], tmp_path: Path) -> None:
    faults = [FAULTS[name] for name in names]
    program = with_faults(tmp_path, (fault[:3] for fault in faults), "int/int.p4")
    done = run("int_path", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed_checks(tmp_path / "out") == set().union(*(fault[3] for fault in faults))


def test_a_flow_that_fills_a_link_by_itself_is_refused(tmp_path: Path) -> None:
    done = run("int_path", *SHORT, "--rate", "5041", "--out", str(tmp_path / "out"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "--rate 5041" in done.stderr.splitlines()[-1]
    assert "less than 5040" in done.stderr.splitlines()[-1]


@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not on PATH")
def test_on_bmv2_stamps_are_of_times_at_which_packets_were_inside(tmp_path: Path) -> None:
    on_bmv2 = ("--target", "bmv2", "--packets", "100")
    done = run("int_path", *on_bmv2, "--out", str(tmp_path / "right"))
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(samples(tmp_path / "right")) == 5 * 100
    program = faulty_program(
        tmp_path, "watch.p4", "hop.offset_us = offset_us;",
        "hop.offset_us = offset_us + (node_id == 3 ? 48w1000000 : 0);", "int/int.p4",
    )  # fmt: skip
    done = run("int_path", *on_bmv2, "--program", program, "--out", str(tmp_path / "wrong"))
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert failed_checks(tmp_path / "wrong") == {
        *(f"s3: max error of {what}" for what in TIMES),
        "packets with timestamps out of order",
    }
