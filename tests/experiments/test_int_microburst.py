"""Microburst: INT measures the queues. It identifies the port and the flow of any burst."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scripts import LOST, REPORTED, failed_checks, run, samples, with_faults

SHORT = ("--time", "virtual", "--before", "0.1")


@pytest.mark.parametrize(
    ("bursting", "node", "port"), [("orange", 3, 5005), ("blue", 1, 5002), ("red", 3, 5001)]
)
def test_who_filled_the_longest_queue_is_named(
    bursting: str, node: int, port: int, tmp_path: Path
) -> None:
    done = run("int_microburst", *SHORT, "--bursting", bursting, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    culprit = json.loads((tmp_path / "summary.json").read_text())["metrics"]["culprit"]
    assert (culprit["node"], culprit["flow"]) == (node, port)
    longest = max(samples(tmp_path), key=lambda row: int(row["queue_packets"]))
    assert longest["switch"] == f"s{node}"
    assert 90_000 < float(longest["time_us"]) < 200_000
    # bytes that arrived in 100 ms beyond the capacity of the link, in packets with INT
    assert 150 < int(longest["queue_packets"]) < 500
    assert (tmp_path / "int_microburst.png").stat().st_size > 10_000
    assert longest_replayed(tmp_path) == (longest["switch"], int(longest["queue_packets"]))


def longest_replayed(folder: Path) -> tuple[str, int]:
    """Return the switch with the longest queue in the replay, and the length of this queue."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for flow in json.loads((folder / "replay.json").read_text())["flows"]:
        path, steps = flow["path"], np.array(flow["packets"])
        times = steps.reshape(-1, 2 * len(path) - 2)
        times[:, 0] = np.cumsum(times[:, 0])
        times = np.cumsum(times, axis=1)
        for hop, (switch, after) in enumerate(pairwise(path[1:]), start=1):
            stays = times[:, 2 * hop - 1 : 2 * hop + 1].tolist()
            found.setdefault((switch, after), []).extend(map(tuple, stays))
    most = {}
    for (switch, _), stays in found.items():
        came, left = np.sort(np.array(stays).T)
        before = np.arange(len(came)) - np.searchsorted(left, came, "right")
        most[switch] = max(most.get(switch, 0), int(before.max()))
    return max(most.items(), key=lambda item: item[1])


def test_what_switches_tell_wrongly_is_found_out(tmp_path: Path) -> None:
    """Wrong queues, swapped ports and lost reports of switches make different checks fail."""
    faults = [
        ("../include/hop.p4", "standard_metadata.enq_qdepth", "standard_metadata.deq_qdepth"),
        ("hop.p4", "7w0 ++ hop.ingress_port ++ 7w0 ++ hop.egress_port",
         "7w0 ++ hop.egress_port ++ 7w0 ++ hop.ingress_port"),
        ("pipeline.p4", REPORTED, REPORTED + LOST),
    ]  # fmt: skip
    program = with_faults(tmp_path, faults, "int/int.p4")
    done = run("int_microburst", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed_checks(tmp_path / "out") == {
        "s3: max error of queue (packets)", "congested port (number)", "reports",
        "reports with the whole path", "missing report sequence numbers",
    }  # fmt: skip
