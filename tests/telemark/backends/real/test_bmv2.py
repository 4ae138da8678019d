"""The bmv2 target: its panel, rejected options, and an experiment if bmv2 is installed."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from loaded import StartExperiment

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from telemark.backends.real.targets.bmv2 import PANEL, PROGRAM, Bmv2Switch
from telemark.backends.real.targets.bmv2_counters import with_inner_counts
from telemark.backends.virtual.clock import VirtualClock
from telemark.network import Network
from telemark.session.run import Run
from topologies.basic import Line

REPOSITORY = Path(__file__).parents[4]
HEAD = """
from telemark.network import Network
from topologies.basic import Line
"""


def test_the_panel_passes_frames_on_between_a_port_and_bmv2_s_port() -> None:
    panel = Engine(compile_p4(PANEL).bmv2_json)
    for frame in (b"", b"x", bytes(1514)):
        assert panel.process(1, frame, 0) == [(257, frame)]
        assert panel.process(257, frame, 0) == [(1, frame)]
        assert panel.process(254, frame, 0) == [(510, frame)]


def stand_in(folder: Path, script: str) -> None:
    """Write a stand-in program that is called simple_switch_grpc."""
    path = folder / PROGRAM
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("{}", "switch s1: bmv2 exited with status 3: no such library"),
        ("{'s1': ['--deflect-on-drop']}", "switch s1: bmv2 has no option --deflect-on-drop"),
    ],
)
def test_what_cannot_be_gets_one_line(
    start_experiment: StartExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    options: str, words: str,
) -> None:  # fmt: skip
    stand_in(tmp_path, "echo no such library >&2; exit 3")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    body = (
        "with Network(Line(switches=1), run, program='p4src/routing/router.p4',\n"
        f"             switch_options={options}):\n"
        "    raise AssertionError('it cannot have started')\n"
    )
    process = start_experiment(body, "--target", "bmv2", head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 2, output + errors
    assert words in errors
    assert errors.count("\n") == 1


def test_what_went_into_bmv2_and_what_came_out_is_counted_at_the_panel() -> None:
    def port(transmitted: int, received: int) -> dict[str, int]:
        return {"transmitted_packets": transmitted, "received_packets": received}

    ports = {"1": port(90, 100), "2": port(7, 0), "257": port(100, 88), "258": port(0, 9)}
    counters = {"ports": ports, "other_ports": {"9": {"drops": {"no_port": 2}}}}
    found = with_inner_counts(counters)
    assert found["inner"] == {"into": 100, "out": 97}
    assert found["other_ports"] == {
        "9": {"drops": {"no_port": 2}}, "bmv2": {"drops": {"bmv2": 3}}
    }  # fmt: skip
    ports["258"] = port(0, 14)  # the program made as many packets as it dropped
    assert with_inner_counts(counters)["other_ports"]["bmv2"] == {"drops": {"bmv2": 0}}


def test_a_queue_with_a_rate_has_the_usual_depth_unless_it_was_given_one() -> None:
    """A queue with a rate gets the default depth of networks (64), unless its depth was set before.

    With a rate, packets of the network queue in bmv2. Without a rate, the queue of bmv2 only
    buffers packets while bmv2 waits for a core.
    """
    asked = []
    # no process is needed, because the test uses only the Thrift calls
    switch = Bmv2Switch.__new__(Bmv2Switch)
    switch._wires = dict.fromkeys((1, 2), ("panel", "bmv2"))
    switch._sized_queues = set()
    thrift: Any = SimpleNamespace(set_queue=lambda port, **changes: asked.append((port, changes)))
    switch.thrift = thrift
    switch.set_queue(1, rate_pps=10)
    switch.set_queue(2, depth=5)
    switch.set_queue(2, rate_pps=10)
    assert asked == [
        (1, {"depth": 64, "rate_pps": 10}), (2, {"depth": 5}), (2, {"rate_pps": 10})
    ]  # fmt: skip


def test_queues_of_ports_that_push_back_have_the_link_s_depth_or_the_usual_one() -> None:
    asked: list[tuple[object, ...]] = []
    switch = Bmv2Switch.__new__(Bmv2Switch)
    switch.params = {"pushes_back": True}
    switch._wires = dict.fromkeys((1, 2, 3), ("panel", "bmv2"))
    switch._sized_queues = set()
    properties = {1: {"rate_bps": 10**6}, 2: {}, 3: {"rate_bps": 10**7, "queue_packets": 7}}
    switch.intfs = {port: SimpleNamespace(params=each) for port, each in properties.items()}
    thrift: Any = SimpleNamespace(
        set_all_queues=lambda depth: asked.append(("all", depth)),
        set_queue=lambda port, **changes: asked.append((port, changes)),
        missing=None,
    )
    switch.thrift = thrift
    switch._size_queues()
    assert asked == [("all", 4096), (1, {"depth": 64}), (3, {"depth": 7})]
    switch.params = {}
    switch._size_queues()
    assert asked[3:] == [("all", 4096)]
    # Without Thrift, set_queue() is called only for requested depths. It rejects them.
    switch.params, thrift.missing = {"pushes_back": True}, "no bindings"
    switch._size_queues()
    assert asked[4:] == [(3, {"depth": 7})]


@pytest.mark.parametrize(
    ("missing", "has_port", "ports"),
    [(None, True, (9091,)), ("no bindings", True, (9091,)), ("built without", False, ())],
)
def test_bmv2_starts_with_and_without_thrift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    missing: str | None, has_port: bool, ports: tuple[int, ...],
) -> None:  # fmt: skip
    """Only a bmv2 that was built with Thrift gets the option --thrift-port."""
    stand_in(tmp_path, 'echo "$@" > "$0.arguments"; exec sleep 100')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("telemark.backends.real.targets.minip4.Minip4Switch.__init__", _no_process)
    monkeypatch.setattr("telemark.backends.real.targets.minip4.Minip4Switch.start", lambda *_: None)
    settings: Any = SimpleNamespace(folder=tmp_path, options={})
    calls: Any = SimpleNamespace(missing=missing, has_port=has_port)
    panel: Any = None
    switch = Bmv2Switch("s1", settings, panel, calls)
    assert switch._thrift_ports == ports
    assert (switch.without_thrift or "").count("queues hold 64 packets") == (missing is not None)
    switch.start(None)
    arguments = tmp_path / f"{PROGRAM}.arguments"
    try:
        while not arguments.exists() or not arguments.read_text():
            switch._check_bmv2()
            time.sleep(0.01)
    finally:
        switch._end_bmv2()
    assert ("--thrift-port=9091" in arguments.read_text()) == has_port


def _no_process(switch: Any, name: str, settings: Any, **_params: Any) -> None:
    switch.name, switch.device_id, switch._settings = name, 1, settings
    switch.params, switch.ports, switch.grpc_address = {}, {}, "127.0.0.1:9551"


SENDER = """
import socket, subprocess
from telemark.backends.real.targets.bmv2 import limit_rate
for command in ("add near type veth peer far", "set near up", "set far up"):
    subprocess.run(["ip", "link", *command.split()], check=True)
limit_rate("near", 100_000)
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind(("near", 0))
    sender.setblocking(False)
    sent = 0
    try:
        while sent < 10_000:
            sender.send(bytes(1000))
            sent += 1
    except BlockingIOError:
        pass
print(sent, flush=True)
subprocess.run(["tc", "-s", "qdisc", "show", "dev", "near"], check=True)
"""


def test_who_sends_faster_than_a_rate_waits_and_loses_nothing() -> None:
    done = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", SENDER], cwd=REPOSITORY, capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sent, _, told = done.stdout.partition("\n")
    assert 10 < int(sent) < 1000  # at most what the socket buffer and the burst of the rate allow
    assert "dropped 0" in told


def test_captures_of_the_panel_s_inner_ports(tmp_path: Path) -> None:
    """A port has a second capture, between the panel and bmv2. Its file has bmv2's port number."""
    run = Run("test", tmp_path, 1, clock=VirtualClock())
    with Network(Line(switches=1), run, program="p4src/routing/router.p4") as net:
        assert not net.has_panels
        assert net.capture("s1", "h2", "in").name == "s1-eth2_in.pcap"
        assert net.capture("s1", "h2", "in", inner=True).name == "s1-panel2_in.pcap"
        assert net.capture("s1", "h1", "out", inner=True).name == "s1-panel1_out.pcap"


needs_bmv2 = pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not on PATH")


def run_on_bmv2(name: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REPOSITORY / "experiments" / f"{name}.py"), "--quick",
               "--out", str(folder), *arguments]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@needs_bmv2
@pytest.mark.parametrize(
    "experiment", ["ampm_loss", "ampm_delay", "ampm_congestion", "ampm_multipoint", "ampm_quic",
                   "ampm_reordering", "ampm_scale", "ampm_sync", "starter"],
)  # fmt: skip
def test_an_experiment_on_bmv2_is_right_or_says_why_it_cannot_be(
    experiment: str, tmp_path: Path
) -> None:
    done = run_on_bmv2(experiment, tmp_path, "--target", "bmv2")
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())  # one line about the machine
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["target"] == "bmv2"
    assert len(summary["capacities"]) == 1
    assert "probe: bmv2 sustains" in done.stdout


@needs_bmv2
def test_both_targets_say_the_same(tmp_path: Path) -> None:
    done = run_on_bmv2("targets", tmp_path)
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr


@needs_bmv2
def test_what_bmv2_drops_makes_a_run_invalid(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    """A run is inconclusive if bmv2 drops packets unexpectedly.

    The table has no entry, so the program drops all packets. The experiment has not declared this.
    """
    body = """
with Network(Line(switches=1), run, program='p4src/routing/router.p4') as net:
    flow = Flow(1, 'h1', 'h2', 100, 20, allow_total_loss=True)
    async with connection(net, 's1'), Traffic(net, [flow]) as traffic:
        records = await traffic.finish()
PacketAccounting.from_network(net, records)
"""
    head = (
        HEAD
        + """
from controllers.connection import connection
from telemark.traffic.flows import Flow, Traffic
from telemark.accounting.packet_accounting import PacketAccounting
"""
    )
    process = start_experiment(body, "--target", "bmv2", head=head)
    output, errors = process.communicate()
    assert process.returncode == 2, output + errors
    assert "run invalid: bmv2 dropped frames (20 in s1)" in errors
    assert "warning: switch s1: 20 packets were dropped inside bmv2" in " ".join(output.split())


def test_without_bmv2_there_is_nothing_to_compare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If bmv2 is not installed, the experiment `targets` ends with one line and status 2.

    run_all.sh then skips the experiment: see tests/telemark/run_all/test_run_all.py.
    """
    folders = [f for f in os.environ["PATH"].split(":") if not Path(f, PROGRAM).exists()]
    monkeypatch.setenv("PATH", ":".join(folders))
    if shutil.which("mnexec") is None:
        pytest.skip("bmv2 is where all else is")
    done = run_on_bmv2("targets", tmp_path / "out")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "--target bmv2: simple_switch_grpc is not on PATH" in done.stderr
    assert done.stderr.count("\n") == 1
