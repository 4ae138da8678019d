"""The page on the prototype's faults: each test that it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "dta_defects.md"


def test_tests_that_are_named_are_there() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE.read_text())
    assert len(named) > 20
    missing = [
        f"{file}::{name}" for file, name in named
        if f"def {name}(" not in (ROOT / "tests" / file).read_text()
    ]  # fmt: skip
    assert missing == []
