"""The programs of this repository compile without warnings."""

import re
from pathlib import Path

import pytest

from minip4.compiler import compile_p4

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("p4src", "benchmarks", "telemark", "docs")
PROGRAMS = sorted(
    path
    for folder in FOLDERS
    for path in (REPOSITORY / folder).rglob("*.p4")
    if re.search(r"^V1Switch\(", path.read_text(), re.MULTILINE)
)
MANUALS = sorted((REPOSITORY / "docs").rglob("*.md"))
EXAMPLE = re.compile(r"^```p4 (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_no_program_is_warned_of_anything(program: Path) -> None:
    assert [str(warning) for warning in compile_p4(program).warnings] == []


def test_no_example_is_warned_of_anything(tmp_path: Path) -> None:
    examples = [found for path in MANUALS for found in EXAMPLE.findall(path.read_text())]
    assert examples, "docs/reference/minip4.md has one"
    for name, text in examples:
        (tmp_path / name).write_text(text)
        assert [str(warning) for warning in compile_p4(tmp_path / name).warnings] == []


def test_all_of_them_are_looked_at() -> None:
    names = {str(path.relative_to(REPOSITORY)) for path in PROGRAMS}
    assert {
        "p4src/ampm/ampm.p4",
        "docs/examples/sources.p4",
        "benchmarks/speed/p4/ipv4_lpm.p4",
        "telemark/backends/real/targets/panel.p4",
    } <= names
