"""README.md: its program and its tour do what it says, and its tables are those of the scripts."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import experiment_tables
import pytest
from terminal import Terminal

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
FILES = dict(re.findall(r"^```\w+ (mine\.\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
TYPED = re.findall(r"^    mininet> (.*)$", TEXT, re.MULTILINE)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which README's files are where it says."""
    (tmp_path / "experiments").mkdir()
    for name, text in FILES.items():
        (tmp_path / "experiments" / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "experiments"))
    return tmp_path


def test_the_program_is_no_longer_than_it_is_said_to_be() -> None:
    assert {*FILES} == {"mine.p4", "mine.py"}
    for text in FILES.values():
        assert sum(bool(line.strip()) for line in text.splitlines()) <= 30


def test_own_program_and_its_captures_in_virtual_time(checkout: Path) -> None:
    script = "experiments/mine.py"
    commands = re.findall(
        rf"^    python {script} (--time virtual.*?)(?: +#.*)?$", TEXT, re.MULTILINE
    )
    assert commands == ["--time virtual", "--time virtual --keep"]
    done = subprocess.run(
        [sys.executable, script, *commands[-1].split(), "--out", "results/mine"],
        cwd=checkout, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (checkout / "results" / "mine" / "samples.csv").read_text().split() == [
        "received,counted", "500,500",
    ]  # fmt: skip
    (tshark,) = re.findall(r"^    (tshark .*)$", TEXT, re.MULTILINE)
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed: the captures were not looked at")
    seen = subprocess.run(tshark.split(), cwd=checkout, capture_output=True, text=True, check=True)
    assert seen.stdout.count("10.0.0.1 → 10.0.0.2") == 3


def test_the_tour_in_real_time(checkout: Path) -> None:
    terminal = Terminal(checkout, "experiments/mine.py")
    try:
        ping, tables, last = TYPED
        assert "1 received" in terminal.do(ping)
        said = terminal.do(tables)
        assert "table MyIngress.hosts: 2 of 1024 entries" in said
        assert "sent_to" in said
        assert last == "exit"
        assert terminal.leave() == 0
    finally:
        terminal.kill()


@pytest.mark.parametrize("page", experiment_tables.PAGES, ids=lambda page: page.name)
def test_the_tables_are_those_of_the_scripts(page: Path) -> None:
    assert page.read_text() == experiment_tables.updated(page), (
        "run .venv/bin/python tools/experiment_tables.py"
    )


def test_a_table_tells_of_each_experiment() -> None:
    for page in experiment_tables.PAGES:
        for script in (ROOT / "experiments").glob("[!_]*.py"):
            assert script.stem in page.read_text()
