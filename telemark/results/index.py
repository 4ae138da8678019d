"""Results page (index.html) of a results folder: verdict, claims, a replay, and each experiment.

Failed experiments come first. The page is a single file that contains all figures, so it needs no
network and no server. Only the links to data refer to other files in the folder.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from telemark import REPOSITORY
from telemark.errors import TestbedError
from telemark.results import reference
from telemark.results.files import exclusive, replace
from telemark.results.gallery import gallery
from telemark.results.markup import count, table, text, verdict_class
from telemark.results.replay import NAME
from telemark.results.section import COLUMNS, Result, row, section

PARTS = Path(__file__).parent / "page"


def build(results: Path) -> Path:
    """Write `results`/index.html from the summaries of all experiments. Return its path.

    Raises TestbedError if the file cannot be written.
    """
    path = results / "index.html"
    page = _page(results)
    try:
        with exclusive(results):
            replace(path, lambda partial: partial.write_text(page))
    except OSError as error:
        raise TestbedError(f"{path}: cannot write: {error.strerror}") from None
    return path


def _page(results: Path) -> str:
    html, unreadable = _render(results)
    found = sorted(html, key=lambda result: (result.has_passed, result.name))
    verdict = _verdict(found, unreadable)
    rows = [html[result][0] for result in found]
    player = _replay(results)
    script = "".join((PARTS / name).read_text() for name in ("canvas.js", "replay.js"))
    script_hash = b64encode(sha256(script.encode()).digest()).decode()
    return (PARTS / "page.html").read_text().format(
        verdict=text(verdict),
        verdict_class=verdict_class(not unreadable and all(r.has_passed for r in found)),
        style=(PARTS / "page.css").read_text(),
        script=f"<script>{script}</script>" if player else "",
        script_source=f"script-src 'sha256-{script_hash}'" if player else "",
        replay=player,
        unreadable="\n".join(map(_unreadable, unreadable)),
        missing=_missing(results),
        claims=table(COLUMNS, rows, "claims") if rows else "",
        gallery=gallery(found),
        sections="\n".join(html[result][1] for result in found),
    )  # fmt: skip


def _render(folder: Path) -> tuple[dict[Result, tuple[str, str]], list[Path]]:
    """Render the row and the section of each result.

    Also return the summaries that are unreadable.
    """
    html, unreadable = {}, []
    for path in sorted(folder.glob("*/summary.json")):
        try:
            result = Result(path.parent, json.loads(path.read_text()))
            html[result] = row(result), section(result)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            unreadable.append(path)
    return html, unreadable


def _replay(results: Path) -> str:
    """Render the first replay in the results; if there is none, the first in the reference.

    Returns "" if neither has a replay.
    """
    for folder, source in ((results, "Run"), (reference.REFERENCE, "Reference")):
        for path in sorted(folder.glob(f"*/{NAME}")):
            try:
                return _player(path, source)
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue  # another part of the page lists unreadable summaries
    return ""


def _player(path: Path, source: str) -> str:
    data = json.loads(path.read_text())
    date, _, _ = json.loads((path.parent / "summary.json").read_text())["date"].partition("T")
    return (PARTS / "replay.html").read_text().format(
        name=text(path.parent.name),
        caption=text(data["caption"]),
        origin=text(f"{source} of {date}."),
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    )  # fmt: skip


def _verdict(found: Sequence[Result], unreadable: Sequence[Path]) -> str:
    failed = sum(not result.has_passed for result in found) + len(unreadable)
    total = len(found) + len(unreadable)
    if not total:
        return "No results yet"
    if failed:
        return f"FAILED: {failed} of {count(total, 'experiment')}"
    return f"passed: {count(total, 'experiment')}"


def _unreadable(path: Path) -> str:
    where = f"{path.parent.name}/{path.name}"

    return f'<p class="failed">{text(where)}: not readable by this version</p>'


def _missing(results: Path) -> str:
    """Render the list of experiments without results."""
    names = [script.stem for script in sorted((REPOSITORY / "experiments").glob("[!_]*.py"))]
    missing = [name for name in names if not (results / name / "summary.json").exists()]
    if not missing:
        return ""
    return (
        f"<details><summary>No results of {count(len(missing), 'other experiment')}</summary>"
        "<p>Not run, or inconclusive (run_all.sh reports the reasons): "
        f"{text(', '.join(missing))}</p></details>"
    )
