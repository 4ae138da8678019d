"""Generated parts of the documentation are up to date and complete."""

from pathlib import Path

import code_map
import man_page
import pytest
import update_reference

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "docs" / "reference" / "experiments.md"


@pytest.mark.parametrize("page", update_reference.PAGES, ids=lambda page: page.name)
def test_generated_parts_are_up_to_date(page: Path) -> None:
    assert page.read_text() == update_reference.updated(page), (
        "run .venv/bin/python tools/update_reference.py"
    )


def test_manual_page_is_up_to_date() -> None:
    assert update_reference.MAN_PAGE.read_text() == man_page.text(), (
        "run .venv/bin/python tools/update_reference.py"
    )


def test_each_experiment_is_listed() -> None:
    text = EXPERIMENTS.read_text()
    for script in (ROOT / "experiments").glob("[!_]*.py"):
        assert f"[{script.stem}]" in text
        assert f"| `{script.stem}` |" in text


def test_each_p4_file_of_a_system_is_in_the_code_map() -> None:
    assert code_map.missing() == []
