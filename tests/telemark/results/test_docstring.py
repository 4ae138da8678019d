"""The docstrings of experiments are parsed, and each experiment has a complete one."""

from pathlib import Path

import pytest

from telemark.results import docstring
from telemark.results.docstring import About

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
DOCSTRING = """Is it so?

How that is
found out.

Claim: It is,
always.

Published: RFC 1: it is.
"""


def test_question_claim_and_what_was_published() -> None:
    assert docstring.parse(DOCSTRING) == About("Is it so?", "It is, always.", "RFC 1: it is.")


def test_a_docstring_without_them() -> None:
    assert docstring.parse("") == About("", "", "")
    assert docstring.parse("It\nasks.") == About("It asks.", "", "")
    assert docstring.parse("The Claim: no paragraph of its own.").claim == ""


@pytest.mark.parametrize("script", sorted(EXPERIMENTS.glob("[!_]*.py")), ids=lambda path: path.stem)
def test_each_of_our_experiments_says_all_three(script: Path) -> None:
    assert all(docstring.read_script(script)[:3]), "see telemark/results/docstring.py"


@pytest.mark.parametrize("script", sorted(EXPERIMENTS.glob("gallery_*.py")), ids=lambda p: p.stem)
def test_an_experiment_of_the_gallery_names_its_paper_and_the_differences(script: Path) -> None:
    about = docstring.read_script(script)
    assert about.paper
    assert about.differences
