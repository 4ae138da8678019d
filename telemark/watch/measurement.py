"""Messages about a running network: its nodes and links, and the counters of its switches."""

from collections.abc import Iterable, Mapping
from typing import Any

from mininet.topo import Topo

from telemark.backends.real.targets.bmv2_counters import with_inner_counts
from telemark.topology import links


def started(name: str, topo: Topo, switches: Iterable[Any], began_ns: int) -> dict[str, Any]:
    """Return the message about a network that has started.

    `switches` are those whose counters the server process reads from their control sockets. The
    page shows `began_ns` as time 0.
    """
    control, target = {}, "minip4"
    for switch in switches:
        control[switch.name], target = str(switch.control_path), switch.target
    network = describe(name, topo, target)
    return {"network": network, "control": control, "began_ns": began_ns}


def describe(name: str, topo: Topo, target: str = "minip4") -> dict[str, Any]:
    """Describe the nodes of a network, and both directions of each link.

    Only switches limit the rate of a direction, so directions from hosts have no `rate_bps`.
    """
    directions = []
    for _, _, params in topo.links(sort=True, withInfo=True):
        nodes, ports = (params["node1"], params["node2"]), (params["port1"], params["port2"])
        given = {k: v for k, v in params.items() if k not in ("node1", "node2")}
        properties = links.of_ends(*nodes, given)
        for near, far in ((0, 1), (1, 0)):
            is_from_switch = topo.isSwitch(nodes[near])
            directions.append({
                "from": nodes[near], "from_port": ports[near],
                "to": nodes[far], "to_port": ports[far],
                "rate_bps": properties[near].get("rate_bps") if is_from_switch else None,
            })  # fmt: skip
    nodes_of_net = [{"name": node, "is_switch": topo.isSwitch(node)} for node in topo.nodes()]
    return {
        "name": name, "target": target, "nodes": nodes_of_net, "directions": directions,
    }  # fmt: skip


def measure(
    network: Mapping[str, Any], counters: Mapping[str, Mapping[str, Any]], time_ns: int
) -> dict[str, Any]:
    """Return the part of the switches' counters that the page shows.

    `network` is from describe(). `directions` has one object per direction, in the same order.
    """
    drops = _bmv2_drops if network["target"] == "bmv2" else _engine_drops
    return {
        "time_ns": time_ns,
        "directions": [_direction(each, counters) for each in network["directions"]],
        "drops": {name: drops(each) for name, each in counters.items()},
    }


def _engine_drops(counters: Mapping[str, Any]) -> dict[str, int]:
    return {key: count for key, count in counters["engine"].items() if key.endswith("_drops")}


def _bmv2_drops(counters: Mapping[str, Any]) -> dict[str, int]:
    """Return the frames in bmv2 or dropped by it. The engine is that of the panel."""
    return {"bmv2_drops": with_inner_counts(counters)["other_ports"]["bmv2"]["drops"]["bmv2"]}


def _direction(
    direction: Mapping[str, Any], counters: Mapping[str, Mapping[str, Any]]
) -> dict[str, int]:
    """Return the counters of one direction. From a host, the next switch counts only `bytes`."""
    if direction["from"] not in counters:
        if direction["to"] not in counters:
            return {"bytes": 0}
        receiver = counters[direction["to"]]["ports"][str(direction["to_port"])]
        return {"bytes": receiver["received_bytes"]}
    port = counters[direction["from"]]["ports"][str(direction["from_port"])]
    link = port["link"]  # its counters are 0 for a link without properties
    return {
        "bytes": port["transmitted_bytes"] - link["sent_bytes"] + link["delivered_bytes"],
        "lost": link["lost_packets"],
        "queued": port["enqueued_now"],
        "on_link": link["sent_packets"] - link["delivered_packets"] - link["lost_packets"],
        "queue_drops": port["queue_drops"],
    }
