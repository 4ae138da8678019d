"""Loops in graphs that packets traverse: parser states, and nodes of a pipeline."""

from collections.abc import Iterable, Iterator, Mapping


def looping(graph: Mapping[str, set[str]]) -> set[str]:
    """Return the nodes that a path may visit more than once.

    `graph` maps each node to its successors.

    The result consists of the strongly connected components with an inner edge (Kosaraju's
    algorithm).
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
    """Return the depth-first search trees of the roots in postorder, without recursion."""
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
