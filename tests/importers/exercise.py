"""A small exercise in the format of p4lang/tutorials. Tests modify it."""

import json
import shutil
from pathlib import Path
from typing import Any

GATE = Path(__file__).parent / "programs" / "gate.p4"
MACS = {"h1": "08:00:00:00:01:11", "h2": "08:00:00:00:02:22"}


def host(number: int) -> dict[str, Any]:
    """Return the description of a host: h1 has address 10.0.1.1 and gateway 10.0.1.10, and so on.

    The MAC address of the gateway belongs to no interface.
    """
    gateway = f"10.0.{number}.{number}0"
    return {
        "ip": f"10.0.{number}.{number}/24",
        "mac": MACS[f"h{number}"],
        "commands": [
            f"route add default gw {gateway} dev eth0",
            f"arp -i eth0 -s {gateway} 08:00:00:00:0{number}:00",
        ],
    }


def topology() -> dict[str, Any]:
    """Return the description of h1 - s1 - s2 - h2, with explicit, non-consecutive ports."""
    return {
        "hosts": {"h1": host(1), "h2": host(2)},
        "switches": {"s1": {"runtime_json": "net/s1.json"}, "s2": {"runtime_json": "net/s2.json"}},
        "links": [["h1", "s1-p3"], ["s1-p7", "s2-p5"], ["h2", "s2-p2"]],
    }


def runtime(ports: dict[str, int]) -> dict[str, Any]:
    """Return routes to both hosts, by the given ports."""
    routes = [
        {
            "table": "GateIngress.routes",
            "match": {"hdr.ipv4.dst": [f"10.0.{number}.0", 24]},
            "action_name": "GateIngress.forward",
            "action_params": {"mac": MACS[f"h{number}"], "port": ports[f"h{number}"]},
        }
        for number in (1, 2)
    ]
    return {"target": "bmv2", "p4info": "build/gate.p4.p4info.txtpb",
            "bmv2_json": "build/gate.json", "table_entries": routes}  # fmt: skip


def write(folder: Path, described: dict[str, Any], *runtimes: dict[str, Any]) -> Path:
    """Write the files; return the path of the topology, in a subfolder of the exercise."""
    (folder / "net").mkdir(parents=True, exist_ok=True)
    shutil.copy(GATE, folder)
    for number, content in enumerate(runtimes, start=1):
        (folder / "net" / f"s{number}.json").write_text(json.dumps(content))
    path = folder / "net" / "topology.json"
    path.write_text(json.dumps(described))
    return path


def whole(folder: Path) -> Path:
    """Write a complete, valid exercise."""
    return write(folder, topology(), runtime({"h1": 3, "h2": 7}), runtime({"h1": 5, "h2": 2}))
