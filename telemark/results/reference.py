"""Reference results (results/reference/): regenerate them, and compare results with them.

    sudo .venv/bin/python -m telemark.results.reference [NAME ...]     (default: all experiments)

NAME is a folder in results/reference/: the name of an experiment (virtual time), the name with the
suffix `_real` (real time), or the name of a benchmark. All changes must be committed, because
results contain the commit of the code.
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

# experiments that measure CPU times of processes
PROCESSES = ("int_collector", "roce_throughput")
EBPF_PREFIXES = ("xdp_", "ebpf_", "threat_")  # prefixes of experiments with eBPF programs
# experiments with eBPF programs on hosts of a network with switches
EBPF_WITH_SWITCHES = ("ebpf_edge",)
# map from experiments that need programs that are not part of Telemark to their option for them
FETCHED = {"dta_prototype": "--prototype", "roce_prototype": "--prototype",
           "tna_published": "--programs"}  # fmt: skip
REAL_ONLY = ("targets", *PROCESSES, *EBPF_PREFIXES)

# Options of benchmarks. They run only if they are named: they need other software for comparisons.
BENCHMARKS = {
    "benchmark_switch": ["benchmarks/speed/switch.py"],
    "virtual": ["benchmarks/speed/virtual.py", "--time", "virtual"],
}


@dataclass(frozen=True)
class Comparison:
    """Comparison of results with their reference."""

    folder: Path  # folder of the reference
    date: str  # date of the reference
    text: str
    agrees: bool | None = None  # None if numbers cannot be compared


def compare(results: Path, summary: Mapping[str, Any]) -> Comparison | None:
    """Compare the results in a folder with their reference. Return None if there is no reference.

    If both are in virtual time with the same parameters, all numbers must be equal, except in
    columns that depend on the machine. In real time, only verdicts can be compared.
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
            f"{passed} of {total} checks of the reference passed (numbers vary in real time)"
        )
    if others := _other_settings(summary, reference):
        return result(f"not comparable: different {', '.join(others)}")
    ignored = {*summary["machine_columns"]}
    difference = _difference(results / "samples.csv", folder / "samples.csv", ignored)
    if difference is not None:
        return result(f"numbers DIFFER: {difference}", agrees=False)
    exception = (
        f", except machine-dependent columns ({', '.join(sorted(ignored))})" if ignored else ""
    )
    return result(f"all numbers in samples.csv are equal{exception}", agrees=True)


def _other_settings(summary: Mapping[str, Any], reference: Mapping[str, Any]) -> list[str]:
    """Return the names of settings that differ."""
    ours, theirs = (
        {**each["parameters"], "seed": each["seed"], "target": each["target"]}
        for each in (summary, reference)
    )
    return [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]


def _difference(ours: Path, theirs: Path, ignored: set[str]) -> str | None:
    """Describe the first difference between two files of samples; None if they are equal."""
    with ours.open(newline="") as our_file, theirs.open(newline="") as their_file:
        pairs = zip_longest(csv.DictReader(our_file), csv.DictReader(their_file))
        for row, (our, their) in enumerate(pairs, start=1):
            if our is None or their is None:
                longer = "the reference" if our is None else "the result"
                return f"{longer} has more than {row - 1} rows"
            for name in {**our, **their}:
                if name not in ignored and our.get(name) != their.get(name):
                    return f"row {row}, {name}: {our.get(name)}, reference {their.get(name)}"
    return None


def commands() -> dict[str, list[str]]:
    """Return a map from each reference (folder name) to its command: script and options."""
    found = {}
    for script in sorted((REPOSITORY / "experiments").glob("[!_]*.py")):
        if script.stem in FETCHED:
            continue
        path = str(script.relative_to(REPOSITORY))
        if not script.stem.startswith(REAL_ONLY):
            found[script.stem] = [path, "--time", "virtual"]
        found[script.stem + REAL] = [path, "--time", "real"]
    return found | BENCHMARKS


def has_switches(name: str) -> bool:
    """Return whether an experiment has P4 switches.

    The argument is the name of an experiment or of its reference.
    """
    return name.startswith(EBPF_WITH_SWITCHES) or not name.startswith((*PROCESSES, *EBPF_PREFIXES))


def flaws(folder: Path) -> list[str]:
    """Return all reasons why the results in a folder cannot become a reference."""
    summary = json.loads((folder / "summary.json").read_text())
    revision = summary["environment"]["git"]
    found = []
    if revision == "unknown" or revision.endswith("+"):
        found.append(f"git {revision}: expected a commit without changes")
    if folder.name not in BENCHMARKS:
        wanted = ("date", "programs") if has_switches(folder.name) else ("date",)
        found += [f"no {key}" for key in wanted if not summary.get(key)]
    if summary["parameters"]["quick"]:
        found.append("--quick: expected a full run")
    return found


def main(arguments: Sequence[str]) -> int:
    """Regenerate the named references, or all. Return the worst exit status of all runs."""
    known = commands()
    parser = argparse.ArgumentParser(
        prog="reference", usage=argparse.SUPPRESS, description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(known))
    names = parser.parse_args(arguments).names
    if unknown := [name for name in names if name not in known]:
        print(f"reference: error: unknown reference {unknown[0]}; use one of {', '.join(known)}",
              file=sys.stderr)  # fmt: skip
        return 2
    revision, changed = git_state(())
    if revision == "unknown" or changed:
        names = ", ".join(changed)
        problem = f"uncommitted changes: {names}; commit them" if changed else "not a git checkout"
        print(f"reference: error: {problem}", file=sys.stderr)
        return 2
    worst = 0
    for name in names or [name for name in known if name not in BENCHMARKS]:
        script, *options = known[name]
        command = [sys.executable, script, *options, "--out", f"results/reference/{name}"]
        print(f"== {' '.join(command[1:])}", flush=True)
        status = subprocess.run(command, cwd=REPOSITORY, check=False).returncode
        shutil.rmtree(REPOSITORY / "results/reference" / name / ".runs", ignore_errors=True)
        if status:
            print(f"reference: {name} exited with status {status}; run it again", file=sys.stderr)
        worst = max(worst, abs(status))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
