"""Builds index.html of a results folder: each experiment's figure, checks, and where it ran."""

import html
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.results.report import give_to_caller

_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Telemark: results</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
img {{ max-width: 100% }}
table {{ border-collapse: collapse; font-size: 14px }}
td, th {{ border-bottom: 1px solid #ddd; padding: 2px 10px; text-align: left }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums }}
.failed {{ color: #b00; font-weight: bold }}
code {{ background: #f4f4f4; padding: 1px 4px }}
</style>
<h1>Telemark: results</h1>
{sections}
</html>
"""

_SECTION = """<section id="{name}">
<h2>{name}: <span class="{verdict_class}">{verdict}</span></h2>
<p><code>{command}</code></p>
{figure}
<details {open}><summary>{passed} of {total} checks passed</summary>
<table><tr><th>check<th>measured<th>expected<th>tolerance<th></tr>
{checks}
</table></details>
<p>Seed {seed}, target {target}; {environment}.
Data: <a href="{name}/samples.csv">samples.csv</a>,
<a href="{name}/summary.json">summary.json</a>.</p>
</section>"""


def build(results: Path) -> Path:
    """Write `results`/index.html from the summaries in the folders below, and return its path."""
    sections = [
        _section(path.parent.name, json.loads(path.read_text()), path.parent)
        for path in sorted(results.glob("*/summary.json"))
    ]
    page = results / "index.html"
    page.write_text(_PAGE.format(sections="\n".join(sections) or "<p>There are none yet.</p>"))
    give_to_caller(page)
    return page


def _section(name: str, summary: Mapping[str, Any], folder: Path) -> str:
    checks = summary["checks"]
    passed = sum(check["passed"] for check in checks)
    good = bool(checks) and passed == len(checks)
    figure = ""
    if (folder / f"{name}.svg").exists():
        figure = f'<p><img src="{_text(name)}/{_text(name)}.svg" alt="figure of {_text(name)}"></p>'
    return _SECTION.format(
        name=_text(name),
        verdict="passed" if good else "FAILED",
        verdict_class="" if good else "failed",
        command=_text(summary["command"]),
        figure=figure,
        open="" if good else "open",
        passed=passed,
        total=len(checks),
        checks="\n".join(_check_row(check) for check in checks),
        seed=_text(summary["seed"]),
        target=_text(summary["target"]),
        environment=_text(_environment(summary["environment"])),
    )


def _check_row(check: Mapping[str, Any]) -> str:
    numbers = "".join(
        f'<td class="number">{check[key]:.6g}' for key in ("measured", "expected", "tolerance")
    )
    verdict = "passed" if check["passed"] else '<span class="failed">FAILED</span>'
    return f"<tr><td>{_text(check['name'])}{numbers}<td>{verdict}</tr>"


def _environment(environment: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in environment["versions"].items())
    return (
        f"git {environment['git']}; kernel {environment['kernel']}, {environment['system']}, "
        f"{environment['cpus']} CPUs {environment['cpu']}; {versions}"
    )


def _text(value: object) -> str:
    return html.escape(str(value))


if __name__ == "__main__":
    print(f"All results: {build(Path(sys.argv[1]))}")
