"""Runs the exercises of p4lang/tutorials with their solutions: does happen what their text says?

    sudo python benchmarks/tutorials.py CLONE --python PYTHON [--target bmv2] [--time virtual]

CLONE is one of theirs; PYTHON has what their own controllers import (p4runtime-shell 0.0.6, and
p4.tmp.p4config_pb2 of p4lang/PI). Each exercise is one run of `telemark run`, with a script of
the commands that its README has people type. Exit status 1 where one does not do what it says.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import sys

import _described
from _tutorials import EXERCISES, Exercise

NOTHING = "- (programs at hosts, or a controller that needs sockets)"  # a verdict


def main() -> int:
    parser = _described.parser(__doc__, "p4lang/tutorials")
    parser.add_argument("--python", default="python3", help="for their controllers")
    options = parser.parse_args()
    chosen = [each for each in EXERCISES if options.only in (None, each.name)]
    if not (options.clone / "exercises").is_dir() or not chosen:
        parser.error(f"{options.clone}, {options.only}: expected a clone, and an exercise in it")
    verdicts = []
    for exercise in chosen:
        verdict = _verdict(exercise, options)
        print(f"{exercise.name:20} {verdict}", flush=True)
        if verdict != NOTHING:
            verdicts.append(verdict)
    return _described.summed_up(verdicts, options)


def _verdict(exercise: Exercise, options: argparse.Namespace) -> str:
    commands, expected = exercise.commands, exercise.expected
    if options.time == "virtual":
        if exercise.virtual is None:
            return NOTHING
        commands, expected = exercise.virtual, (exercise.virtually,)
    folder = options.clone / "exercises" / exercise.name.partition(",")[0]
    return _described.verdict(
        folder / exercise.topology,
        commands.replace("{python}", options.python),
        expected,
        options,
        folder / "solution" / exercise.program if exercise.program else None,
    )


if __name__ == "__main__":
    sys.exit(main())
