"""HTML fragments. All values from files and runs are escaped."""

import html
from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path


def text(value: object) -> str:
    """Escape a value."""
    return html.escape(str(value))


def marked(content: str, is_good: bool) -> str:
    """Format a text in the colour of passed checks (`is_good`) or in that of failed checks."""
    return f'<span class="{verdict_class(is_good)}">{text(content)}</span>'


def verdict_class(is_good: bool) -> str:
    """Return the CSS class of a verdict."""
    return "passed" if is_good else "failed"


def count(number: int, noun: str) -> str:
    """Format a number with a noun: `1 check`, `1,000 checks`."""
    return f"{number:,} {noun}" + "s" * (number != 1)


def command(line: str) -> str:
    """Format a command; a click selects it."""
    return f"<code>{text(line)}</code>"


def table(heads: Sequence[str], rows: Iterable[str], label: str) -> str:
    """Format a table in a scrollable, focusable region."""
    head = "".join(f"<th scope=col>{text(each)}" for each in heads)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(label)}">'
        f"<table><thead><tr>{head}<tbody>\n" + "\n".join(rows) + "</table></div>"
    )


def row(columns: Sequence[str], cells: Sequence[str]) -> str:
    """Format a row of a table in a section of class `cards`; cells are HTML."""
    return "<tr>" + "".join(
        f'<td data-label="{name}">{cell}' for name, cell in zip(columns, cells, strict=True)
    )


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Format a list of names and values."""
    return "<dl>" + "".join(f"<dt>{text(k)}<dd>{text(v)}" for k, v in pairs) + "</dl>"


def image(path: Path, description: str) -> str:
    """Embed an SVG file in the page."""
    data = b64encode(path.read_bytes()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{text(description)}">'
