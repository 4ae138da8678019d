"""Switch processes that are forked from one process (telemark/backends/real/switch_starter.py)."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from loaded import StartExperiment

from telemark.backends.real.switch_starter import SwitchStarter
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
def starter() -> Iterator[SwitchStarter]:
    starter = SwitchStarter()
    yield starter
    starter.close()


def test_a_switch_with_sanitizers_starts(start_experiment: StartExperiment) -> None:
    body = """
options = {"s1": ["--sanitize"]}
with Network(Single(), run, program=PROGRAM, switch_options=options) as net:
    pid = net.backend.switches[0]._process.pid
    print("libasan:", "libasan" in Path(f"/proc/{pid}/maps").read_text())
"""
    output, errors = start_experiment(body, head=HEAD).communicate()
    assert "libasan: True" in output, errors


def test_an_error_is_in_the_log(starter: SwitchStarter, tmp_path: Path) -> None:
    process = starter.start(["missing.json"], log := tmp_path / "log")
    assert process.wait() == 2
    assert log.read_text() == "minip4 switch: error: missing.json: No such file or directory\n"


def test_a_starter_that_has_ended_is_reported(starter: SwitchStarter, tmp_path: Path) -> None:
    os.kill(starter._process.pid, signal.SIGKILL)
    with pytest.raises(TestbedError, match="switches cannot be started"):
        starter.start(["missing.json"], tmp_path / "log")
