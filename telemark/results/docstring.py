"""Parser of experiment docstrings: question, claim, and published result.

The first paragraph is the question. More paragraphs are recognized by their first word:

    Claim: In each block, the measured loss equals the actual loss to the packet.
    Published: RFC 9341, section 5: exact while clocks agree within half a block.

The checks of the experiment verify the `Claim`. `Published` is a published result and its source.
Experiments of the gallery also have `Paper:` (authors, title and venue) and `Differences:` (how the
setting differs from that of the paper).
"""

import ast
from pathlib import Path
from typing import NamedTuple


class About(NamedTuple):
    """Paragraphs of a docstring. Each is one line; a missing paragraph is empty."""

    question: str
    claim: str
    published: str
    paper: str = ""
    differences: str = ""


def parse(docstring: str) -> About:
    """Parse a docstring."""
    paragraphs = [" ".join(text.split()) for text in docstring.strip().split("\n\n")]

    def named(word: str) -> str:
        found = [text for text in paragraphs if text.startswith(word)]
        return found[0].removeprefix(word).lstrip() if found else ""

    names = ("Claim:", "Published:", "Paper:", "Differences:")
    return About(paragraphs[0], *map(named, names))


def read_script(script: Path) -> About:
    """Parse the docstring of a script without executing it."""
    return parse(ast.get_docstring(ast.parse(script.read_bytes())) or "")
