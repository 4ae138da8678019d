"""Runs every experiment, one after the other, and builds results/index.html.

What passed before with the same options is left as it is, where nothing that it depends on has
changed. An experiment that fails does not hold up the others. The exit status is the worst of all:
3 where one broke, else 1 where a check failed, else 2 where one was invalid or not to be had.
"""

from telemark import REPOSITORY

import telemark.run_all.interrupt  # noqa: F401  isort: skip  before all that takes long

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType

from rich.console import Console

from telemark.backends.real.isolation import SIGNALLED, STOPPING, can_isolate, end_with_parent
from telemark.errors import TestbedError
from telemark.results import index
from telemark.results.files import make_folder
from telemark.results.reference import compare
from telemark.results.report import table
from telemark.run_all.catalogue import Experiment, experiments
from telemark.run_all.options import besides, for_each, parse
from telemark.run_all.schedule import expected_s, shown
from telemark.run_all.up_to_date import Finished, key_of
from telemark.session import cli

WORDS = {
    cli.PASSED: "passed",
    cli.CHECK_FAILED: "FAILED",
    cli.UNUSABLE: "invalid, or not to be had here",
    cli.BROKEN: "broke",
}
WORST_LAST = (cli.PASSED, cli.UNUSABLE, cli.CHECK_FAILED, cli.BROKEN)  # then signals
LONGEST_WHY = 4096  # bytes


@dataclass(frozen=True)
class Outcome:
    """What became of an experiment."""

    name: str
    said: str
    status: int = cli.PASSED
    duration_s: float = 0.0
    is_here: bool = True  # whether what it left is of these options
    rates: str = ""  # on bmv2: which of the rates asked for its networks sustained


def main(arguments: Sequence[str], folder: Path, results: Path) -> int:
    """Run the experiments of a folder, which leave what they find in `results`.

    Returns the exit status. Raises TestbedError where nothing can be run, or written there.
    """
    known = experiments(folder)
    options = parse(arguments, known, __doc__ or "")
    chosen = [e for e in known if e.name in options.only and options.system in (None, e.system)]
    if not chosen:
        raise TestbedError(
            f"none of --only {' '.join(options.only)} is of --system {options.system}"
        )
    if options.time == "real" and not can_isolate():
        raise TestbedError(
            "no namespaces can be made: run it with sudo, a container with --privileged; "
            "--time virtual needs none"
        )
    make_folder(results)
    outcomes = list(_outcomes(chosen, options, results))
    if options.compare:
        outcomes = [_compared(outcome, results) for outcome in outcomes]
    if options.target == "bmv2":
        outcomes = [replace(each, rates=_rates(each, results)) for each in outcomes]
    _show(outcomes, of_bmv2=options.target == "bmv2")
    print(f"All results: {index.build(results)}")
    return max((outcome.status for outcome in outcomes), key=_badness)


def _badness(status: int) -> int:
    """A larger one is worse. That the machine was busy must not hide that a check failed."""
    return WORST_LAST.index(status) if status in WORST_LAST else status


def _outcomes(
    chosen: Sequence[Experiment], options: argparse.Namespace, results: Path
) -> Iterator[Outcome]:
    """Run what has to run, and tell how far it is."""
    given = for_each(options)
    finished = Finished(results)
    keys = {each: key_of(each.script, given) for each in chosen}
    unfit = {each: why for each in chosen if (why := each.unfit(options))}
    standing = {e for e in chosen if not options.again and finished.stands(e.name, keys[e])}
    for number, each in enumerate(chosen):
        todo = [e for e in chosen[number:] if e not in standing and e not in unfit]
        left_s = sum(expected_s(e.name, given, finished) for e in todo)
        print(f"== {each.name}, {number + 1} of {len(chosen)}, {shown(left_s)} to go", flush=True)
        if each in unfit:
            yield Outcome(each.name, f"left out: {unfit[each]}", is_here=False)
        elif each in standing:
            yield Outcome(each.name, "passed before; nothing it depends on has changed")
        else:
            outcome = _run(each, [*given, *besides(options)], results)
            if outcome.status == cli.PASSED:
                finished.note(each.name, keys[each], given, outcome.duration_s)
            yield outcome
            if outcome.status >= SIGNALLED:  # which ends all
                return


def _run(experiment: Experiment, given: Sequence[str], results: Path) -> Outcome:
    summary = results / experiment.name / "summary.json"
    written = _written_ns(summary)
    began = time.monotonic()
    end_with_us = partial(end_with_parent, os.getpid())  # SIGKILL cannot be passed on
    process = subprocess.Popen(
        [sys.executable, experiment.script, *given],
        stderr=subprocess.PIPE,
        preexec_fn=end_with_us,  # noqa: PLW1509 - no threads here
    )

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)  # a terminal's twice: the experiment takes both for one

    before = {number: signal.signal(number, pass_on) for number in STOPPING}
    last_line, prefix = _passed_on(process), f"{experiment.name}: error: "
    why = last_line.removeprefix(prefix)
    status = process.wait()
    for number, handler in before.items():
        signal.signal(number, handler)
    if status < 0:
        status = SIGNALLED - status
    has_results = _written_ns(summary) != written
    if status == cli.CHECK_FAILED and not has_results and not last_line.startswith(prefix):
        status = cli.BROKEN  # Python's own status 1: of a script that cannot even be imported
    said = WORDS.get(
        status, f"ended by signal {status - SIGNALLED}: the same command goes on from here"
    )
    if status == cli.CHECK_FAILED and has_results:
        checks = json.loads(summary.read_text())["checks"]
        failed = [check["name"] for check in checks if not check["passed"]]
        said += ": " + ("; ".join(failed) or "it has no checks")
    elif why and status in (cli.CHECK_FAILED, cli.UNUSABLE, cli.BROKEN):
        said += f": {why}"
    return Outcome(experiment.name, said, status, time.monotonic() - began)


def _passed_on(process: subprocess.Popen[bytes]) -> str:
    """Show what an experiment says is wrong, as it comes; its last line is why it ended.

    Until it ends: what a killed one left running may hold the pipe's end for longer.
    """
    assert process.stderr is not None
    told, errors, ended = b"", process.stderr.fileno(), os.pidfd_open(process.pid)
    while errors in select.select([errors, ended], [], [])[0]:
        if not (more := os.read(errors, 1 << 16)):
            break
        sys.stderr.buffer.write(more)
        sys.stderr.flush()
        told = (told + more)[-LONGEST_WHY:]
    os.close(ended)
    process.stderr.close()
    lines = told.decode(errors="backslashreplace").strip().splitlines()
    return lines[-1] if lines else ""


def _written_ns(summary: Path) -> int | None:
    return summary.stat().st_mtime_ns if summary.exists() else None


def _compared(outcome: Outcome, results: Path) -> Outcome:
    """What passed, held against results/reference/: other numbers there are a check that failed."""
    summary = results / outcome.name / "summary.json"
    if outcome.status != cli.PASSED or not outcome.is_here:
        return outcome
    found = compare(summary.parent, json.loads(summary.read_text()))
    said = "no reference" if found is None else f"reference of {found.date}: {found.text}"
    status = cli.CHECK_FAILED if found is not None and found.agrees is False else cli.PASSED
    return replace(outcome, said=f"{outcome.said}; {said}", status=status)


def _rates(outcome: Outcome, results: Path) -> str:
    """Return the capacities that an experiment's probes found, as shares of the rates asked for."""
    summary = results / outcome.name / "summary.json"
    if not outcome.is_here or outcome.status not in (cli.PASSED, cli.CHECK_FAILED):
        return "inconclusive" if outcome.is_here and outcome.status == cli.UNUSABLE else ""
    capacities = json.loads(summary.read_text()).get("capacities", []) if summary.exists() else []
    shares = sorted({each["share"] for each in capacities}, reverse=True)
    return ", ".join("all" if share == 1 else f"1/{1 / share:.0f}" for share in shares) or "fixed"


def _show(outcomes: Sequence[Outcome], *, of_bmv2: bool) -> None:
    """Print the table; on bmv2 with the rates."""
    rows = [
        (each.name, each.said, *([each.rates] if of_bmv2 else []), shown(each.duration_s))
        for each in outcomes
    ]
    columns = ("experiment", "what became of it", *(["rates"] if of_bmv2 else []), "min:s")
    # Where output goes to a file, rich assumes 80 columns and would cut the cells.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(table("All experiments", columns, rows))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:], REPOSITORY / "experiments", cli.RESULTS))
    except TestbedError as error:
        print(f"run_all.sh: error: {error}", file=sys.stderr)
        sys.exit(cli.UNUSABLE)
