"""The experiment ioam_path: IOAM data equal ground truth, and deviations are detected."""

from pathlib import Path

import pytest
from scripts import failed_checks, run, samples, with_faults

from controllers.ioam.linux import missing

PACKETS = 60
SHORT = ("--time", "virtual", "--packets", str(PACKETS))
MODES = ("in place", "tunnel")


def test_data_of_all_nodes_agree_with_captures(tmp_path: Path) -> None:
    done = run("ioam_path", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    assert {row["mode"] for row in rows} == {*MODES}
    delays = [row for row in rows if row["delay_us"]]
    assert len(delays) > 2 * PACKETS
    assert all(row["delay_us"] == row["true_delay_us"] for row in delays)
    assert sum(int(row["queue_packets"]) for row in rows if row["queue_packets"]) > PACKETS
    assert (tmp_path / "ioam_path.png").stat().st_size > 10_000


def test_one_packet_is_enough(tmp_path: Path) -> None:
    """A single packet does not overflow, so the counters of overflows must be 0."""
    done = run("ioam_path", "--time", "virtual", "--packets", "1", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


def at_all(what: str) -> set[str]:
    return {f"s{number}: {what}" for number in range(1, 6)}


CONSTANTS = "wrong ids, ports, hop limits, constants"
FAULTS = {
    "a clock that is off": (
        "watch.p4", "ioam.offset_us = offset_us;",
        "ioam.offset_us = offset_us + (node_id == 3 ? 64w800 : 0);",
        {"s3: max error of arrival (us)"},
    ),
    "swapped ports": (
        "node_data.p4", "7w0 ++ hop.ingress_port ++ 7w0 ++ hop.egress_port",
        "7w0 ++ hop.egress_port ++ 7w0 ++ hop.ingress_port",
        at_all(CONSTANTS),
    ),
    "a late stamp": (
        "../include/hop.p4", "- standard_metadata.ingress_global_timestamp)[31:0]",
        "- standard_metadata.ingress_global_timestamp)[31:0] + (bit<32>)hop.node_id[2:2]",
        {f"s{number}: max error of transit delay (us)" for number in (4, 5)},
    ),
    "another queue": (
        "../include/hop.p4", "standard_metadata.enq_qdepth", "standard_metadata.deq_qdepth",
        at_all("max error of queue (packets)"),
    ),
    "a lost report": (
        "pipeline.p4", "write_report.apply(hdr, meta.ioam, meta.hop);",
        "write_report.apply(hdr, meta.ioam, meta.hop);"
        "if (meta.ioam.report_number == 9 && meta.hop.node_id == 5) "
        "{ mark_to_drop(standard_metadata); }",
        {"reports", "missing reports", "gaps in report numbers", "edge-to-edge options"},
    ),
    "a sequence number too many": (
        "insert.p4", "numbers.write(ioam.flow, number + 1);",
        "numbers.write(ioam.flow, number == 3 ? number + 2 : number + 1);",
        {"wrong sequence numbers"},
    ),
    "an opaque snapshot with a schema": (
        "node_data.p4", "data.opaque.value = 0x00FFFFFF;", "data.opaque.value = 0x00FFFFFE;",
        at_all(CONSTANTS),
    ),
    "a wrong traffic class": (
        "strip.p4", "hdr.ipv6.next_header = hdr.ioam.hop_by_hop.next_header;",
        "hdr.ipv6.next_header = hdr.ioam.hop_by_hop.next_header;"
        "hdr.ipv6.traffic_class = 1; hdr.inner_ipv6.traffic_class = 1;",
        {"packets changed on the path", "packets received in order"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "names", [("a clock that is off", "swapped ports", "another queue", "a late stamp",
               "a sequence number too many"),
              ("a lost report",), ("an opaque snapshot with a schema", "a wrong traffic class")],
)  # fmt: skip
def test_wrong_data_fail(names: tuple[str, ...], tmp_path: Path) -> None:
    faults = [FAULTS[name] for name in names]
    program = with_faults(tmp_path, (fault[:3] for fault in faults), "ioam/ioam.p4")
    done = run("ioam_path", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    expected = set().union(*(fault[3] for fault in faults))
    assert failed_checks(tmp_path / "out") == {
        f"{mode}: {check}" for mode in MODES for check in expected
    }


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_linux_routers_agree_with_captures(tmp_path: Path) -> None:
    done = run("ioam_path", "--packets", str(PACKETS), "--out", str(tmp_path))
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"r2", "r4"} < {row["node"] for row in samples(tmp_path)}
