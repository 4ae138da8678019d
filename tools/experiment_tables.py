#!/usr/bin/env python
"""Writes the tables of experiments into README.md and docs/artifact.md: made from the scripts.

Usage: .venv/bin/python tools/experiment_tables.py

What each asks, claims, and what was published of that, its docstring says
(telemark/results/docstring.py); how long it takes, its reference.
"""

import json
from pathlib import Path

from telemark.results import docstring
from telemark.results.reference import REAL, REFERENCE
from telemark.run_all.catalogue import Experiment, experiments

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "<!-- The table: made by tools/experiment_tables.py -->"
END = "<!-- The table ends. -->"
SYSTEMS = {"ampm": "AM-PM", "roce": "RoCE"}  # others: in capitals


def minutes(experiment: Experiment, kind: str = REAL) -> str:
    """What a full run took, when the reference was made; a dash where there is none."""
    path = REFERENCE / (experiment.name + kind) / "summary.json"
    return f"{json.loads(path.read_text())['duration_s'] / 60:.1f}" if path.is_file() else "-"


def figure(experiment: Experiment) -> str:
    """Where the reference's figure is, from the root; in virtual time, if there is one."""
    paths = [REFERENCE / (experiment.name + kind) / f"{experiment.name}.png" for kind in ("", REAL)]
    found = [path for path in paths if path.is_file()]
    return str(found[0].relative_to(ROOT)) if found else f"experiments/{experiment.name}.py"


def measured(known: list[Experiment]) -> str:
    """README's table."""
    lines = ["| system | published | experiment | question | minutes |", "|---|---|---|---|---:|"]
    for each in known:
        said = docstring.read_script(each.script)
        source, _, _ = said.published.partition(": ")
        name = f"[{each.name}]({figure(each)})"
        system = SYSTEMS.get(each.system or "", (each.system or "-").upper())
        lines.append(f"| {system} | {source} | {name} | {said.question} | {minutes(each)} |")
    return "\n".join(lines)


def claimed(known: list[Experiment]) -> str:
    """The appendix's table."""
    lines = ["| claim | published | command | minutes, real / virtual |", "|---|---|---|---:|"]
    for each in known:
        said = docstring.read_script(each.script)
        took = f"{minutes(each)} / {minutes(each, '')}"
        command = f"`sudo python experiments/{each.name}.py`"
        lines.append(f"| {said.claim} | {said.published} | {command} | {took} |")
    return "\n".join(lines)


PAGES = {ROOT / "README.md": measured, ROOT / "docs" / "artifact.md": claimed}


def updated(page: Path) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    table = PAGES[page](experiments(ROOT / "experiments"))
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(updated(path))
