#!/usr/bin/env python
"""Writes the map of folders and imports into architecture.md: made from the code.

Usage: .venv/bin/python tools/import_map.py
"""

import ast
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- The map: made by tools/import_map.py, from the code. -->"
END = "<!-- The map ends. -->"
OURS = ("minip4", "telemark", "topologies", "controllers", "collectors", "importers", "ebpf")
SCRIPTS = ("experiments", "benchmarks")


def modules() -> dict[str, Path]:
    """Our modules and scripts, by their dotted names; a package's own file has its package's."""
    found = {}
    for top in (*OURS, *SCRIPTS):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def _imports_of(path: Path) -> list[ast.AST]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path, known: Collection[str]) -> Iterator[str]:
    """What a module imports of ours, by the dotted names that are known, wherever that stands."""
    for node in _imports_of(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            joined = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in joined]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] in (*OURS, *SCRIPTS))


def folder(module: str, path: Path) -> str:
    """The folder that a module lies in, as a dotted name."""
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def edges() -> dict[str, set[str]]:
    """For each of our folders, those whose files its files import."""
    known = modules()
    folders = {module: folder(module, path) for module, path in known.items()}
    found: dict[str, set[str]] = {name: set() for name in folders.values()}
    for module, path in known.items():
        used = {folders[name] for name in imports(path, known) if name in folders}
        found[folders[module]] |= used - {folders[module]}
    return dict(sorted(found.items()))


def table() -> str:
    """The map, as Markdown."""
    known = modules()
    lines = ["| folder | holds | imports of |", "|---|---|---|"]
    for name, used in edges().items():
        if name not in known:  # scripts have a table of their own
            continue
        holds = (ast.get_docstring(ast.parse(known[name].read_text())) or "").partition("\n")[0]
        names = ", ".join(f"`{each.replace('.', '/')}`" for each in sorted(used))
        lines.append(f"| `{name.replace('.', '/')}/` | {holds.rstrip('.')} | {names} |")
    return "\n".join(lines)


def updated(page: str) -> str:
    """The page with the map as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
