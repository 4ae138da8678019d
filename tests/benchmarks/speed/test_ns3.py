"""The benchmark ns3.py: its error without ns-3, its input for ns-3, and with ns-3 a small run."""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from telemark.errors import TestbedError
from topologies.leaf_spine import LeafSpine

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "speed" / "ns3.py"
OUTPUT = "received 10\nhops 43\nset_up_s 0.25\ntook_s 2.5e-05\nmemory_mb 22.9\nhas_log 0\n"
HAS_NS3 = not subprocess.run(["sh", "-c", "pkg-config --exists ns3-internet && command -v c++"],
                             capture_output=True, check=False).returncode  # fmt: skip


@pytest.fixture
def ns3(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import ns3  # noqa: PLC0415

    return ns3


def run(out: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, "--out", str(out), *options], capture_output=True, text=True,
        check=False, timeout=300, env={**os.environ, **environment},
    )  # fmt: skip


def test_without_ns3_the_error_has_a_remedy(tmp_path: Path) -> None:
    nowhere = {"PKG_CONFIG_LIBDIR": "/nowhere", "PKG_CONFIG_PATH": "/nowhere"}
    done = run(tmp_path, "--time", "virtual", **nowhere)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("ns3: error: ns-3 was not found by pkg-config: apt install libns3-dev")
    assert "PKG_CONFIG_PATH" in line
    assert not (tmp_path / "summary.json").exists()


def test_the_output_of_ns3_is_parsed(ns3: ModuleType) -> None:
    assert ns3.parse_outcome(OUTPUT) == ns3.Outcome(10, 43, 0.25, 2.5e-05, 22.9, 0)


@pytest.mark.parametrize(
    "output",
    ["", "received 10\n", OUTPUT + "more 1\n", OUTPUT.replace("43", "many"), OUTPUT + "hops\n"],
)
def test_other_output_is_refused(ns3: ModuleType, output: str) -> None:
    with pytest.raises(TestbedError, match="ns-3: cannot parse its output"):
        ns3.parse_outcome(output)


def test_the_description_of_a_fabric_is_complete(ns3: ModuleType) -> None:
    topo = LeafSpine(pods=2, leaves=2, spines=2, cores=1, **ns3.LINK)
    options = argparse.Namespace(flows=50, packets=7)
    flows = ns3.make_flows(topo, options, 1)
    lines = [line.split() for line in ns3.describe(topo, flows)]
    assert Counter(line[0] for line in lines) == {
        "router": 10, "host": 4, "link": 8 + 4 + 4, "route": 4 + 4 + 4 + 4 * 3 + 2 * 2, "flow": 50,
    }  # fmt: skip
    several = [line[1:] for line in lines if line[0] == "route" and len(line) > 5]
    assert [line[1:] for line in several] == [["0.0.0.0", "0", "2", "3"]] * 2 + [
        ["0.0.0.0", "0", "6", "7"]
    ] * 2  # leaves send upwards over all their spines
    nodes = [line for line in lines if line[0] in ("router", "host")]
    assert lines[: len(nodes)] == nodes  # nodes are numbered before other lines refer to them
    for flow, line in zip(flows, lines[-50:], strict=True):
        address = topo.nodeInfo(flow.destination)["ip"].split("/")[0]
        assert nodes[int(line[2])] == ["host", address]
        assert line[3:] == [str(round(flow.after_s * 1e9)), "10000000", "7", "22"]
    for a, b, rate_bps, delay_ns in (line[1:] for line in lines if line[0] == "link"):
        is_between_switches = int(a) < 10 and int(b) < 10
        assert (rate_bps, delay_ns) == ("100000000000", "5000" if is_between_switches else "0")


def test_every_route_leads_home(ns3: ModuleType) -> None:
    """Each host reaches each other host over at most five switches, by any choice of next hops."""
    topo = LeafSpine(pods=2, leaves=2, spines=2, cores=1, **ns3.LINK)
    lines = [line.split() for line in ns3.describe(topo, [])]
    hosts = {number: line[1] for number, line in enumerate(lines) if line[0] == "host"}
    routes = [(int(line[1]), bits(line[2]), int(line[3]), [int(hop) for hop in line[4:]])
              for line in lines if line[0] == "route"]  # fmt: skip

    def hops(node: int, target: int, left: int) -> None:
        if node == target:
            return
        assert left > 0
        address = bits(hosts[target])
        matching = [(length, to) for at, prefix, length, to in routes
                    if at == node and (address ^ prefix) >> (32 - length) == 0]  # fmt: skip
        for to in max(matching)[1]:
            hops(to, target, left - 1)

    for source in hosts:
        for target in hosts:
            hops(source, target, 6)


def bits(address: str) -> int:
    return int.from_bytes(bytes(map(int, address.split("."))), "big")


@pytest.mark.skipif(not HAS_NS3, reason="no ns-3, or no C++ compiler")
def test_both_deliver_the_same(tmp_path: Path) -> None:
    done = run(tmp_path, "--time", "virtual", "--quick", "--switches", "10", "30", "--flows", "500",
               "--packets", "10")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert len(summary["checks"]) == 6
    assert all(check["measured"] >= 5000 for check in summary["checks"])
    assert summary["metrics"]["times ns-3"].keys() == {"10", "30"}
