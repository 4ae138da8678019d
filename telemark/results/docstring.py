"""What an experiment's docstring says of it: what it asks, claims, and what was published of that.

The question is the first paragraph. Two more are found by how they begin, wherever they stand:

    Claim: In each block, measured loss is what was lost, to the packet.
    Published: RFC 9341, section 5: exact while clocks agree within half a block.

`Claim` is what the checks hold; `Published` what others said of it, with its number and source.
"""

import ast
from pathlib import Path
from typing import NamedTuple


class About(NamedTuple):
    """Each is one line of text, and empty where the docstring does not say it."""

    question: str
    claim: str
    published: str


def read(docstring: str) -> About:
    """What a docstring says."""
    paragraphs = [" ".join(text.split()) for text in docstring.strip().split("\n\n")]

    def named(word: str) -> str:
        found = [text for text in paragraphs if text.startswith(word)]
        return found[0].removeprefix(word).lstrip() if found else ""

    return About(paragraphs[0], named("Claim:"), named("Published:"))


def of_script(script: Path) -> About:
    """What the docstring of a script says, which is not run for that."""
    return read(ast.get_docstring(ast.parse(script.read_bytes())) or "")
