"""The MTU is the same in real and virtual time, also if programs add headers."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from loaded import StartExperiment
from virtual_networks import WIRE, Pair, virtually

from telemark.backends.real.targets.bmv2 import PROGRAM
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic

PROGRAMS = Path(__file__).parents[1] / "programs"
BOTH = pytest.mark.parametrize("time", ["virtual", "real"])

# Frames of `size` bytes cross four switches. Some switches add bytes to each frame, others remove
# bytes.
GROW = """
topo = Line(switches=4)
defines = {{switch: {{"TAKES": takes, "PUTS": puts}}
           for switch, takes, puts in zip(topo.switches(), {takes}, {puts})}}
with Network(topo, run, program={program!r}, defines=defines, mtu_bytes={mtu}) as net:
    flow = Flow(1, "h1", "h2", rate_pps=500, count=20, size={size})
    async with connections(net), Traffic(net, [flow]) as traffic:
        records = await traffic.finish()
longest = [pcap.read(net.capture(near, far, "out")).length.max(initial=0)
           for near, far in (("s1", "s2"), ("s2", "s3"), ("s3", "s4"), ("s4", "h2"))]
metrics = {{"longest": [int(length) for length in longest],
           "too_long": net.counters["s2"]["ports"]["1"]["drops"]["too_long"],
           "received": len(records[1].received)}}
return Report([], [Check("c", PacketAccounting.from_network(net, records).sent, 20)], metrics)
"""
HEAD = """
from controllers.connection import connections
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from topologies.basic import Line
"""


def run_grow(start: StartExperiment, folder: Path, time: str, **what: Any) -> tuple[int, str, Any]:
    """Run on minip4 in real or virtual `time`, or on bmv2 if `time` is "bmv2".

    Return the exit status, the errors, and the metrics.
    """
    body = GROW.format(program=str(PROGRAMS / "grow.p4"), **what)
    where = ("--target", time) if time == "bmv2" else ("--time", time)
    process = start(body, *where, "--out", str(folder / "out"), head=HEAD)
    _output, errors = process.communicate()
    path = folder / "out" / "summary.json"
    metrics = json.loads(path.read_text())["metrics"] if path.exists() else None
    return process.returncode, errors, metrics


@BOTH
def test_switches_pass_on_what_programs_add_to_hosts_longest_packets(
    start_experiment: StartExperiment, tmp_path: Path, time: str
) -> None:
    """Switches forward the longest packets of hosts, even after programs have added bytes.

    Each switch adds as many bytes as INT would. Together, the switches add more bytes than one
    switch has room for.
    """
    status, errors, metrics = run_grow(
        start_experiment, tmp_path, time, mtu=7000, size=7014,
        takes=(0, 0, 0, 1600), puts=(800, 400, 400, 0),
    )  # fmt: skip
    assert status == 0, errors
    assert metrics == {"longest": [7814, 8214, 8614, 7014], "too_long": 0, "received": 20}


@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not on PATH")
def test_so_it_is_on_bmv2(start_experiment: StartExperiment, tmp_path: Path) -> None:
    """On bmv2, a switch can lengthen each frame by up to 512 bytes.

    The buffers of bmv2 are 512 bytes longer than the received frame.
    """
    status, errors, metrics = run_grow(
        start_experiment, tmp_path, "bmv2", mtu=7000, size=7014,
        takes=(0, 0, 0, 1000), puts=(500, 500, 0, 0),
    )  # fmt: skip
    assert status == 0, errors
    assert metrics == {"longest": [7514, 8014, 8014, 7014], "too_long": 0, "received": 20}


def test_a_switch_takes_nothing_longer_than_it_has_room_for(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    """A switch does not receive a frame that is longer than it has room for.

    This test runs in virtual time. For real time, see tests/ports.
    """
    status, errors, metrics = run_grow(
        start_experiment, tmp_path, "virtual", mtu=9202, size=9216,
        takes=(0, 0, 0, 0), puts=(1, 0, 0, 0),
    )  # fmt: skip
    assert status == 1, errors
    assert metrics == {"longest": [9217, 0, 0, 0], "too_long": 20, "received": 0}


@BOTH
def test_a_host_takes_nothing_longer_than_its_mtu(
    start_experiment: StartExperiment, tmp_path: Path, time: str
) -> None:
    """A host drops frames that are longer than its MTU.

    A frame may exceed the MTU by a VLAN tag, as at real interfaces.
    """
    status, errors, _ = run_grow(
        start_experiment, tmp_path, time, mtu=1000, size=1014,
        takes=(0, 0, 0, 0), puts=(5, 0, 0, 0),
    )  # fmt: skip
    assert status == 1, errors
    failed = [check["name"] for check in json.loads(
        (tmp_path / "out" / "summary.json").read_text())["checks"] if not check["passed"]
    ]  # fmt: skip
    refused = re.fullmatch(r"frames longer than the MTU at hosts \((\d+) at h2\)", failed[0])
    assert refused is not None, failed
    # In real time, the switch retries the first of several frames that arrive together.
    assert 20 <= int(refused[1]) <= (20 if time == "virtual" else 100)


def test_so_much_as_a_tag_is_no_more_than_it_takes(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    status, errors, metrics = run_grow(
        start_experiment, tmp_path, "virtual", mtu=1000, size=1014,
        takes=(0, 0, 0, 0), puts=(4, 0, 0, 0),
    )  # fmt: skip
    # these frames do not belong to the flow
    assert (status, metrics["longest"]) == (1, [1018] * 4), errors


@pytest.mark.parametrize(
    ("mtu_bytes", "size", "words"),
    [
        (67, 60, "mtu_bytes 67: expected 68 to 9202"),
        (9203, 60, "mtu_bytes 9203: expected 68 to 9202"),
        (1500, 1515, "flow 1: size 1515 exceeds 1514, the longest frame of hosts with an MTU "
                     "of 1500; reduce the size or use Network(mtu_bytes=1501)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    tmp_path: Path, mtu_bytes: int, size: int, words: str
) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(), run, program=WIRE, mtu_bytes=mtu_bytes) as net:
            Traffic(net, [Flow(1, "h1", "h2", rate_pps=1, count=1, size=size)])

    with pytest.raises(TestbedError) as caught:
        virtually(tmp_path, main)
    assert str(caught.value) == words
