"""Tables of docs/reference/experiments.md, made from the scripts' docstrings and references."""

import json
from pathlib import Path

from telemark.results import docstring
from telemark.results.reference import REAL, REFERENCE
from telemark.run_all.catalogue import Experiment, experiments

ROOT = Path(__file__).resolve().parent.parent
# names of systems; other names are in capitals
SYSTEMS = {"ampm": "AM-PM", "roce": "RoCE", "gallery": "Gallery"}


def _minutes(experiment: Experiment, kind: str) -> str:
    """Return the duration of the reference run in minutes, or a dash if there is no reference."""
    path = REFERENCE / (experiment.name + kind) / "summary.json"
    return f"{json.loads(path.read_text())['duration_s'] / 60:.1f}" if path.is_file() else "-"


def _figure(experiment: Experiment) -> str:
    """Return the path of the reference figure from the root; prefer virtual time."""
    paths = [REFERENCE / (experiment.name + kind) / f"{experiment.name}.png" for kind in ("", REAL)]
    found = [path for path in paths if path.is_file()]
    return str(found[0].relative_to(ROOT)) if found else f"experiments/{experiment.name}.py"


def questions() -> str:
    """Return the table of all experiments: question, figure and duration."""
    lines = [
        "| system | experiment | question | minutes: real | virtual |",
        "|---|---|---|---:|---:|",
    ]
    for each in experiments(ROOT / "experiments"):
        name = f"[{each.name}](../../{_figure(each)})"
        system = SYSTEMS.get(each.system or "", (each.system or "-").upper())
        question = docstring.read_script(each.script).question
        lines.append(
            f"| {system} | {name} | {question} | {_minutes(each, REAL)} | {_minutes(each, '')} |"
        )
    return "\n".join(lines)


def claims() -> str:
    """Return the table of claims, with the published results that they are compared with."""
    lines = ["| experiment | claim | published |", "|---|---|---|"]
    for each in experiments(ROOT / "experiments"):
        parts = docstring.read_script(each.script)
        lines.append(f"| `{each.name}` | {parts.claim} | {parts.published} |")
    return "\n".join(lines)
