"""Switches that share a process (telemark/backends/real/switch_group.py)."""

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from loaded import StartExperiment

from telemark.backends.real import switch_group
from telemark.backends.real.switch_group import SwitchGroup
from telemark.errors import TestbedError

NO_PROGRAM = ["--no-p4", "--grpc-server-addr", "127.0.0.1:0"]
HEAD = f"""
import os, resource, signal
from pathlib import Path
from mininet.topo import Topo
from telemark.backends.real import network, switch_group
from telemark.backends.real.targets import minip4
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import Line

PROGRAM = {str(Path(__file__).parents[2] / "programs" / "wire.p4")!r}

class Single(Topo):
    def build(self):
        self.addLink(self.addHost("h1"), self.addSwitch("s1"))
"""


@pytest.fixture
def group(tmp_path: Path) -> Iterator[SwitchGroup]:
    group = SwitchGroup(tmp_path / "switches.log", interfaces=1, sanitize=False)
    yield group
    group.close()


def test_a_switch_with_sanitizers_starts(start_experiment: StartExperiment) -> None:
    body = """
options = {"s1": ["--sanitize"]}
with Network(Single(), run, program=PROGRAM, switch_options=options) as net:
    pid = net.backend.switches[0]._running.pid
    print("libasan:", "libasan" in Path(f"/proc/{pid}/maps").read_text())
"""
    output, errors = start_experiment(body, head=HEAD).communicate()
    assert "libasan: True" in output, errors


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["missing.json"], " switch: error: missing.json: No such file or directory"),
        (["missing.json", "--sead", "1"], ": error: unrecognized arguments: --sead 1 (see --help)"),
    ],
)
def test_an_error_is_in_the_log_of_the_switch(
    group: SwitchGroup, tmp_path: Path, arguments: list[str], error: str
) -> None:
    switch = group.start(arguments, {}, log := tmp_path / "log")
    assert not switch.wait_ready()
    assert switch.returncode == 2
    assert log.read_text() == f"minip4{error}\n"


def test_a_group_that_has_ended_is_reported(group: SwitchGroup, tmp_path: Path) -> None:
    os.kill(group.pid, signal.SIGKILL)
    group.exit_status()
    with pytest.raises(TestbedError, match=r"switches cannot be started: .* ended by SIGKILL"):
        group.start(["missing.json"], {}, tmp_path / "log")


def test_a_switch_whose_group_ends_before_it_reads_a_command_is_lost(
    group: SwitchGroup, tmp_path: Path
) -> None:
    os.kill(group.pid, signal.SIGSTOP)
    switch = group.start(["missing.json"], {}, tmp_path / "log")
    switch.end()
    os.kill(group.pid, signal.SIGKILL)
    switch.communicate()
    assert (switch.is_lost, switch.returncode) == (True, -signal.SIGKILL)


def test_a_switch_that_is_killed_does_not_disturb_the_others(
    start_experiment: StartExperiment,
) -> None:
    """If one of three switches is killed, the other two continue.

    The killed switch is started again, and gets frames over its memory link.
    """
    body = """
with Network(Line(switches=3), run, program=PROGRAM, capture=False) as net:
    s1, s2, s3 = net.backend.switches
    s3.stop(deleteIntfs=False)
    print("alive:", s1.connected(), s2.connected(), s3.connected())
    s3.start(None)
    s3.wait_ready()
    traffic = Traffic(net, [Flow(1, "h1", "h2", 1000, 100)])
    async with traffic:
        records = await traffic.finish()
    print("received:", len(records[1].received))
    line = next(i for i in Path("/proc/net/dev").read_text().splitlines() if "s3-eth1:" in i)
    print("interface:", line.split()[2])
"""
    output, errors = start_experiment(body, head=HEAD).communicate()
    assert "alive: True True False" in output, errors
    assert "received: 100" in output, errors
    assert "interface: 0\n" in output, errors


def test_switches_that_are_killed_with_their_process_close_their_own_sockets(
    group: SwitchGroup, tmp_path: Path
) -> None:
    """This is faster than leaving the sockets to the kernel."""
    switch = group.start(NO_PROGRAM, {}, tmp_path / "log")
    assert switch.wait_ready()
    group.kill()
    assert (switch.poll(), switch.is_lost) == (-signal.SIGKILL, False)
    assert group.exit_status() == 0


def test_a_process_that_hangs_is_killed(
    group: SwitchGroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switch_group, "KILL_S", 0.1)
    switch = group.start(NO_PROGRAM, {}, tmp_path / "log")
    assert switch.wait_ready()
    os.kill(group.pid, signal.SIGSTOP)
    group.kill()
    assert group.exit_status() == -signal.SIGKILL


def test_waiting_for_a_process_that_hangs_has_a_limit(group: SwitchGroup, tmp_path: Path) -> None:
    os.kill(group.pid, signal.SIGSTOP)
    switch = group.start(NO_PROGRAM, {}, tmp_path / "log")
    with pytest.raises(subprocess.TimeoutExpired):
        switch.wait_ready(0.1)


def test_a_process_that_reads_no_messages_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switch_group, "CHANNEL_S", 0.1)
    group = SwitchGroup(tmp_path / "switches.log", interfaces=1, sanitize=False)
    os.kill(group.pid, signal.SIGSTOP)

    def start_many() -> None:
        for _ in range(100):
            group.start(["--unknown" * 1000], {}, tmp_path / "log")

    with pytest.raises(TestbedError, match=r"cannot be started: .* did not respond within 0\.1 s"):
        start_many()
    group.close()


def test_a_process_without_free_descriptors_ends_with_a_message(
    group: SwitchGroup, tmp_path: Path
) -> None:
    assert group.start(NO_PROGRAM, {}, tmp_path / "log").wait_ready()
    resource.prlimit(group.pid, resource.RLIMIT_NOFILE, (8, 8))
    switch = group.start(NO_PROGRAM, {}, tmp_path / "log")
    assert not switch.wait_ready()
    assert switch.is_lost
    assert group.describe_exit() == (
        "the process of all switches (minip4) exited with status 1: minip4: too many open files; "
        "raise their limit, which is 8 (ulimit -n)"
    )


def error_of(start_experiment: StartExperiment, body: str) -> str:
    """Return the only line that a failing experiment prints to stderr."""
    process = start_experiment(body, head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 2
    assert errors.count("\n") == 1, errors
    return errors


def test_a_limit_of_open_files_that_is_too_low_is_reported(
    start_experiment: StartExperiment,
) -> None:
    body = """
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
with Network(Single(), run, program=PROGRAM):
    pass
"""
    error = error_of(start_experiment, body)
    assert "error: network network: needs up to 85 open files, but the limit is 64; " in error


def test_a_network_opens_at_most_the_expected_files(start_experiment: StartExperiment) -> None:
    body = """
from controllers.connection import connections
from telemark.traffic.flows import Flow
topo = Line(switches=12)
options = dict.fromkeys(topo.switches(), ["--cpu-port", "192"])
with Network(topo, run, program=PROGRAM, switch_options=options, stamp_log=True) as net:
    limit = network.max_open_files(net.backend._settings)
    async with connections(net):
        for pid in ("self", net.backend.switches[0]._running.pid):
            files = len(os.listdir(f"/proc/{pid}/fd"))
            print("within limit:", files <= limit - network.SPARE_FILES + 24, files, limit)
"""
    output, errors = start_experiment(body, head=HEAD).communicate()
    assert output.count("within limit: True") == 2, output + errors


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            "s1.start(None)\nminip4.START_S = 0.1\ns1.wait_ready()",
            "switch s1: was not ready within 0.1 s",
        ),
        (
            "s1.start(None)\nminip4.KILL_S = 0.1\ns1.stop()",
            "switch s1, when it was killed: did not exit within 0.3 s",
        ),
    ],
)
def test_a_switch_that_hangs_ends_the_run(
    start_experiment: StartExperiment, body: str, error: str
) -> None:
    head = """
switch_group.KILL_S = 0.1
with Network(Single(), run, program=PROGRAM) as net:
    s1 = net.backend.switches[0]
    pid = s1._running.pid
    s1.stop(deleteIntfs=False)
    os.kill(pid, signal.SIGSTOP)
"""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    assert f"error: {error}" in error_of(start_experiment, head + lines)


def test_the_end_of_the_process_of_all_switches_ends_the_run(
    start_experiment: StartExperiment,
) -> None:
    body = """
with Network(Line(switches=3), run, program=PROGRAM, capture=False) as net:
    async with Traffic(net, [Flow(1, "h1", "h2", 1000, 1_000_000)]) as traffic:
        os.kill(net.backend.switches[0]._running.pid, signal.SIGKILL)
        await traffic.finish()
"""
    error = error_of(start_experiment, body)
    assert "error: switches s1, s2, s3: the process of all switches (minip4) ended by" in error


def test_a_trace_without_file_is_on_stdout(start_experiment: StartExperiment) -> None:
    body = """
with Network(Single(), run, program=PROGRAM, switch_options={"s1": ["--trace"]}) as net:
    net.send_frames("h1", [0], [bytes(12) + bytes.fromhex("88b5") + bytes(46)])
"""
    output, errors = start_experiment(body, head=HEAD).communicate()
    assert "packet 1: in at port 1, 60 bytes" in output, errors


@pytest.mark.parametrize(("wires", "is_expected"), [("memory", True), ("veth", False)])
def test_the_command_line_shows_which_links_are_in_memory(
    start_experiment: StartExperiment, tmp_path: Path, wires: str, is_expected: bool
) -> None:
    (tmp_path / "script").write_text("links\n")
    body = f"""
with Network(Line(switches=2), run, program=PROGRAM, wires={wires!r}) as net:
    await net.run_script(Path({str(tmp_path / "script")!r}))
"""
    output, errors = start_experiment(body, head=HEAD).communicate()
    assert "s1-eth2<->s2-eth1 (OK OK)" in output, errors
    assert ("Frames between switches pass through memory." in output) is is_expected
