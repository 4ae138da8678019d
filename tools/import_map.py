"""Import map of docs/explanation/architecture.md, made from the code: folders and their imports."""

import ast
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
OURS = ("minip4", "telemark", "topologies", "controllers", "collectors", "importers", "ebpf")
SCRIPTS = ("experiments", "benchmarks")


def modules() -> dict[str, Path]:
    """Return the modules and scripts of the project by dotted name.

    The name of an __init__.py is that of its package.
    """
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
    """Yield the dotted names of project modules that a module imports, also within functions."""
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
    """Return the folder of a module as a dotted name."""
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def edges() -> dict[str, set[str]]:
    """Return, for each folder, the folders that its files import from."""
    known = modules()
    folders = {module: folder(module, path) for module, path in known.items()}
    found: dict[str, set[str]] = {name: set() for name in folders.values()}
    for module, path in known.items():
        used = {folders[name] for name in imports(path, known) if name in folders}
        found[folders[module]] |= used - {folders[module]}
    return dict(sorted(found.items()))


def table() -> str:
    """Return the import map as Markdown."""
    known = modules()
    lines = ["| folder | content | imports from |", "|---|---|---|"]
    for name, used in edges().items():
        if name not in known:  # folders of scripts are not packages
            continue
        content = (ast.get_docstring(ast.parse(known[name].read_text())) or "").partition("\n")[0]
        names = ", ".join(f"`{each.replace('.', '/')}`" for each in sorted(used))
        lines.append(f"| `{name.replace('.', '/')}/` | {content.rstrip('.')} | {names} |")
    return "\n".join(lines)
