"""Import rules of the compiler: the folders from which each of its folders may import."""

import ast
from pathlib import Path

import minip4.compiler

COMPILER = Path(minip4.compiler.__file__).parent
KNOWN = {
    "preprocess": set(),
    "parse": {"preprocess", "syntax"},
    "syntax": set(),
    "check": {"syntax"},
    "analysis": {"syntax"},
    "instances": {"syntax"},
    "ir": set(),
    "lower": {"instances", "ir", "syntax"},
    # it reads tna.p4 for a program with its own copy
    "tna": {"analysis", "instances", "ir", "lower", "parse", "preprocess", "syntax"},
    "bmv2": {"ir"},
    "p4info": {"instances", "syntax"},
}


def imported(path: Path) -> set[str]:
    """Return the folders of the compiler from which a module imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    parts = [name.split(".") for name in names if name.startswith("minip4.compiler.")]
    return {part[2] for part in parts if (COMPILER / part[2]).is_dir()}


def test_folders_know_only_those_before_them() -> None:
    folders = {path.name for path in COMPILER.iterdir() if list(path.glob("*.py"))}
    assert folders == set(KNOWN)
    for folder, known in KNOWN.items():
        for path in (COMPILER / folder).rglob("*.py"):
            assert imported(path) - {folder} <= known, path
