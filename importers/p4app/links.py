"""The links of a p4app.json during reading, and the order in which p4-utils processes them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from telemark.errors import TestbedError


@dataclass
class End:
    """An end of a link; None fields are assigned later."""

    node: str
    port: int | None = None
    mac: str | None = None
    address: str | None = None  # "10.0.1.1/24"; a switch's is known only to its neighbour


@dataclass
class P4AppLink:
    """A link, with properties named as in telemark.topology.links."""

    one: End
    two: End
    properties: Mapping[str, Any] = field(default_factory=dict)

    def ends(self) -> tuple[tuple[End, End], tuple[End, End]]:
        """Each end, with the opposite end."""
        return (self.one, self.two), (self.two, self.one)


def natural_key(name: str) -> list[str | int]:
    """Return a sorting key by which s10 follows s9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def sort_by_names(links: Iterable[P4AppLink]) -> list[P4AppLink]:
    """Order links as p4-utils numbers ports and assigns addresses without a strategy."""
    return sorted(links, key=lambda each: (natural_key(each.one.node), natural_key(each.two.node)))


def sort_by_nodes(links: Iterable[P4AppLink]) -> Iterator[P4AppLink]:
    """Order links as strategies process them: Mininet's graph lists nodes in the order in which
    links first name them, and each link only at the node whose name sorts first.
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
    """Number the unnumbered ports of switches: the lowest free number, from 1.

    Raises TestbedError for a port that was given twice.
    """
    ordered = sort_by_names(links)
    taken: dict[str, set[int]] = {name: set() for name in switches}
    ends = [end for link in ordered for end in (link.one, link.two) if end.node in taken]
    for end in ends:
        if end.port in taken[end.node]:
            raise TestbedError(f"switch {end.node}: port {end.port} is given to two links")
        if end.port is not None:
            taken[end.node].add(end.port)
    for end in ends:
        if end.port is None:
            end.port = next(n for n in range(1, len(ends) + 2) if n not in taken[end.node])
            taken[end.node].add(end.port)
