"""What index.html says of one experiment: its row in the table of claims, and its section."""

import os.path
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from telemark.results import reference
from telemark.results.markup import (
    command,
    count,
    facts,
    image,
    marked,
    table,
    text,
    verdict_class,
)

_SECTION = """<section id="{name}" aria-labelledby="{name}-heading">
<h2 id="{name}-heading">{name}: <span class="{verdict_class}">{verdict}</span> {badges}</h2>
<p class="question">{question}</p>
{sayings}
{failed}
{figure}
<p>{comparison}</p>
{passed}
<details><summary>Parameters, machine and versions</summary>
{origin}
</details>
<p class="quiet">{files}</p>
</section>"""

_NUMBERS = ("measured", "expected", "tolerance")
COLUMNS = ("Claim", "Experiment", "Command", "Minutes", "Result", "Reference")


@dataclass(frozen=True, eq=False)
class Result:
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
            return f"FAILED: {len(self.failed)} of {count(len(self.checks), 'check')}"
        return f"passed: {count(len(self.checks), 'check')}"


def row(result: Result) -> str:
    """Of the table of claims: COLUMNS."""
    summary = result.summary
    found = reference.compare(result.folder, summary)
    cells = (
        text(summary.get("claim") or summary.get("question", "")),
        f'<a href="#{text(result.name)}">{text(result.name)}</a>',
        command(_as_typed(summary)),
        f"{summary['duration_s'] / 60:.1f}" if "duration_s" in summary else "",
        marked(result.verdict, result.has_passed),
        "none" if found is None else _verdict_of(found),
    )
    return "<tr>" + "".join(
        f'<td data-label="{name}">{cell}' for name, cell in zip(COLUMNS, cells, strict=True)
    )


def section(result: Result) -> str:
    """All that there is of an experiment, what failed first."""
    summary = result.summary
    parameters = summary["parameters"]
    passed = [check for check in result.checks if check["passed"]]
    badges = [*(["--quick"] if parameters["quick"] else []), f"{parameters['time']} time"]
    return _SECTION.format(
        name=text(result.name),
        verdict=text(result.verdict),
        verdict_class=verdict_class(result.has_passed),
        badges=" ".join(f'<span class="badge">{text(badge)}</span>' for badge in badges),
        question=text(summary.get("question", "")),
        sayings=_sayings(summary),
        failed=_checks(result.failed, "checks that failed") if result.failed else "",
        figure=_figure(result),
        comparison=_comparison(result),
        passed=f"<details><summary>{count(len(passed), 'check')} passed</summary>"
        f"{_checks(passed, 'checks that passed')}</details>" if passed else "",
        origin=facts(_origin(summary)),
        files=_files(result),
    )  # fmt: skip


def _sayings(summary: Mapping[str, Any]) -> str:
    """What is claimed, and what was published of it."""
    said = [("Claim", summary.get("claim")), ("Published", summary.get("published"))]
    return "\n".join(f"<p><b>{name}:</b> {text(what)}</p>" for name, what in said if what)


def _checks(checks: Iterable[Mapping[str, Any]], label: str) -> str:
    rows = (
        f"<tr><td>{text(check['name'])}"
        + "".join(f'<td class="number">{check[key]:.6g}' for key in _NUMBERS)
        for check in checks
    )
    return table(("check", *_NUMBERS), rows, label)


def _figure(result: Result) -> str:
    name = result.summary["experiment"]
    svg = result.folder / f"{name}.svg"
    if not svg.is_file():
        return ""
    caption = text(result.summary.get("caption", ""))
    links = ", ".join(
        f'<a href="{_link(result.folder / f"{name}.{kind}", result.folder)}">{kind.upper()}</a>'
        for kind in ("svg", "pdf")
    )
    picture = image(svg, f"Figure of {name}. {result.summary.get('caption', '')}")
    return (
        f'<figure><div class="scroll" tabindex="0" role="region" aria-label="figure of '
        f'{text(name)}">{picture}</div>\n<figcaption>{caption} {links}</figcaption></figure>'
    )


def _comparison(result: Result) -> str:
    found = reference.compare(result.folder, result.summary)
    if found is None:
        return "There is no reference to compare it with."
    folder = _link(found.folder, result.folder)
    said = text(found.text) if found.agrees is None else marked(found.text, found.agrees)
    return f'<a href="{folder}">Reference</a> of {text(found.date)}: {said}.'


def _verdict_of(found: reference.Comparison) -> str:
    """A comparison in two words."""
    if found.agrees is None:
        return f"of {text(found.date)}"
    return marked("same numbers" if found.agrees else "other numbers", found.agrees)


def _files(result: Result) -> str:
    names = sorted(path.name for path in result.folder.iterdir() if path.is_file())
    return "Files: " + ", ".join(
        f'<a href="{_link(result.folder / name, result.folder)}">{text(name)}</a>'
        for name in names if not name.startswith(".")
    )  # fmt: skip


def _as_typed(summary: Mapping[str, Any]) -> str:
    """The command, which needs root in real time."""
    root = "sudo " if summary["parameters"]["time"] == "real" else ""
    return f"{root}{summary['command']}"


def _origin(summary: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Of what run it is: names and values."""
    environment = summary["environment"]
    parameters = (f"{name} {_plain(value)}" for name, value in summary["parameters"].items())
    programs = (
        f"{program['path']} {' '.join(program['defines'])} sha256 {program['sha256'][:16]}"
        for program in summary.get("programs", [])
    )
    bpf = [
        f"{each['path']} sha256 {each['sha256'][:16]}" for each in summary.get("bpf_programs", [])
    ]
    changed = environment.get("changed")
    differs = f" (not as committed: {', '.join(changed)})" if changed else ""
    versions = (f"{name} {number}" for name, number in environment["versions"].items())
    return [
        ("command", _as_typed(summary)),
        ("when", _when(summary)),
        ("parameters", "; ".join(parameters)),
        ("seed", summary["seed"]),
        ("target", summary["target"]),
        ("P4 programs", "; ".join(programs) or "none"),
        *([("BPF programs", "; ".join(bpf))] if bpf else []),
        ("commit", f"{environment['git']}{differs}"),
        ("machine", f"{environment['cpus']} CPUs {environment['cpu']}"),
        ("system", f"{environment['system']}, kernel {environment['kernel']}"),
        ("versions", ", ".join(versions)),
    ]


def _plain(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _when(summary: Mapping[str, Any]) -> str:
    if "date" not in summary:
        return "Of an earlier version, which noted no date."
    began = datetime.fromisoformat(summary["date"])
    return f"{began:%Y-%m-%d %H:%M} UTC, {summary['duration_s']:g} s"


def _link(path: Path, folder: Path) -> str:
    """The address of a file, from the page, which lies above the experiment's folder."""
    return text(quote(os.path.relpath(path, folder.parent)))
