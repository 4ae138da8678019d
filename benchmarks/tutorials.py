"""Runs the exercises of p4lang/tutorials with their solutions: does happen what their text says?

    sudo python benchmarks/tutorials.py CLONE --python PYTHON [--target bmv2] [--time virtual]

CLONE is one of theirs; PYTHON has what their own controllers import (p4runtime-shell 0.0.6, and
p4.tmp.p4config_pb2 of p4lang/PI). Each exercise is one run of `telemark run`, with a script of
the commands that its README has people type. Exit status 1 where one does not do what it says.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from _exercises import EXERCISES, Exercise

from testbed.cli import Parser

TELEMARK = [sys.executable, "-m", "telemark.cli", "run"]
LONGEST_S = 180
YES, NOTHING = "yes", "- (programs at hosts, or a controller that needs sockets)"  # verdicts


def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path, help="of p4lang/tutorials")
    parser.add_argument("--python", default="python3", help="for their controllers")
    parser.add_argument("--target", choices=("minip4", "bmv2"), default="minip4")
    parser.add_argument("--time", choices=("real", "virtual"), default="real")
    parser.add_argument("--only", metavar="NAME", help="one exercise, with its output")
    options = parser.parse_args()
    chosen = [each for each in EXERCISES if options.only in (None, each.name)]
    if not (options.clone / "exercises").is_dir() or not chosen:
        parser.error(f"{options.clone}, {options.only}: expected a clone, and an exercise in it")
    verdicts = []
    for exercise in chosen:
        verdicts.append(_verdict(exercise, options))
        print(f"{exercise.name:20} {verdicts[-1]}", flush=True)
    right, asked = verdicts.count(YES), len(verdicts) - verdicts.count(NOTHING)
    print(f"{right} of {asked} do as their text says: {options.target}, {options.time} time")
    return 0 if right == asked else 1


def _verdict(exercise: Exercise, options: argparse.Namespace) -> str:
    is_virtual = options.time == "virtual"
    commands = exercise.virtual if is_virtual else exercise.commands
    if commands is None:
        return NOTHING
    folder = options.clone / "exercises" / exercise.name.partition(",")[0]
    with tempfile.NamedTemporaryFile("w", suffix=".commands") as script:
        script.write(commands.replace("{python}", options.python))
        script.flush()
        solution = ["--p4", folder / "solution" / exercise.program] if exercise.program else []
        try:
            done = subprocess.run(
                [*TELEMARK, folder / exercise.topology, "--commands", script.name, *solution,
                 "--target", options.target, "--time", options.time],
                capture_output=True, text=True, check=False, timeout=LONGEST_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"no: it took more than {LONGEST_S} s"
    if options.only:
        print(done.stdout, done.stderr)
    if done.returncode:
        return f"no: status {done.returncode}: {done.stderr.strip()}"
    wrong = _judged((exercise.virtually,) if is_virtual else exercise.expected, done.stdout)
    return YES if wrong is None else f"no: {wrong}"


def _judged(expected: tuple[str, ...] | Callable[[str], str | None], output: str) -> str | None:
    """What is wrong; None: nothing."""
    if callable(expected):
        return expected(output)
    return next((f"no {each!r}" for each in expected if not re.search(each, output)), None)


if __name__ == "__main__":
    sys.exit(main())
