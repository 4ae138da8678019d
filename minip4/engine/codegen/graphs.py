"""Loops in the graphs that a packet walks: parser states, and the nodes of a pipeline."""

from collections.abc import Iterable, Iterator, Mapping


def looping(graph: Mapping[str, set[str]]) -> set[str]:
    """The nodes that a walk may come to more than once; `graph` has each node's successors.

    Those are the strongly connected components that have an edge inside (Kosaraju's algorithm).
    """
    back: dict[str, set[str]] = {name: set() for name in graph}
    for name, successors in graph.items():
        for successor in successors:
            back[successor].add(name)
    finished = [name for tree in _trees(graph, graph) for name in tree]
    return {
        name
        for component in _trees(back, reversed(finished))
        for name in component
        if len(component) > 1 or name in graph[name]
    }


def _trees(graph: Mapping[str, set[str]], roots: Iterable[str]) -> Iterator[list[str]]:
    """What each root reaches first, depth first, in the order of leaving; graphs may be deep."""
    seen: set[str] = set()
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        left: list[str] = []
        way = [(root, iter(graph[root]))]
        while way:
            name, ahead = way[-1]
            following = next((n for n in ahead if n not in seen), None)
            if following is None:
                left.append(name)
                way.pop()
            else:
                seen.add(following)
                way.append((following, iter(graph[following])))
        yield left
