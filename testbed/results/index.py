"""Builds index.html of a results folder: the verdict, then each experiment, failed ones first."""

import html
import json
import os.path
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from testbed.errors import TestbedError
from testbed.results import reference
from testbed.results.files import exclusive, replace

_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{verdict} - Telemark: results</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 60rem; margin: 1rem auto; padding: 0 1rem;
  overflow-wrap: anywhere; color: #222 }}
section {{ border-top: 1px solid #ccc; margin-top: 2rem }}
figure {{ margin: 1rem 0 }}
figcaption {{ font-size: 14px; color: #444; margin-top: .5rem }}
table {{ border-collapse: collapse; font-size: 14px; width: 100% }}
td, th {{ border-bottom: 1px solid #ddd; padding: 2px 6px; text-align: left; vertical-align: top }}
td.number, th.number {{ text-align: right; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; white-space: nowrap }}
.scroll {{ overflow-x: auto }}
.passed {{ color: #060 }}
.failed {{ color: #b00; font-weight: bold }}
.badge {{ background: #eee; border-radius: 4px; padding: 1px 6px; font-size: 14px;
  font-weight: normal; white-space: nowrap }}
.quiet {{ color: #555; font-size: 14px }}
code {{ background: #f4f4f4; padding: 1px 4px }}
summary {{ cursor: pointer }}
</style>
<h1>Telemark: results</h1>
<p class="{verdict_class}">{verdict}</p>
<ul>
{contents}
</ul>
{sections}
</html>
"""

_SECTION = """<section id="{name}">
<h2>{name}: <span class="{verdict_class}">{verdict}</span> {badges}</h2>
<p>{question}</p>
<p class="quiet">{when}</p>
{failed}
{figure}
<p>{comparison}</p>
{passed}
<details><summary>How it was made</summary>
<p><code>{command}</code></p>
<p>Seed {seed}, target {target}; {origin}.</p>
</details>
<p>{files}</p>
</section>"""

_NUMBERS = ("measured", "expected", "tolerance")


@dataclass(frozen=True, eq=False)
class _Result:
    """An experiment's folder, and what its summary.json says."""

    folder: Path
    summary: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def checks(self) -> Sequence[Mapping[str, Any]]:
        checks: Sequence[Mapping[str, Any]] = self.summary["checks"]
        return checks

    @property
    def failed(self) -> list[Mapping[str, Any]]:
        return [check for check in self.checks if not check["passed"]]

    @property
    def has_passed(self) -> bool:
        """A report without a check has shown nothing."""
        return bool(self.checks) and not self.failed

    @property
    def verdict(self) -> str:
        if not self.checks:
            return "FAILED: it checks nothing"
        if self.failed:
            return f"FAILED: {len(self.failed)} of {_count(len(self.checks), 'check')}"
        return f"passed: {_count(len(self.checks), 'check')}"


def build(results: Path) -> Path:
    """Write `results`/index.html from the summaries in the folders below, and return its path.

    Raises TestbedError where it cannot be written.
    """
    sections, unreadable = _sections(results)
    found = sorted(sections, key=lambda result: (result.has_passed, result.name))
    page = _PAGE.format(
        verdict=_text(_verdict(found, unreadable)),
        verdict_class=_verdict_class(not unreadable and all(r.has_passed for r in found)),
        contents="\n".join([*map(_unreadable, unreadable), *map(_entry, found)]),
        sections="\n".join(sections[result] for result in found),
    )
    path = results / "index.html"
    try:
        with exclusive(results):
            replace(path, lambda partial: partial.write_text(page))
    except OSError as error:
        raise TestbedError(f"{path} cannot be written: {error.strerror}") from None
    return path


def _sections(folder: Path) -> tuple[dict[_Result, str], list[Path]]:
    """The results below a folder, each with its section; and summaries that are none."""
    sections, unreadable = {}, []
    for path in sorted(folder.glob("*/summary.json")):
        try:
            result = _Result(path.parent, json.loads(path.read_text()))
            sections[result] = _section(result)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            unreadable.append(path)
    return sections, unreadable


def _verdict(found: Sequence[_Result], unreadable: Sequence[Path]) -> str:
    failed = sum(not result.has_passed for result in found) + len(unreadable)
    total = len(found) + len(unreadable)
    if not total:
        return "There are none yet"
    if failed:
        return f"FAILED: {failed} of {_count(total, 'experiment')}"
    return f"passed: {_count(total, 'experiment')}"


def _entry(result: _Result) -> str:
    verdict = _marked(result.verdict, result.has_passed)
    return f'<li><a href="#{_text(result.name)}">{_text(result.name)}</a> {verdict}</li>'


def _unreadable(path: Path) -> str:
    where = f"{path.parent.name}/{path.name}"
    return f'<li class="failed">{_text(where)} is no summary of this version</li>'


def _section(result: _Result) -> str:
    summary = result.summary
    name, parameters = result.name, summary["parameters"]
    badges = ["--quick"] if parameters["quick"] else []
    failed = _table(result.failed)
    passed = _table(check for check in result.checks if check["passed"])
    count = len(result.checks) - len(result.failed)
    return _SECTION.format(
        name=_text(name),
        verdict=_text(result.verdict),
        verdict_class=_verdict_class(result.has_passed),
        badges=" ".join(
            f'<span class="badge">{_text(badge)}</span>'
            for badge in [*badges, f"{parameters['time']} time"]
        ),
        question=_text(summary.get("question", "")),
        when=_text(_when(summary)),
        failed=failed,
        figure=_figure(result),
        comparison=_comparison(result),
        passed=f"<details><summary>{_count(count, 'check')} passed</summary>{passed}</details>"
        if count else "",
        command=_text(summary["command"]),
        seed=_text(summary["seed"]),
        target=_text(summary["target"]),
        origin=_text(_origin(summary)),
        files=_files(result),
    )  # fmt: skip


def _table(checks: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        f"<tr><td>{_text(check['name'])}"
        + "".join(f'<td class="number">{check[key]:.6g}' for key in _NUMBERS)
        for check in checks
    ]
    if not rows:
        return ""
    heads = "".join(f'<th class="number">{key}' for key in _NUMBERS)
    return f'<div class="scroll"><table><tr><th>check{heads}\n' + "\n".join(rows) + "</table></div>"


def _figure(result: _Result) -> str:
    name = result.summary["experiment"]
    if not (result.folder / f"{name}.svg").is_file():
        return ""
    svg, pdf = (_link(result.folder / f"{name}.{kind}", result.folder) for kind in ("svg", "pdf"))
    caption = _text(result.summary.get("caption", ""))
    return (
        f'<figure><div class="scroll"><a href="{svg}">'
        f'<img src="{svg}" alt="figure of {_text(name)}"></a></div>\n'
        f'<figcaption>{caption} <a href="{pdf}">PDF</a></figcaption></figure>'
    )


def _comparison(result: _Result) -> str:
    found = reference.compare(result.folder, result.summary)
    if found is None:
        return "There is no reference to compare it with."
    folder = _link(found.folder, result.folder)
    text = _text(found.text) if found.agrees is None else _marked(found.text, found.agrees)
    return f'<a href="{folder}">Reference</a> of {_text(found.date)}: {text}.'


def _files(result: _Result) -> str:
    names = sorted(path.name for path in result.folder.iterdir() if path.is_file())
    return "Files: " + ", ".join(
        f'<a href="{_link(result.folder / name, result.folder)}">{_text(name)}</a>'
        for name in names if not name.startswith(".")
    )  # fmt: skip


def _when(summary: Mapping[str, Any]) -> str:
    if "date" not in summary:
        return "Of an earlier version, which noted no date."
    began = datetime.fromisoformat(summary["date"])
    return f"{began:%Y-%m-%d %H:%M} UTC, {summary['duration_s']:g} s"


def _origin(summary: Mapping[str, Any]) -> str:
    environment = summary["environment"]
    programs = "".join(
        f"{program['path']} {' '.join(program['defines'])} sha256 {program['sha256'][:16]}; "
        for program in summary.get("programs", [])
    )
    changed = environment.get("changed")
    differs = f" (not as committed: {', '.join(changed)})" if changed else ""
    versions = ", ".join(f"{name} {number}" for name, number in environment["versions"].items())
    return (
        f"{programs}git {environment['git']}{differs}; kernel {environment['kernel']}, "
        f"{environment['system']}, {environment['cpus']} CPUs {environment['cpu']}; {versions}"
    )


def _link(path: Path, folder: Path) -> str:
    """The address of a file, from the page, which lies above the experiment's folder."""
    return _text(quote(os.path.relpath(path, folder.parent)))


def _marked(text: str, is_good: bool) -> str:
    return f'<span class="{_verdict_class(is_good)}">{_text(text)}</span>'


def _verdict_class(is_good: bool) -> str:
    return "passed" if is_good else "failed"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + "s" * (number != 1)


def _text(value: object) -> str:
    return html.escape(str(value))


if __name__ == "__main__":
    print(f"All results: {build(Path(sys.argv[1]))}")
