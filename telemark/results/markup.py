"""Pieces of HTML: everything that comes from a file or a run becomes text."""

import html
from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path


def text(value: object) -> str:
    """Whatever it is, as text."""
    return html.escape(str(value))


def marked(said: str, is_good: bool) -> str:
    """In the colour of what passed, or of what failed."""
    return f'<span class="{verdict_class(is_good)}">{text(said)}</span>'


def verdict_class(is_good: bool) -> str:
    """The class of style."""
    return "passed" if is_good else "failed"


def count(number: int, what: str) -> str:
    """As `1 check`, `1,000 checks`."""
    return f"{number:,} {what}" + "s" * (number != 1)


def command(said: str) -> str:
    """A command that can be selected by a click."""
    return f"<code>{text(said)}</code>"


def table(heads: Sequence[str], rows: Iterable[str], label: str) -> str:
    """Rows of cells; what is too wide is scrolled, by the keyboard, too."""
    head = "".join(f"<th scope=col>{text(each)}" for each in heads)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(label)}">'
        f"<table><thead><tr>{head}<tbody>\n" + "\n".join(rows) + "</table></div>"
    )


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Names and values."""
    return "<dl>" + "".join(f"<dt>{text(k)}<dd>{text(v)}" for k, v in pairs) + "</dl>"


def image(path: Path, description: str) -> str:
    """A picture in SVG within the page, so that the page can go without its folder."""
    data = b64encode(path.read_bytes()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{text(description)}">'
