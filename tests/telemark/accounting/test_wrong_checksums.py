"""A run fails if a P4 program writes wrong checksums.

The output of the run names the wrong checksums. The run does not count as inconclusive.
"""

import json
import re
from pathlib import Path

import pytest
from loaded import StartExperiment

PROGRAM = Path(__file__).parents[1] / "programs" / "corrupt.p4"
BOTH = pytest.mark.parametrize("time", ["virtual", "real"])
HEAD = """
from telemark.network import Network
from telemark.traffic.tcp import TcpFlow
from telemark.traffic.flows import Flow, Traffic
from telemark.accounting.packet_accounting import PacketAccounting
from topologies.basic import Line
"""
BODY = """
with Network(Line(switches=1), run, program={program!r}, defines={{"FIELD": {field!r}}}) as net:
    async with Traffic(net, [{flow}]) as traffic:
        records = await traffic.finish()
return Report([], [Check("sent", PacketAccounting.from_network(net, records).sent, 20)])
"""
UDP = 'Flow(1, "h1", "h2", rate_pps=500, count=20, size=200)'
TCP = 'TcpFlow(1, "h1", "h2", size_bytes=10_000)'
AT_H2 = r"host h2: dropped {} frames with a wrong checksum or length: first at \d+\.\d+ s, "


def run_corrupt(
    start: StartExperiment, folder: Path, time: str, field: str, flow: str = UDP
) -> tuple[int, str]:
    """Return the exit status, and the whole output without line breaks."""
    body = BODY.format(program=str(PROGRAM), field=field, flow=flow)
    process = start(body, "--time", time, "--out", str(folder / "out"), head=HEAD)
    printed = " ".join("".join(process.communicate()).split())
    assert "run invalid" not in printed
    return process.returncode, printed


@BOTH
@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("udp_checksum", r"10\.0\.0\.1:49153 > 10\.0\.0\.2:5001: UDP checksum 0x"),
        ("udp_length", r"10\.0\.0\.1:49153 > 10\.0\.0\.2:5001: UDP length 422, in 166 bytes"),
        ("ipv4_checksum", r"10\.0\.0\.1 > 10\.0\.0\.2: IPv4 checksum 0x"),
    ],
)
def test_a_wrong_checksum_or_length_fails_the_run(
    start_experiment: StartExperiment, tmp_path: Path, time: str, field: str, problem: str
) -> None:
    status, printed = run_corrupt(start_experiment, tmp_path, time, field)
    assert status == 1, printed
    assert re.search(AT_H2.format(20) + problem, printed), printed
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    failed = [check["name"] for check in summary["checks"] if not check["passed"]]
    assert failed[0] == "frames with a wrong checksum or length at hosts (20 at h2)"


def test_a_tcp_connection_that_fails_for_it_fails_the_run(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    status, printed = run_corrupt(start_experiment, tmp_path, "virtual", "tcp_checksum", TCP)
    assert status == 1, printed
    assert re.search(AT_H2.format(r"\d+") + r"10\.0\.0\.1:\d+ > \S+: TCP checksum 0x", printed)
    assert "error: flow 1: connection from h1 to h2: timeout" in printed
