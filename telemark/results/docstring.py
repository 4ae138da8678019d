"""Parser of experiment docstrings: question, claim, and published results.

The question is the first paragraph. The first word identifies two more paragraphs:

    Claim: In each block, the measured loss equals the actual loss to the packet.
    Published: RFC 9341, section 5: exact while clocks agree within half a block.

The checks verify the `Claim`. `Published` is a published result with its source.
"""

import ast
from pathlib import Path
from typing import NamedTuple


class About(NamedTuple):
    """Paragraphs of a docstring, each as one line; empty if missing."""

    question: str
    claim: str
    published: str


def parse(docstring: str) -> About:
    """Parse a docstring."""
    paragraphs = [" ".join(text.split()) for text in docstring.strip().split("\n\n")]

    def named(word: str) -> str:
        found = [text for text in paragraphs if text.startswith(word)]
        return found[0].removeprefix(word).lstrip() if found else ""

    return About(paragraphs[0], named("Claim:"), named("Published:"))


def read_script(script: Path) -> About:
    """Parse the docstring of a script without executing it."""
    return parse(ast.get_docstring(ast.parse(script.read_bytes())) or "")
