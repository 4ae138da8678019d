"""Links of a p4app.json, and the order in which p4-utils processes them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from telemark.errors import TestbedError


@dataclass
class End:
    """An end of a link. Fields that are None are assigned later."""

    node: str
    port: int | None = None
    mac: str | None = None
    # e.g. "10.0.1.1/24"; the address of a switch port is used only by the neighbour
    address: str | None = None


@dataclass
class P4AppLink:
    """A link. Its properties have the names of telemark.topology.links."""

    one: End
    two: End
    properties: Mapping[str, Any] = field(default_factory=dict)

    def ends(self) -> tuple[tuple[End, End], tuple[End, End]]:
        """Both ends of the link, each in a pair with the opposite end."""
        return (self.one, self.two), (self.two, self.one)


def natural_key(name: str) -> list[str | int]:
    """Return a sort key that puts s10 after s9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def sort_by_names(links: Iterable[P4AppLink]) -> list[P4AppLink]:
    """Sort links in the order in which p4-utils assigns port numbers.

    Without a strategy, p4-utils also assigns addresses in this order.
    """
    return sorted(links, key=lambda each: (natural_key(each.one.node), natural_key(each.two.node)))


def sort_by_nodes(links: Iterable[P4AppLink]) -> Iterator[P4AppLink]:
    """Sort links in the order in which the address strategies process them.

    The order is that of Mininet's graph, whose nodes are in the order in which they first occur in
    links. A link belongs to the node whose name sorts first.
    """
    graph: dict[str, dict[str, list[P4AppLink]]] = {}
    for link in links:
        one, two = link.one.node, link.two.node
        graph.setdefault(one, {})
        graph.setdefault(two, {})
        shared = graph[one].setdefault(two, [])
        graph[two][one] = shared
        shared.append(link)
    for node, neighbours in graph.items():
        for neighbour, between in neighbours.items():
            if node <= neighbour:
                yield from between


def number_ports(links: Iterable[P4AppLink], switches: Mapping[str, object]) -> None:
    """Assign numbers to switch ports that have none: the lowest free numbers, from 1 on.

    Raises TestbedError if two links have the same port.
    """
    ordered = sort_by_names(links)
    taken: dict[str, set[int]] = {name: set() for name in switches}
    ends = [end for link in ordered for end in (link.one, link.two) if end.node in taken]
    for end in ends:
        if end.port in taken[end.node]:
            raise TestbedError(f"switch {end.node}: port {end.port} has two links")
        if end.port is not None:
            taken[end.node].add(end.port)
    for end in ends:
        if end.port is None:
            end.port = next(n for n in range(1, len(ends) + 2) if n not in taken[end.node])
            taken[end.node].add(end.port)
