"""How many of p4c's test programs does the compiler handle correctly?

CORPUS_DIR is a p4c checkout (git clone https://github.com/p4lang/p4c); it is only read. Every
program is compiled from P4 to machine code. v1model programs that have an STF script run the
script. P4Info is compared with the P4Info of p4c. Programs that p4c rejects must be rejected with a
source location. No program may end in a traceback, hang, or produce C that does not compile.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.compatibility.shared.corpus import (
    Outcome,
    Result,
    Task,
    json_files,
    measure,
    programs,
)
from telemark import REPOSITORY
from telemark.results.files import make_folder
from telemark.results.provenance import Origin
from telemark.results.report import Check, Report, table

NAME = "benchmark_conformance"


@dataclass(frozen=True)
class Question:
    """Question about some programs. `needed` percent of the answers must be good."""

    text: str
    is_asked: Callable[[Result], object]
    is_good: Callable[[Result], bool]
    needed: float | None = None
    why: Callable[[Result], str] | None = None  # reason of a failure, for the list of failures


QUESTIONS = (
    Question(
        "STF scripts of v1model programs pass",
        lambda r: r.stf is not None,
        lambda r: r.stf == "",
        # not 100, because one program calls a function that p4c's test of it implements in C++
        needed=99.5,
        why=lambda r: r.reason or str(r.stf),
    ),
    Question(
        "P4Info equals p4c's",
        lambda r: r.p4info is not None,
        lambda r: r.p4info == "",
        needed=94,
        why=lambda r: r.reason or str(r.p4info),
    ),
    Question(
        "  for programs *-bmv2.p4",
        lambda r: r.p4info is not None and r.task.path.stem.endswith("-bmv2"),
        lambda r: r.p4info == "",
        needed=97,
    ),
    Question(
        "  compared as text",
        lambda r: r.p4info is not None,
        lambda r: r.is_same_text,
    ),
    Question(
        "programs that p4c rejects are rejected",
        lambda r: r.task.must_be_refused,
        lambda r: r.outcome is Outcome.REFUSED,
        needed=98,
        why=lambda r: r.reason or "accepted",
    ),
    Question(
        "  within one line of p4c's error",
        lambda r: r.task.must_be_refused and r.task.wanted_lines and r.line is not None,
        lambda r: any(abs((r.line or 0) - wanted) <= 1 for wanted in r.task.wanted_lines),
    ),
    Question(
        "v1model programs that p4c compiles are compiled",
        lambda r: r.task.is_compiled,
        lambda r: r.outcome is Outcome.RUNS,
        why=lambda r: r.reason,
    ),
    Question(
        "BMv2 JSON of behavioral-model's tests is loaded",
        lambda r: r.task.path.suffix == ".json",
        lambda r: r.outcome is Outcome.RUNS,
        needed=100,
        why=lambda r: r.reason,
    ),
    Question(
        "all programs end in a switch or in an error with a source location",
        lambda r: r.task.path.suffix == ".p4",
        lambda r: r.outcome in (Outcome.RUNS, Outcome.REFUSED),
        needed=100,
        why=lambda r: f"{r.outcome.value}: {r.reason}",
    ),
)


def main() -> int:
    options = arguments()
    work = select(options)
    make_folder(options.out)
    started, origin = time.monotonic(), Origin("How many of p4c's test programs compile and run?")
    # restores the handler that _venv replaced
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        results = measured(work, options)
    except KeyboardInterrupt:
        print("conformance.py: interrupted", file=sys.stderr)
        return 130
    outcome = report(results, options.corpus, time.monotonic() - started)
    outcome.write(NAME, options, origin)
    outcome.show(options.out)
    return 0 if outcome.passed else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="conformance.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("corpus", type=Path, nargs="?", metavar="CORPUS_DIR", help="a p4c checkout")
    add("--behavioral-model", type=Path, metavar="DIR",
        help="behavioral-model checkout: also load the BMv2 JSON of its tests")  # fmt: skip
    add("--only", default="", metavar="TEXT", help="only programs whose path contains TEXT")
    add("--workers", type=int, default=os.cpu_count(), metavar="N",
        help="parallel processes (default: %(default)s)")  # fmt: skip
    add("--limit", type=float, default=60, metavar="S",
        help="timeout per program (default: %(default)s s)")  # fmt: skip
    add("--out", type=Path, default=REPOSITORY / "results" / NAME, metavar="DIR",
        help=f"results directory (default: results/{NAME})")  # fmt: skip
    # Every summary contains these parameters, but this script has no such options.
    parser.set_defaults(target="minip4", time="real", quick=False, seed=0)
    return parser.parse_args()


def select(options: argparse.Namespace) -> list[Task]:
    """Return the tasks; exits with an error if there are none."""
    if options.corpus is None:
        fail("CORPUS_DIR is missing: pass the folder of a p4c checkout")
    work = list(programs(options.corpus))
    if not work:
        fail(f"{options.corpus}: no testdata/*/*.p4; pass the folder of a p4c checkout")
    if options.behavioral_model is not None:
        found = list(json_files(options.behavioral_model))
        if not found:
            fail(f"{options.behavioral_model}: no BMv2 JSON in targets/*/tests/testdata")
        work += found
    work = [task for task in work if options.only in task.name]
    if not work:
        fail(f"--only {options.only}: no program path contains it")
    return work


def fail(text: str) -> NoReturn:
    print(f"conformance.py: error: {text}", file=sys.stderr)
    sys.exit(2)


def measured(work: Sequence[Task], options: argparse.Namespace) -> list[Result]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, transient=True) as progress:
        line = progress.add_task("", total=len(work))

        def show(result: Result) -> None:
            progress.update(line, advance=1, description=result.task.path.stem[:40].ljust(40))

        return measure(work, options.workers, options.limit, show)


def report(results: Sequence[Result], corpus: Path, seconds: float) -> Report:
    rows: list[tuple[str, int, int, str]] = []
    checks: list[Check] = []
    failures: list[tuple[str, str, str]] = []
    for question in QUESTIONS:
        asked = [r for r in results if question.is_asked(r)]
        if not asked:
            continue
        failed = [r for r in asked if not question.is_good(r)]
        good = len(asked) - len(failed)
        percent = 100 * good / len(asked)
        rows.append((question.text, good, len(asked), f"{percent:.1f}"))
        if question.needed is not None:
            # A Check has a symmetric tolerance. With these values, results from `needed` to 100 %
            # pass.
            middle, half = (100 + question.needed) / 2, (100 - question.needed) / 2
            checks.append(Check(f"{question.text.strip()}, %", percent, middle, half))
        if question.why is not None:
            failures += [(question.text, r.task.name, question.why(r)) for r in failed]
    return Report(
        samples=[sample(r) for r in results],
        checks=checks,
        metrics={
            "corpus_commit": commit(corpus),
            "duration_s": round(seconds),
            "programs": {text.strip(): {"good": good, "of": of} for text, good, of, _ in rows},
        },
        tables=[
            table("Failures", ("question", "program", "reason"), failures),
            table("Programs", ("question", "yes", "of", "%"), rows),
        ],
    )


def sample(result: Result) -> dict[str, Any]:
    return {
        "program": result.task.name,
        "outcome": result.outcome.name.lower(),
        "reason": result.reason,
        "must_be_refused": result.task.must_be_refused,
        "stf": {None: "", "": "passed"}.get(result.stf, result.stf),
        "p4info": {None: "", "": "equal"}.get(result.p4info, result.p4info),
        "p4info_same_text": result.is_same_text,
    }


def commit(checkout: Path) -> str:
    git = ["git", "-c", f"safe.directory={checkout.resolve()}", "-C", str(checkout)]
    run = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return run.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
