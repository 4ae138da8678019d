"""Source locations in BMv2 JSON."""

from __future__ import annotations

from minip4.compiler.bmv2.expressions import Json
from minip4.compiler.source import Source

_MAX_FRAGMENT = 200


def source_info(source: Source | None) -> Json:
    """`{"source_info": ...}`, or nothing if there is no source."""
    if source is None:
        return {}
    text = source.text
    fragment = text.split("\n", 1)[0] + " ..." if "\n" in text else text
    info = {
        "filename": source.file.path,
        "line": source.line,
        "column": source.column - 1,
        "source_fragment": fragment[:_MAX_FRAGMENT],
    }
    return {"source_info": info}
