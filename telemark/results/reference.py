"""Results that are committed in results/reference/: makes them anew, and compares others with them.

    sudo .venv/bin/python -m telemark.results.reference [NAME ...]     (default: all experiments)

A NAME is that of a folder in results/reference/: an experiment's, which is in virtual time, or with
`_real` behind it; or a benchmark's. The checkout must be as committed: results name their commit.
"""

import argparse
import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from telemark import REPOSITORY
from telemark.results.provenance import git_state

REFERENCE = REPOSITORY / "results" / "reference"
REAL = "_real"

PROCESSES = ("int_collector", "roce_throughput")  # what one costs
IN_THE_KERNEL = ("xdp_", "ebpf_", "threat_")  # programs there; these are how the names begin
BESIDE_SWITCHES = ("ebpf_edge",)  # of these, programs at hosts of a network that has switches
REAL_ALONE = ("targets", *PROCESSES, *IN_THE_KERNEL)  # bmv2, too

# Benchmarks are made where what they are compared with is installed, and when they are named.
BENCHMARKS = {
    "benchmark_switch": ["benchmarks/speed/switch.py"],
    "virtual": ["benchmarks/speed/virtual.py", "--time", "virtual"],
}


@dataclass(frozen=True)
class Comparison:
    """Results held against the reference for them."""

    folder: Path  # the reference's
    date: str  # when it was made
    text: str
    agrees: bool | None = None  # None: numbers cannot be compared


def compare(results: Path, summary: Mapping[str, Any]) -> Comparison | None:
    """Hold the results in a folder against the reference; None where there is no reference.

    In virtual time, with the same parameters, all numbers must be the same, but for those columns
    that tell of the machine. In real time only the verdict can be compared.
    """
    time = summary["parameters"]["time"]
    folder = REFERENCE / (summary["experiment"] + (REAL if time == "real" else ""))
    if not (folder / "summary.json").is_file():
        return None
    reference = json.loads((folder / "summary.json").read_text())
    date, _, _ = reference.get("date", "an unknown date").partition("T")
    result = partial(Comparison, folder, date)
    if time == "real":
        total = len(reference["checks"])
        passed = sum(check["passed"] for check in reference["checks"])
        return result(
            f"numbers differ from run to run in real time; there, {passed} of {total} checks passed"
        )
    if others := _other_settings(summary, reference):
        return result(f"not comparable by number, of other {', '.join(others)}")
    left_out = {*summary["machine_columns"]}
    difference = _difference(results / "samples.csv", folder / "samples.csv", left_out)
    if difference is not None:
        return result(f"NOT the same numbers: {difference}", agrees=False)
    but = f", but for what tells of the machine ({', '.join(sorted(left_out))})" if left_out else ""
    return result(f"the same numbers in every row of samples.csv{but}", agrees=True)


def _other_settings(summary: Mapping[str, Any], reference: Mapping[str, Any]) -> list[str]:
    """Which settings differ."""
    ours, theirs = (
        {**each["parameters"], "seed": each["seed"], "target": each["target"]}
        for each in (summary, reference)
    )
    return [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]


def _difference(ours: Path, theirs: Path, left_out: set[str]) -> str | None:
    """Where two files of samples differ first; None where they do not."""
    with ours.open(newline="") as our_file, theirs.open(newline="") as their_file:
        pairs = zip_longest(csv.DictReader(our_file), csv.DictReader(their_file))
        for row, (our, their) in enumerate(pairs, start=1):
            if our is None or their is None:
                return f"{'the reference' if our is None else 'this'} has more than {row - 1} rows"
            for name in {**our, **their}:
                if name not in left_out and our.get(name) != their.get(name):
                    return f"row {row}, {name}: {our.get(name)}, there {their.get(name)}"
    return None


def commands() -> dict[str, list[str]]:
    """What makes each reference: its folder's name -> script and options."""
    found = {}
    for script in sorted((REPOSITORY / "experiments").glob("[!_]*.py")):
        path = str(script.relative_to(REPOSITORY))
        if not script.stem.startswith(REAL_ALONE):
            found[script.stem] = [path, "--time", "virtual"]
        found[script.stem + REAL] = [path, "--time", "real"]
    return found | BENCHMARKS


def has_switches(name: str) -> bool:
    """Whether an experiment, by its name or its reference's, has switches, and so P4 programs."""
    return name.startswith(BESIDE_SWITCHES) or not name.startswith((*PROCESSES, *IN_THE_KERNEL))


def flaws(folder: Path) -> list[str]:
    """Why the results in a folder are no reference: nobody could tell what they were made of."""
    summary = json.loads((folder / "summary.json").read_text())
    revision = summary["environment"]["git"]
    found = []
    if revision == "unknown" or revision.endswith("+"):
        found.append(f"git {revision}: expected a commit, with nothing changed")
    if folder.name not in BENCHMARKS:
        wanted = ("date", "programs") if has_switches(folder.name) else ("date",)
        found += [f"no {key}" for key in wanted if not summary.get(key)]
    if summary["parameters"]["quick"]:
        found.append("--quick: expected a full run")
    return found


def main(arguments: Sequence[str]) -> int:
    """Make references, all or those named; returns the worst exit status of their runs."""
    known = commands()
    parser = argparse.ArgumentParser(
        prog="reference", usage=argparse.SUPPRESS, description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(known))
    names = parser.parse_args(arguments).names
    if unknown := [name for name in names if name not in known]:
        print(f"reference: error: no {unknown[0]}: there are {', '.join(known)}", file=sys.stderr)
        return 2
    revision, changed = git_state(())
    if revision == "unknown" or changed:
        why = f"commit first what was changed: {', '.join(changed)}" if changed else "no checkout"
        print(f"reference: error: {why}", file=sys.stderr)
        return 2
    worst = 0
    for name in names or [name for name in known if name not in BENCHMARKS]:
        script, *options = known[name]
        command = [sys.executable, script, *options, "--out", f"results/reference/{name}"]
        print(f"== {' '.join(command[1:])}", flush=True)
        status = subprocess.run(command, cwd=REPOSITORY, check=False).returncode
        shutil.rmtree(REPOSITORY / "results/reference" / name / ".runs", ignore_errors=True)
        if status:
            print(f"reference: {name} ended with {status}: again by its name", file=sys.stderr)
        worst = max(worst, abs(status))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
