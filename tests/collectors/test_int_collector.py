"""The collector as an application, in real and virtual time."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from decoding import datagrams
from loaded import StartExperiment
from path_reports import alone

from collectors.int.application import OTHERS, PORT, Collector, Findings, Limits
from collectors.int.decoder import Encoding

HEAD = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1] / "telemark")]!r}
from decoding import ENCODING
from path_reports import DROPPED, TRACKED, Reporter, alone, stacked
from applications import until_left
from virtual_networks import Pair, WIRE
from collectors.int.application import PORT, Collector
from telemark.network import Network
"""
# Both nodes report forty packets; one packet is dropped, one report is lost, one datagram is
# invalid.
BODY = """
payloads = []
for n in range(40):
    payloads += [alone(5, n, ttl=64, number=n, ingress=10 * n, egress=10 * n + 3),
                 alone(6, n, ttl=63, number=n, ingress=10 * n + 5, egress=10 * n + 6)]
payloads[-1] = alone(6, 39, ttl=63, number=39, ingress=395, flags=DROPPED | TRACKED)
del payloads[20]
payloads.append(b"nothing")
with Network(Pair(), run, program=WIRE) as net:
    collector = net.run_application("h2", Collector(ENCODING, hold_us=5000))
    net.run_application("h1", Reporter(payloads, net.host("h2").IP(), PORT, 1_000_000))
    await until_left(net, run, "s2", "h2", len(payloads))
found = collector.result
[flow] = found.flows
return Report(samples=[], checks=[], metrics={
    "counts": [found.datagrams, found.reports, found.hops, int(flow["reports"])],
    "path": flow["path"]["node"][:flow["hops"]].tolist(),
    "paths": int(flow["paths"]), "changes": int(flow["changes"]), "partial": int(flow["partial"]),
    "link": flow["path"]["link_ns"][1].tolist(),
    "gaps": [[int(g["node"]), int(g["first"]), int(g["count"])] for g in found.gaps],
    "drops": [[*kind, count] for kind, count in found.drops.items()],
    "parse_errors": {status.name: count for status, count in found.parse_errors.items()},
    "aside": found.aside[0].payload.decode(), "overflow": sum(found.overflow.values())})
"""


@pytest.mark.parametrize("time", ["virtual", "real"])
def test_a_collector_finds_the_same_in_real_and_virtual_time(
    start_experiment: StartExperiment, tmp_path: Path, time: str
) -> None:
    process = start_experiment(BODY, "--time", time, "--out", str(tmp_path / "out"), head=HEAD)
    output, errors = process.communicate()
    assert process.returncode in (0, 1), output + errors
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["metrics"] == {
        "counts": [80, 79, 79, 79], "path": [5, 6], "paths": 39, "changes": 0, "partial": 1,
        "link": [39, 78, 2, 2, 2], "gaps": [[5, 10, 1]], "drops": [[6, 0, 1]],
        "parse_errors": {"GROUP_HEADER": 1}, "aside": "nothing", "overflow": 0,
    }  # fmt: skip


class Still:
    """Stand-in for a host. Its time does not advance, and no packet arrives."""

    display = None

    def now_ns(self) -> int:
        return 0

    def udp(self, port: int, callback: Callable[..., None], *, hold_us: float) -> None:
        assert (port, hold_us) == (PORT, 1000)

    def publish_metrics(self, system: str, collect: Callable[..., object]) -> None:
        pass


def test_drops_are_counted_by_node_and_reason_and_no_further_than_to_a_limit() -> None:
    collector = Collector(Encoding(), limits=Limits(sources=10))
    collector.start(Still())
    collector.on_datagrams(datagrams([alone(node, 1, flags=8) for node in (*range(30), 3, 3)]))
    found: Findings = collector.result()
    assert found.drops[3, 0] == 3
    assert found.drops[OTHERS] == 20
    assert len(found.drops) == 11
