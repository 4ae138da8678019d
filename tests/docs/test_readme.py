"""The program and the commands in README.md and in the tutorial on own programs work."""

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from terminal import Terminal

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TUTORIAL = (ROOT / "docs" / "tutorials" / "own-program.md").read_text()
FILES = dict(re.findall(r"^```\w+ (mine\.\w+)\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL))
TYPED = re.findall(r"^    mininet> (.*)$", TUTORIAL, re.MULTILINE)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder that contains the files of the tutorial."""
    (tmp_path / "experiments").mkdir()
    for name, text in FILES.items():
        (tmp_path / "experiments" / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "experiments"))
    return tmp_path


def test_readme_is_short_and_quotes_the_tutorial() -> None:
    assert len(README.splitlines()) <= 120
    (excerpt,) = re.findall(r"^    flow = Flow.*?(?=^\S)", README, re.MULTILINE | re.DOTALL)
    code = [line for line in textwrap.dedent(FILES["mine.py"]).splitlines() if line]
    quoted = [line for line in excerpt.splitlines() if line]
    assert len(quoted) > 5
    assert all(line in code for line in quoted)


def test_program_has_the_stated_length() -> None:
    assert {*FILES} == {"mine.p4", "mine.py"}
    for text in FILES.values():
        assert sum(bool(line.strip()) for line in text.splitlines()) <= 30


def test_program_and_its_captures_in_virtual_time(checkout: Path) -> None:
    script = "experiments/mine.py"
    commands = re.findall(
        rf"^    python {script} (--time virtual.*?)(?: +#.*)?$", TUTORIAL, re.MULTILINE
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
    (tshark,) = re.findall(r"^    (tshark .*)$", TUTORIAL, re.MULTILINE)
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed: the captures were not checked")
    seen = subprocess.run(tshark.split(), cwd=checkout, capture_output=True, text=True, check=True)
    assert seen.stdout.count("10.0.0.1 → 10.0.0.2") == 3


def test_command_line_in_real_time(checkout: Path) -> None:
    terminal = Terminal(checkout, "experiments/mine.py")
    try:
        ping, tables, last = TYPED
        assert "1 received" in terminal.do(ping)
        output = terminal.do(tables)
        assert "table MyIngress.hosts: 2 of 1024 entries" in output
        assert "sent_to" in output
        assert last == "exit"
        terminal.leave()
    finally:
        terminal.kill()
