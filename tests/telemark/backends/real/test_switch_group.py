"""Switches that share a process (telemark/backends/real/switch_group.py)."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from loaded import StartExperiment

from telemark.backends.real.switch_group import SwitchGroup
from telemark.errors import TestbedError

HEAD = f"""
from pathlib import Path
from mininet.topo import Topo
from telemark.network import Network

PROGRAM = {str(Path(__file__).parents[2] / "programs" / "wire.p4")!r}

class Single(Topo):
    def build(self):
        self.addLink(self.addHost("h1"), self.addSwitch("s1"))
"""


@pytest.fixture
def group(tmp_path: Path) -> Iterator[SwitchGroup]:
    group = SwitchGroup(tmp_path / "switches.log", sanitize=False)
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
    imports = """
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import Line
"""
    output, errors = start_experiment(body, head=HEAD + imports).communicate()
    assert "alive: True True False" in output, errors
    assert "received: 100" in output, errors
    assert "interface: 0\n" in output, errors
