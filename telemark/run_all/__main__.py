"""Run all experiments sequentially, and build results/index.html.

An experiment that already passed with the same options is skipped until a dependency changes. A
failed experiment does not stop the other experiments. The exit status is that of the worst outcome;
from worst to best: 3 (unhandled exception), 1 (failed check), 2 (inconclusive or unavailable
experiment), 0.
"""

from telemark import REPOSITORY

import telemark.run_all.interrupt  # noqa: F401  isort: skip  before slow imports

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
from telemark.run_all.options import execution_arguments, parse, result_arguments
from telemark.run_all.up_to_date import FinishedRuns, dependency_key, expected_s
from telemark.session import cli

WORDS = {
    cli.PASSED: "passed",
    cli.CHECK_FAILED: "FAILED",
    cli.UNUSABLE: "inconclusive or unavailable",
    cli.INTERNAL_ERROR: "unhandled exception",
}
WORST_LAST = (cli.PASSED, cli.UNUSABLE, cli.CHECK_FAILED, cli.INTERNAL_ERROR)  # then signals
MAX_STDERR_BYTES = 4096  # number of bytes at the end of stderr that are searched for the last line


@dataclass(frozen=True)
class Outcome:
    """Outcome of an experiment."""

    name: str
    text: str
    status: int = cli.PASSED
    duration_s: float = 0.0
    has_results: bool = True  # False if the results folder has no results for the current options
    rates: str = ""  # on bmv2: fractions of the requested rates that bmv2 sustained


def main(arguments: Sequence[str], folder: Path, results: Path) -> int:
    """Run the experiments in a folder, and write the results to `results`. Return the exit status.

    Raises TestbedError if no experiment can run, or if `results` is not writable.
    """
    known = experiments(folder)
    options = parse(arguments, known, __doc__ or "")
    chosen = [e for e in known if e.name in options.only and options.system in (None, e.system)]
    if not chosen:
        raise TestbedError(
            f"--only {' '.join(options.only)}: no experiment of --system {options.system}"
        )
    if options.time == "real" and not can_isolate():
        raise TestbedError(
            "cannot create namespaces; run it with sudo (in a container: with --privileged), or "
            "use --time virtual"
        )
    make_folder(results)
    outcomes = list(_outcomes(chosen, options, results))
    if options.compare:
        outcomes = [_compare(outcome, results) for outcome in outcomes]
    if options.target == "bmv2":
        outcomes = [replace(each, rates=_rates(each, results)) for each in outcomes]
    _print_summary(outcomes, show_rates=options.target == "bmv2")
    print(f"All results: {index.build(results)}")

    return max((outcome.status for outcome in outcomes), key=_severity)


def _severity(status: int) -> int:
    """Return a number that is larger for a worse exit status; 1 is worse than 2."""
    return WORST_LAST.index(status) if status in WORST_LAST else status


def _outcomes(
    chosen: Sequence[Experiment], options: argparse.Namespace, results: Path
) -> Iterator[Outcome]:
    """Run the experiments that are not up to date, and print their progress."""
    arguments = result_arguments(options)
    finished = FinishedRuns(results)
    keys = {each: dependency_key(each.script, arguments) for each in chosen}
    skipped = {each: reason for each in chosen if (reason := each.reason_to_skip(options))}
    current = {e for e in chosen if not options.again and finished.is_up_to_date(e.name, keys[e])}
    for number, each in enumerate(chosen):
        todo = [e for e in chosen[number:] if e not in current and e not in skipped]
        left = minutes_seconds(sum(expected_s(e.name, arguments, finished) for e in todo))
        print(f"== {each.name}, {number + 1} of {len(chosen)}, {left} remaining", flush=True)
        if each in skipped:
            yield Outcome(each.name, f"skipped: {skipped[each]}", has_results=False)
        elif each in current:
            yield Outcome(each.name, "passed before (up to date)")
        else:
            outcome = _run(each, [*arguments, *execution_arguments(options)], results)
            if outcome.status == cli.PASSED:
                finished.add(each.name, keys[each], arguments, outcome.duration_s)
            yield outcome
            if outcome.status >= SIGNALLED:  # a signal stops all experiments
                return


def _run(experiment: Experiment, arguments: Sequence[str], results: Path) -> Outcome:
    summary = results / experiment.name / "summary.json"
    written = _written_ns(summary)
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, experiment.script, *arguments],
        stderr=subprocess.PIPE,
        # The experiment must also end if SIGKILL, which cannot be forwarded, ends this process;
        # this process has no threads, so preexec_fn is safe.
        preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509
    )

    def forward(number: int, _frame: FrameType | None) -> None:
        # after Ctrl-C, the experiment gets a second signal from the terminal, and counts both as
        # one
        process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in STOPPING}
    last_line, prefix = _forward_stderr(process), f"{experiment.name}: error: "
    problem = last_line.removeprefix(prefix)
    status = process.wait()
    for number, handler in before.items():
        signal.signal(number, handler)
    if status < 0:
        status = SIGNALLED - status
    has_results = _written_ns(summary) != written
    if status == cli.CHECK_FAILED and not has_results and not last_line.startswith(prefix):
        status = cli.INTERNAL_ERROR  # status 1 without a report: Python could not import the script
    text = WORDS.get(
        status, f"ended by signal {status - SIGNALLED}; run the same command again to resume"
    )
    if status == cli.CHECK_FAILED and has_results:
        checks = json.loads(summary.read_text())["checks"]
        failed = [check["name"] for check in checks if not check["passed"]]
        text += ": " + ("; ".join(failed) or "no checks")
    elif problem and status in (cli.CHECK_FAILED, cli.UNUSABLE, cli.INTERNAL_ERROR):
        text += f": {problem}"
    return Outcome(experiment.name, text, status, time.monotonic() - began)


def minutes_seconds(seconds: float) -> str:
    """Format a duration, e.g. `3:07`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def _forward_stderr(process: subprocess.Popen[bytes]) -> str:
    """Print the stderr of an experiment until the process ends. Return the last line.

    The end of the process, not EOF, ends the loop: children of a killed process may keep the pipe
    open.
    """
    assert process.stderr is not None
    tail, errors, ended = b"", process.stderr.fileno(), os.pidfd_open(process.pid)
    while errors in select.select([errors, ended], [], [])[0]:
        if not (more := os.read(errors, 1 << 16)):
            break
        sys.stderr.buffer.write(more)
        sys.stderr.flush()
        tail = (tail + more)[-MAX_STDERR_BYTES:]
    os.close(ended)
    process.stderr.close()
    lines = tail.decode(errors="backslashreplace").strip().splitlines()
    return lines[-1] if lines else ""


def _written_ns(summary: Path) -> int | None:
    return summary.stat().st_mtime_ns if summary.exists() else None


def _compare(outcome: Outcome, results: Path) -> Outcome:
    """Compare the results of a passed experiment with results/reference/.

    If they differ, the experiment has failed.
    """
    summary = results / outcome.name / "summary.json"
    if outcome.status != cli.PASSED or not outcome.has_results:
        return outcome
    found = compare(summary.parent, json.loads(summary.read_text()))
    comparison = "no reference" if found is None else f"reference of {found.date}: {found.text}"
    status = cli.CHECK_FAILED if found is not None and found.agrees is False else cli.PASSED
    return replace(outcome, text=f"{outcome.text}; {comparison}", status=status)


def _rates(outcome: Outcome, results: Path) -> str:
    """Return the capacities that an experiment's probes measured, as fractions of requested rates.

    The result is "fixed" if the experiment has no probe.
    """
    summary = results / outcome.name / "summary.json"
    if not outcome.has_results or outcome.status not in (cli.PASSED, cli.CHECK_FAILED):
        return "inconclusive" if outcome.has_results and outcome.status == cli.UNUSABLE else ""
    capacities = json.loads(summary.read_text()).get("capacities", []) if summary.exists() else []
    shares = sorted({each["share"] for each in capacities}, reverse=True)
    return ", ".join("all" if share == 1 else f"1/{1 / share:.0f}" for share in shares) or "fixed"


def _print_summary(outcomes: Sequence[Outcome], *, show_rates: bool) -> None:
    rows = [
        (each.name, each.text, *([each.rates] if show_rates else []),
         minutes_seconds(each.duration_s))
        for each in outcomes
    ]  # fmt: skip
    columns = ("experiment", "result", *(["rates"] if show_rates else []), "min:s")
    # If stdout is not a terminal, rich would assume 80 columns and truncate the cells.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(table("All experiments", columns, rows))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:], REPOSITORY / "experiments", cli.RESULTS))
    except TestbedError as error:
        print(f"run_all.sh: error: {error}", file=sys.stderr)
        sys.exit(cli.UNUSABLE)
