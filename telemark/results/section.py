"""Row and section of one experiment in index.html."""

import os.path
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from telemark.results import markup, reference
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
{claims}
{failed}
{figure}
{reproductions}
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
    """Results folder of an experiment, and its summary.json."""

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
        """True if there are checks, and all passed."""
        return bool(self.checks) and not self.failed

    @property
    def verdict(self) -> str:
        if not self.checks:
            return "FAILED: no checks"
        if self.failed:
            return f"FAILED: {len(self.failed)} of {count(len(self.checks), 'check')}"
        return f"passed: {count(len(self.checks), 'check')}"


def row(result: Result) -> str:
    """Render the row of the experiment in the table of claims; its columns are COLUMNS."""
    summary = result.summary
    found = reference.compare(result.folder, summary)
    cells = (
        text(summary.get("claim") or summary.get("question", "")),
        f'<a href="#{text(result.name)}">{text(result.name)}</a>',
        command(_command(summary)),
        f"{summary['duration_s'] / 60:.1f}" if "duration_s" in summary else "",
        marked(result.verdict, result.has_passed),
        "none" if found is None else _short_comparison(found),
    )
    return markup.row(COLUMNS, cells)


def section(result: Result) -> str:
    """Render the section of an experiment. Failed checks come first."""
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
        claims=_claims(summary),
        failed=_checks(result.failed, "failed checks") if result.failed else "",
        figure=_figure(result),
        reproductions=_reproductions(summary.get("reproductions", [])),
        comparison=_comparison(result),
        passed=f"<details><summary>{count(len(passed), 'check')} passed</summary>"
        f"{_checks(passed, 'passed checks')}</details>" if passed else "",
        origin=facts(_origin(summary)),
        files=_files(result),
    )  # fmt: skip


def _claims(summary: Mapping[str, Any]) -> str:
    """Render the claim and the published result."""
    claims = [("Claim", summary.get("claim")), ("Published", summary.get("published"))]
    return "\n".join(f"<p><b>{name}:</b> {text(claim)}</p>" for name, claim in claims if claim)


def _reproductions(reproductions: Sequence[Mapping[str, Any]]) -> str:
    """Render the table of published numbers next to ours."""
    if not reproductions:
        return ""
    columns = ("published claim", "source", "published", "measured", "result")
    rows = (
        markup.row(columns, (
            text(each["claim"]), text(each["source"]), text(each["published"]), measured(each),
            text(each["verdict"]),
        )) for each in reproductions
    )  # fmt: skip
    return f'<div class="cards">{table(columns, rows, "published numbers")}</div>'


def measured(reproduction: Mapping[str, Any]) -> str:
    """Format the median of the measured values, and their range."""
    low, high = min(reproduction["measured"]), max(reproduction["measured"])
    spread = f" ({low:.4g} to {high:.4g})" if low != high else ""
    return f"{reproduction['median']:.4g}{spread}"


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
        return "No reference for comparison."
    folder = _link(found.folder, result.folder)
    outcome = text(found.text) if found.agrees is None else marked(found.text, found.agrees)
    return f'<a href="{folder}">Reference</a> of {text(found.date)}: {outcome}.'


def _short_comparison(found: reference.Comparison) -> str:
    """Render a comparison in a few words."""
    if found.agrees is None:
        return f"of {text(found.date)}"
    return marked("equal" if found.agrees else "different", found.agrees)


def _files(result: Result) -> str:
    names = sorted(path.name for path in result.folder.iterdir() if path.is_file())
    return "Files: " + ", ".join(
        f'<a href="{_link(result.folder / name, result.folder)}">{text(name)}</a>'
        for name in names if not name.startswith(".")
    )  # fmt: skip


def _command(summary: Mapping[str, Any]) -> str:
    """Return the command line, with sudo in real time."""
    root = "sudo " if summary["parameters"]["time"] == "real" else ""
    return f"{root}{summary['command']}"


def _origin(summary: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return names and values that describe the run."""
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
    differs = f" (uncommitted changes: {', '.join(changed)})" if changed else ""
    versions = (f"{name} {number}" for name, number in environment["versions"].items())
    return [
        ("command", _command(summary)),
        ("date", _date(summary)),
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


def _date(summary: Mapping[str, Any]) -> str:
    if "date" not in summary:
        return "unknown (earlier version)"
    began = datetime.fromisoformat(summary["date"])
    return f"{began:%Y-%m-%d %H:%M} UTC, {summary['duration_s']:g} s"


def _link(path: Path, folder: Path) -> str:
    """Return the URL of a file, relative to the page.

    The page is in the parent of the experiment's folder.
    """
    return text(quote(os.path.relpath(path, folder.parent)))
