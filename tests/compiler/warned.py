"""Returns the warnings of a program, and the location that its text marks."""

from programs_to_check import check


def warned_at(marked: str) -> tuple[list[tuple[str, int, int]], tuple[int, int]]:
    """Return kind, line and column of each warning. Also return the line and column of `§`."""
    before = marked[: marked.index("§")]
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    warnings = check(marked.replace("§", "")).warnings
    return [(w.kind, w.source.line, w.source.column) for w in warnings], place
