"""docs/reference/dta.md lists faults of the DTA prototype: each test that the page names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "dta.md"


def test_named_tests_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE.read_text())
    assert len(named) > 20
    missing = [
        f"{file}::{name}" for file, name in named
        if f"def {name}(" not in (ROOT / "tests" / file).read_text()
    ]  # fmt: skip
    assert missing == []
