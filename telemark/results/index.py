"""Builds index.html of a results folder: verdict, claims, a replay, then each experiment.

What failed comes first. The page is one file, figures and all: it needs no network and no server,
and can be sent to somebody; only its links to data lead to files beside it.
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
from telemark.results.markup import count, table, text, verdict_class
from telemark.results.replay import NAME
from telemark.results.section import COLUMNS, Result, row, section

PARTS = Path(__file__).parent / "page"


def build(results: Path) -> Path:
    """Write `results`/index.html from the summaries in the folders below, and return its path.

    Raises TestbedError where it cannot be written.
    """
    path = results / "index.html"
    page = _page(results)
    try:
        with exclusive(results):
            replace(path, lambda partial: partial.write_text(page))
    except OSError as error:
        raise TestbedError(f"{path} cannot be written: {error.strerror}") from None
    return path


def _page(results: Path) -> str:
    made, unreadable = _made(results)
    found = sorted(made, key=lambda result: (result.has_passed, result.name))
    verdict = _verdict(found, unreadable)
    rows = [made[result][0] for result in found]
    shown = _replay(results)
    script = (PARTS / "replay.js").read_text()
    script_hash = b64encode(sha256(script.encode()).digest()).decode()
    return (PARTS / "page.html").read_text().format(
        verdict=text(verdict),
        verdict_class=verdict_class(not unreadable and all(r.has_passed for r in found)),
        style=(PARTS / "page.css").read_text(),
        script=f"<script>{script}</script>" if shown else "",
        script_source=f"script-src 'sha256-{script_hash}'" if shown else "",
        replay=shown,
        unreadable="\n".join(map(_unreadable, unreadable)),
        absent=_absent(results),
        claims=table(COLUMNS, rows, "claims") if rows else "",
        sections="\n".join(made[result][1] for result in found),
    )  # fmt: skip


def _made(folder: Path) -> tuple[dict[Result, tuple[str, str]], list[Path]]:
    """The results below a folder, each with row and section; and summaries that are none."""
    made, unreadable = {}, []
    for path in sorted(folder.glob("*/summary.json")):
        try:
            result = Result(path.parent, json.loads(path.read_text()))
            made[result] = row(result), section(result)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            unreadable.append(path)
    return made, unreadable


def _replay(results: Path) -> str:
    """Of the first run that left one; else of the reference; nothing where that has none."""
    for folder, what in ((results, "run"), (reference.REFERENCE, "reference")):
        for path in sorted(folder.glob(f"*/{NAME}")):
            try:
                return _player(path, what)
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue  # what is wrong with its summary stands at the top of the page
    return ""


def _player(path: Path, what: str) -> str:
    said = json.loads(path.read_text())
    date, _, _ = json.loads((path.parent / "summary.json").read_text())["date"].partition("T")
    return (PARTS / "replay.html").read_text().format(
        name=text(path.parent.name),
        caption=text(said["caption"]),
        origin=text(f"Of the {what} of {date}."),
        data=json.dumps(said, separators=(",", ":")).replace("<", "\\u003c"),
    )  # fmt: skip


def _verdict(found: Sequence[Result], unreadable: Sequence[Path]) -> str:
    failed = sum(not result.has_passed for result in found) + len(unreadable)
    total = len(found) + len(unreadable)
    if not total:
        return "There are none yet"
    if failed:
        return f"FAILED: {failed} of {count(total, 'experiment')}"
    return f"passed: {count(total, 'experiment')}"


def _unreadable(path: Path) -> str:
    where = f"{path.parent.name}/{path.name}"
    return f'<p class="failed">{text(where)} is no summary of this version</p>'


def _absent(results: Path) -> str:
    """Experiments of which the folder has no results: those that passed are not all there are."""
    names = [script.stem for script in sorted((REPOSITORY / "experiments").glob("[!_]*.py"))]
    absent = [name for name in names if not (results / name / "summary.json").exists()]
    if not absent:
        return ""
    return (
        f"<details><summary>No results of {count(len(absent), 'other experiment')}</summary>"
        "<p>They did not run here, or their runs were invalid: run_all.sh tells why: "
        f"{text(', '.join(absent))}</p></details>"
    )
