"""Loops in the graphs that a packet walks: parser states, and the nodes of a pipeline."""

from collections.abc import Mapping


def looping(graph: Mapping[str, set[str]]) -> set[str]:
    """The nodes that a walk may come to more than once; `graph` has each node's successors."""
    reach = {name: set(after) for name, after in graph.items()}
    changed = True
    while changed:
        changed = False
        for after in reach.values():
            more = set().union(*(reach[n] for n in after)) - after
            after |= more
            changed |= bool(more)
    return {name for name, after in reach.items() if name in after}
