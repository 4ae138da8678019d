"""Kernel timestamps of frames on a switch's interfaces, beside what sender and receiver know."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

HEAD = f"""
import numpy as np
from mininet.topo import Topo
from testbed.network import Network
from testbed.tap import Tap
from testbed.traffic import Flow, Traffic

PROGRAM = {str(Path(__file__).parent / "programs" / "wire.p4")!r}

class Pair(Topo):
    def build(self):
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(self.addHost("h1"), s1)
        self.addLink(s1, s2, delay_us=2000)
        self.addLink(s2, self.addHost("h2"))
"""

MEASURE = """
with Network(Pair(), run, program=PROGRAM) as net:
    flows = [Flow(n, "h1", "h2", rate_pps=500, count=200) for n in (1, 2)]
    first, last = (Tap(net.interface(*end), flows) for end in (("s1", "h1"), ("s2", "h2")))
    async with first, last, Traffic(net, flows, run.clock.now_ns() + 100_000_000) as traffic:
        records = await traffic.finish()
steps = []
for flow in flows:
    record = records[flow.id]
    times = [record.sent["sent_ns"], first.times_ns()[flow.id], last.times_ns()[flow.id],
             record.received["received_ns"]]
    steps.append(np.diff(np.array(times, np.int64), axis=0).min(axis=1) / 1000)
return Report([], [Check("ran", 1, 1)], metrics={"least_us": np.array(steps).min(axis=0)})
"""


def test_times_lie_between_those_of_sender_and_receiver(
    start_experiment: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = start_experiment(MEASURE, "--out", str(tmp_path / "out"), head=HEAD)
    _output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    to_first, between, to_receiver = summary["metrics"]["least_us"]
    assert to_first > 0
    assert between > 1990  # the link's delay, and clocks that were compared to a microsecond
    assert to_receiver > -10
