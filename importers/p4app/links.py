"""The links of a p4app.json while it is read, and the order in which p4-utils goes through them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from telemark.errors import TestbedError


@dataclass
class End:
    """An end of a link; what is None is still to be assigned."""

    node: str
    port: int | None = None
    mac: str | None = None
    address: str | None = None  # "10.0.1.1/24"; a switch's is known to its neighbour alone


@dataclass
class Cable:
    """A link, with its properties in the words of telemark.topology.links."""

    one: End
    two: End
    properties: Mapping[str, Any] = field(default_factory=dict)

    def ends(self) -> tuple[tuple[End, End], tuple[End, End]]:
        """Each end, with the one across."""
        return (self.one, self.two), (self.two, self.one)


def natural(name: str) -> list[str | int]:
    """A sorting key by which s10 comes behind s9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def in_order_of_names(cables: Iterable[Cable]) -> list[Cable]:
    """As p4-utils numbers ports, and gives addresses that no strategy gave."""
    return sorted(cables, key=lambda each: (natural(each.one.node), natural(each.two.node)))


def in_order_of_nodes(cables: Iterable[Cable]) -> Iterator[Cable]:
    """As strategies go through links: Mininet's graph has them by nodes, each in the order in which
    links first name it, and of each link only the entry of the node whose name comes first."""
    graph: dict[str, dict[str, list[Cable]]] = {}
    for cable in cables:
        one, two = cable.one.node, cable.two.node
        graph.setdefault(one, {})
        graph.setdefault(two, {})
        shared = graph[one].setdefault(two, [])
        graph[two][one] = shared
        shared.append(cable)
    for node, neighbours in graph.items():
        for neighbour, between in neighbours.items():
            if node <= neighbour:
                yield from between


def number_ports(cables: Iterable[Cable], switches: Mapping[str, object]) -> None:
    """Give each end at a switch that has no port the lowest number from 1 that is free there.

    Raises TestbedError for a port that was given twice.
    """
    ordered = in_order_of_names(cables)
    taken: dict[str, set[int]] = {name: set() for name in switches}
    ends = [end for cable in ordered for end in (cable.one, cable.two) if end.node in taken]
    for end in ends:
        if end.port in taken[end.node]:
            raise TestbedError(f"switch {end.node}: port {end.port} is given to two links")
        if end.port is not None:
            taken[end.node].add(end.port)
    for end in ends:
        if end.port is None:
            end.port = next(n for n in range(1, len(ends) + 2) if n not in taken[end.node])
            taken[end.node].add(end.port)
