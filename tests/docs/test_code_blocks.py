"""Indented blocks of all pages: what a command names is there, and so is what Python calls.

Fenced blocks are run whole, each by its page's own test.
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
PAGES = [ROOT / "README.md", ROOT / "results" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"(?<=\n\n)(?:    .*\n(?:\n(?=    ))?)+")
# By tests/docs/test_*.
RUN_WHOLE = {"README.md", "controllers.md", "minip4.md", "networks.md", "scaling.md"}
OURS = re.compile(
    r"(?<![\w/])(?:\./)?((?:experiments|benchmarks|docs|collectors)/[\w/]+\.py|\w+\.sh)\b"
)
OPTION = re.compile(r" (--[a-z][a-z0-9-]*)")
YOURS = {"experiments/mine.py", "experiments/x.py"}


def blocks(page: Path) -> list[str]:
    return [textwrap.dedent(text) for text in BLOCK.findall(FENCED.sub("", page.read_text()))]


def commands() -> Iterator[tuple[str, Path]]:
    """Lines that run a script of ours, without comments; and the script."""
    for page in PAGES:
        for line in "\n".join(blocks(page)).splitlines():
            command = line.partition("#")[0]
            if " --> " not in line and (found := OURS.search(command)) and found[1] not in YOURS:
                yield command, ROOT / found[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fenced_blocks_have_a_test_that_runs_them(page: Path) -> None:
    assert not FENCED.search(page.read_text()) or page.name in RUN_WHOLE


@pytest.mark.parametrize(("command", "script"), [*commands()])
def test_commands_name_scripts_and_options_that_are_there(command: str, script: Path) -> None:
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
    """Blocks that are Python, and call something or import it."""
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
    """Modules of our classes and functions, by their names."""
    found: dict[str, list[str]] = {}
    for module, path in import_map.modules().items():
        if module.split(".")[0] in import_map.OURS:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    found.setdefault(node.name, []).append(module)
    return found


def takes(callee: Any, call: ast.Call) -> bool:
    """Whether it can be called so."""
    keywords = {each.arg: None for each in call.keywords if each.arg}
    try:
        inspect.signature(callee).bind_partial(*[None] * len(call.args), **keywords)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("block", python_blocks(), ids=lambda block: block.partition("\n")[0][:40])
def test_python_names_and_calls_what_is_there(block: str) -> None:
    tree = ast.parse(block)
    names: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            for alias in node.names:
                names[alias.asname or alias.name] = getattr(module, alias.name)
    looked_at = len(names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            modules = map(importlib.import_module, definitions().get(name, []))
            callees = [names[name]] if name in names else [getattr(m, name) for m in modules]
            callees = [each for each in callees if not getattr(each, "_is_protocol", False)]
            assert not callees or any(takes(callee, node) for callee in callees), ast.unparse(node)
            looked_at += bool(callees)
    assert looked_at, "nothing in it is ours: can it be wrong?"
