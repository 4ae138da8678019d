"""Indented code blocks of all pages: their scripts, options, imports and calls exist.

Other tests execute fenced blocks.
"""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import import_map
import pytest

from telemark.run_all.up_to_date import code_files

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "results/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"(?<=\n\n)(?:    .*\n(?:\n(?=    ))?)+")
# tests/docs/test_* execute the fenced blocks of these pages.
EXECUTED = {
    "controllers.md",
    "minip4.md",
    "networks.md",
    "own-program.md",
    "p4-course.md",
    "run-experiments.md",
    "tofino-programs.md",
}
SCRIPT = re.compile(
    r"(?<![\w/])(?:\./)?((?:experiments|benchmarks|docs|collectors|tools)/[\w/]+\.py|\w+\.sh)\b"
)
NAMED = re.compile(
    r"`((?:p4src|topologies|controllers|collectors|ebpf|experiments|importers|telemark|minip4"
    r"|benchmarks|tools|tests|docs)/[\w./-]+\.\w+)`"
)
OPTION = re.compile(r" (--[a-z][a-z0-9-]*)")
YOURS = {
    "experiments/mine.py",
    "experiments/triangle.py",
    "experiments/x.py",
    "experiments/mine.p4",
}  # names that the reader defines


def blocks(page: Path) -> list[str]:
    return [textwrap.dedent(text) for text in BLOCK.findall(FENCED.sub("", page.read_text()))]


def commands() -> Iterator[tuple[str, Path]]:
    """Yield each line that runs a script of the project, without its comment, and this script."""
    for page in PAGES:
        for line in "\n".join(blocks(page)).splitlines():
            command = line.partition("#")[0]
            if " --> " not in line and (found := SCRIPT.search(command)) and found[1] not in YOURS:
                yield command, ROOT / found[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fenced_blocks_have_a_test_that_executes_them(page: Path) -> None:
    assert not FENCED.search(page.read_text()) or page.name in EXECUTED


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    named = {*NAMED.findall(page.read_text())} - YOURS - {"experiments/NAME.py"}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(("command", "script"), [*commands()])
def test_commands_name_existing_scripts_and_options(command: str, script: Path) -> None:
    assert script.is_file(), command
    sources = (
        [script] if script.suffix == ".sh" else [p for p in code_files(script) if p.suffix == ".py"]
    )
    if script.name == "run_all.sh":
        sources += [
            *(ROOT / "telemark" / "run_all").glob("*.py"),
            ROOT / "telemark" / "session" / "cli.py",
        ]
    known = "".join(source.read_text() for source in sources)
    for option in OPTION.findall(command.partition(script.name)[2]):
        assert re.search(rf"{option}\b", known), f"{command}: {option}"


def python_blocks() -> list[str]:
    """Return the blocks that are Python with a call or an import."""
    found = []
    for page in PAGES:
        for block in blocks(page):
            try:
                nodes = [*ast.walk(ast.parse(block))]
            except SyntaxError:
                continue
            if any(isinstance(node, ast.Call | ast.ImportFrom) for node in nodes):
                found.append(block)
    return found


@cache
def definitions() -> dict[str, list[str]]:
    """Return the modules that define each class and function of the project, by name."""
    found: dict[str, list[str]] = {}
    for module, path in import_map.modules().items():
        if module.split(".")[0] in import_map.OURS:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    found.setdefault(node.name, []).append(module)
    return found


def takes(callee: Any, call: ast.Call) -> bool:
    """Return whether a callable accepts the arguments of a call."""
    keywords = {each.arg: None for each in call.keywords if each.arg}
    try:
        inspect.signature(callee).bind_partial(*[None] * len(call.args), **keywords)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("block", python_blocks(), ids=lambda block: block.partition("\n")[0][:40])
def test_python_imports_and_calls_exist(block: str) -> None:
    tree = ast.parse(block)
    names: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            for alias in node.names:
                names[alias.asname or alias.name] = getattr(module, alias.name)
    checked = len(names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            modules = map(importlib.import_module, definitions().get(name, []))
            callees = [names[name]] if name in names else [getattr(m, name) for m in modules]
            callees = [each for each in callees if not getattr(each, "_is_protocol", False)]
            assert not callees or any(takes(callee, node) for callee in callees), ast.unparse(node)
            checked += bool(callees)
    assert checked, "no name in this block belongs to the project: it cannot be checked"
