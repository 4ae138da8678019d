"""Registers and queues of a program: the same calls give the same numbers on both targets."""

import json
from pathlib import Path
from typing import Any

import pytest
from loaded import StartExperiment

from telemark.backends.real.bmv2_thrift.client import ThriftCalls

HEAD = f"""
import finsy as fy
from controllers.connection import connection
from telemark.network import Network
from topologies.basic import Line

SOURCE = {str(Path(__file__).parents[3] / "programs" / "registers.p4")!r}
"""
BODY = """
seen = []
async def look(*names):
    entries = [fy.P4RegisterEntry(name) for name in names]
    seen.append([[e.register_id, e.index, e.data] async for e in switch.read(entries)])
with Network(Line(switches=1), run, program=SOURCE) as net:
    async with connection(net, "s1") as switch:
        left, port = [], net.port("s1", "h2")
        for changes in ({}, {"depth": 3, "rate_pps": 4}):
            net.switch("s1").set_queue(port, **changes)
            start_ns = run.clock.now_ns() + 200_000_000
            # bmv2 queues the first packet, too, until its egress thread runs: it leaves alone.
            times_ns = [start_ns] + [start_ns + 100_000_000] * 29
            net.send_frames("h1", times_ns, [bytes(60)] * 30)
            await run.clock.sleep_until(start_ns + 1_200_000_000)  # until all that wait have left
            counters = net.switch("s1").read_counters()["ports"][str(port)]
            left.append(counters["transmitted_packets"])
            await look("packets", "below", "wide")
        await switch.write([~fy.P4RegisterEntry("packets", index=3, data=2**32 - 1),
                            ~fy.P4RegisterEntry("below", data=-100)])
        await look("packets", "below")
return Report([], [Check("there", 1, 1)], metrics={"seen": seen, "left": left})
"""


PROBLEM = ThriftCalls().missing


@pytest.mark.skipif(PROBLEM is not None, reason=str(PROBLEM))
def test_registers_and_queues_are_the_same_on_both_targets(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    found: dict[str, Any] = {}
    for target in ("minip4", "bmv2"):
        out = tmp_path / target
        process = start_experiment(BODY, "--target", target, "--out", str(out), head=HEAD)
        output, errors = process.communicate()
        assert process.returncode == 0, output + errors
        found[target] = json.loads((out / "summary.json").read_text())["metrics"]
    assert found["bmv2"] == found["minip4"]
    assert found["minip4"]["left"] == [30, 34]  # the first frame, and three that waited
    packets = [value for each in found["minip4"]["seen"] for *cell, value in each
               if cell == ["packets", 3]]  # fmt: skip
    assert packets == [30, 60, 2**32 - 1]
