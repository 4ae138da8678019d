"""A page (HTML) with the trace of packets next to the source code of the program.

The page is one file without scripts. A step of the trace is a link to its source line, which the
browser then highlights.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from minip4.errors import Minip4Error

_PLACE = re.compile(r"^(?P<text>.*)  \((?P<file>[^():]+):(?P<line>\d+)\)$")
_STYLE = """
body { margin: 0; font: 14px sans-serif; display: flex; height: 100vh; }
section { flex: 1; overflow: auto; padding: 0 1em; }
section + section { border-left: 1px solid #ccc; }
pre { font: 13px/1.4 monospace; margin: 0; white-space: pre-wrap; }
pre span { display: block; padding-left: 4em; text-indent: -4em; }
pre span:target { background: #ffe680; }
pre i { color: #999; font-style: normal; display: inline-block; width: 3em; text-align: right;
        margin-right: 1em; text-indent: 0; }
a { color: #0645ad; text-decoration: none; }
a:hover { text-decoration: underline; }
.pass { color: #067d17; } .fail, .drop { color: #b00020; }
.change { color: #8a3ffc; }
summary { cursor: pointer; font-weight: bold; margin-top: 1em; }
"""


class TracedScript(NamedTuple):
    """A finished STF script: its failures, and the trace of each packet."""

    name: str
    failures: Sequence[str]
    traces: Sequence[str]


def source_files(document: Any) -> dict[str, str]:
    """Return the source files that BMv2 JSON names: their text, by file name.

    Files that cannot be read are left out. So are devices and pipes, which may have no end.
    """
    found = {}
    for path in sorted(set(_filenames(document))):
        try:
            if Path(path).is_file():
                found[Path(path).name] = Path(path).read_text(errors="replace")
        except OSError:
            continue
    return found


def write_page(
    path: Path, program: str, scripts: Iterable[TracedScript], sources: Mapping[str, str]
) -> None:
    """Write the page. Raises Minip4Error if the file cannot be written."""
    left = "\n".join(_script(script, sources) for script in scripts)
    right = "\n".join(_source(name, text) for name, text in sources.items())
    title = f"Trace of {escape(program)}"
    page = (
        f"<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>{title}</title>\n"
        f"<style>{_STYLE}</style></head><body>\n<section><h1>{title}</h1>\n{left}</section>\n"
        f"<section>{right}</section>\n</body></html>\n"
    )
    try:
        path.write_text(page)
    except OSError as error:
        raise Minip4Error(f"{path}: cannot write: {error.strerror}") from error


def _filenames(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        info = node.get("source_info")
        if isinstance(info, dict) and isinstance(info.get("filename"), str):
            yield info["filename"]
    for value in (
        node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        yield from _filenames(value)


def _script(script: TracedScript, sources: Mapping[str, str]) -> str:
    verdict = "fail" if script.failures else "pass"
    lines = [f"<h2>{escape(script.name)}: <span class='{verdict}'>{verdict.upper()}</span></h2>"]
    lines += [f"<p class='fail'>{escape(failure)}</p>" for failure in script.failures]
    for trace in script.traces:
        first, *steps = trace.splitlines() or ["packet"]
        body = "\n".join(_step(step, sources) for step in steps)
        lines.append(f"<details open><summary>{escape(first)}</summary><pre>{body}</pre></details>")
    return "\n".join(lines)


def _step(step: str, sources: Mapping[str, str]) -> str:
    """Return a line of a trace; its place becomes a link."""
    kind = "drop" if step.lstrip().startswith("dropped") else "change" if " -> " in step else ""
    place = _PLACE.match(step)
    if place is None or place["file"] not in sources:
        text = escape(step)
    else:
        name = f"{place['file']}:{place['line']}"
        text = f"{escape(place['text'])}  <a href='#{escape(name)}'>{escape(name)}</a>"
    return f"<b class='{kind}' style='font-weight: normal'>{text}</b>" if kind else text


def _source(name: str, text: str) -> str:
    lines = "".join(
        f"<span id='{escape(name)}:{number}'><i>{number}</i>{escape(line)}</span>"
        for number, line in enumerate(text.splitlines(), 1)
    )
    return f"<h2>{escape(name)}</h2><pre>{lines}</pre>"
