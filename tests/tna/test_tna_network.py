"""The CPU port of a TNA program in a network: if it has a link, copies leave through it."""

import json
from pathlib import Path

import pytest
from loaded import StartExperiment
from tna_programs import write

BODY = """
from mininet.topo import Topo
from experiments.shared.roce.reporting import FrameRecorder
from telemark.network import Network

class Star(Topo):
    def build(self):
        self.addSwitch("s1")
        for port in (1, 2, 3):
            self.addLink(self.addHost(f"h{{port}}"), "s1", port2=port)

frames = [b"\\x55" * 12 + bytes([0x88, 0xb5, number]) + bytes(50) for number in range(10)]
options = {{"s1": ["--cpu-port", "{port}"]}}
with Network(Star(), run, program={program!r}, switch_options=options) as net:
    received = {{host: net.run_application(host, FrameRecorder()) for host in ("h2", "h3")}}
    start_ns = run.clock.now_ns() + 50_000_000
    net.send_frames("h1", [start_ns + n * 1_000_000 for n in range(10)], frames)
    await run.clock.sleep_until(start_ns + 300_000_000)
counts = {{host: sum(frame in frames for frame in application.result)
          for host, application in received.items()}}
return Report([], [], metrics=counts)
"""


@pytest.mark.parametrize("where", ["--time=real", "--time=virtual"])
@pytest.mark.parametrize(("port", "copies"), [(3, 10), (4, 0)], ids=["link", "no link"])
def test_copies_to_the_cpu_leave_through_its_link(
    start_experiment: StartExperiment, tmp_path: Path, where: str, port: int, copies: int
) -> None:
    program = write(tmp_path, ingress="tm.copy_to_cpu = 1;")
    body = BODY.format(program=str(program), port=port)
    process = start_experiment(body, where)
    output, errors = process.communicate()
    assert process.returncode in (0, 1), output + errors  # 1, because there are no checks
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["metrics"] == {"h2": 10, "h3": copies}
