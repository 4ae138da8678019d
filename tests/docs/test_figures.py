"""tools/figures.py: the figures of alternate marking agree with the current implementation."""

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reference" / "alternate-marking.md"
WORDS = re.compile(r"<text[^>]*>([^<]+)</text>|<tspan[^>]*>([^<]+)</tspan>")


def words(figure: Path) -> list[str]:
    """Return the texts in a figure. They include the records of each block."""
    return [first or second for first, second in WORDS.findall(figure.read_text())]


def test_figures_are_up_to_date(tmp_path: Path) -> None:
    script = DOCS.parent / "tools" / "figures.py"
    command = ["prlimit", "--cpu=60", sys.executable, str(script), str(tmp_path)]
    # a limit of CPU time suffices, because the process never sleeps
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"\(\.\./figures/(ampm_\w+\.svg)\)", PAGE.read_text())
    assert len(shown) == 5
    assert sorted(shown) == sorted(path.name for path in tmp_path.glob("*.svg"))
    for name in shown:
        assert (tmp_path / name).with_suffix(".pdf").is_file()
        assert (DOCS / "figures" / name).with_suffix(".pdf").is_file()
        assert words(tmp_path / name) == words(DOCS / "figures" / name)
        assert sum("lost" in word or "pulse" in word for word in words(DOCS / "figures" / name)) > 3
