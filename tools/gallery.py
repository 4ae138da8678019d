"""Generated part of docs/reference/gallery.md: published numbers next to ours."""

import json
from pathlib import Path
from typing import Any

from telemark.results import docstring
from telemark.results.gallery import PREFIX
from telemark.results.reference import REFERENCE
from telemark.results.section import measured
from telemark.run_all.catalogue import experiments

ROOT = Path(__file__).resolve().parent.parent


def table() -> str:
    """Return the table of all published numbers, from the references in virtual time."""
    lines = [
        "| experiment | published claim | source | published | measured | result | minutes |",
        "|---|---|---|---|---|---|---:|",
    ]
    for script in _scripts():
        summary = _summary(script)
        minutes = f"{summary['duration_s'] / 60:.1f}" if summary else "-"
        for each in summary.get("reproductions", []):
            name = f"[{script.stem.removeprefix(PREFIX)}](#{script.stem})"
            lines.append(
                f"| {name} | {each['claim']} | {each['source']} | {each['published']} | "
                f"{measured(each)} | {each['verdict']} | {minutes} |"
            )
    return "\n".join(lines)


def sections() -> str:
    """Return one section per experiment of the gallery."""
    return "\n\n".join(_section(script) for script in _scripts())


def _section(script: Path) -> str:
    about = docstring.read_script(script)
    summary = _summary(script)
    picture = f"../../results/reference/{script.stem}/{script.stem}.png"
    lines = [f"### {script.stem}", "", about.question, ""]
    lines += [f"- Paper: {about.paper}", f"- Published: {about.published}"]
    lines += [f"- Checked: {about.claim}", f"- Differences: {about.differences}"]
    if summary:
        lines += [f"- Command: `{summary['command']}` (seed {summary['seed']})", "",
                  f"![{about.question}]({picture})"]  # fmt: skip
    return "\n".join(lines)


def _scripts() -> list[Path]:
    every = experiments(ROOT / "experiments")
    return [each.script for each in every if each.name.startswith(PREFIX)]


def _summary(script: Path) -> dict[str, Any]:
    """Return the summary of the reference in virtual time, or {}."""
    path = REFERENCE / script.stem / "summary.json"
    return json.loads(path.read_text()) if path.is_file() else {}
