"""Runs networks that other people described by `telemark run`: does happen what their text says?"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from telemark.session.cli import Parser

# What has to be in a run's output: a pattern, or a judge that says what is wrong; None: nothing.
Expected: TypeAlias = str | Callable[[str], str | None]

TELEMARK = [sys.executable, "-m", "telemark.cli", "run"]
LONGEST_S = 180
PINGALL = "pingall"
ALL_ANSWERED = r"\b0% dropped"  # and not 100 %
YES = "yes"  # a verdict


def parser(description: str | None, of: str) -> Parser:
    """Of the arguments that all of these scripts take."""
    made = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("clone", type=Path, help=f"of {of}")
    made.add_argument("--target", choices=("minip4", "bmv2"), default="minip4")
    made.add_argument("--time", choices=("real", "virtual"), default="real")
    made.add_argument("--only", metavar="NAME", help="one exercise, with its output")
    return made


def verdict(
    file: Path,
    commands: str,
    expected: Sequence[Expected],
    options: argparse.Namespace,
    program: Path | None = None,
) -> str:
    """Run a description with those commands: YES, or what is wrong."""
    with tempfile.NamedTemporaryFile("w", suffix=".commands") as script:
        script.write(commands)
        script.flush()
        try:
            done = subprocess.run(
                [*TELEMARK, file, "--yes", "--commands", script.name,
                 *(["--p4", str(program)] if program else []),
                 "--target", options.target, "--time", options.time],
                capture_output=True, text=True, check=False, timeout=LONGEST_S,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"no: it took more than {LONGEST_S} s"
    if options.only:
        print(done.stdout, done.stderr)
    if done.returncode:
        return f"no: status {done.returncode}: {done.stderr.strip()}"
    wrong = judged(expected, done.stdout.replace("\r", ""))
    return YES if wrong is None else f"no: {wrong}"


def judged(expected: Sequence[Expected], output: str) -> str | None:
    """What is wrong; None: nothing."""
    for each in expected:
        if callable(each):
            if (wrong := each(output)) is not None:
                return wrong
        elif not re.search(each, output):
            return f"no {each!r}"
    return None


def summed_up(verdicts: Sequence[str], options: argparse.Namespace) -> int:
    """Tell how many do as they should; the exit status. `verdicts` are those that were asked."""
    right = verdicts.count(YES)
    print(f"{right} of {len(verdicts)} do as their text says: "
          f"{options.target}, {options.time} time")  # fmt: skip
    return 0 if right == len(verdicts) else 1


def until(text: str, file: str) -> str:
    """A command that waits until something is in a file: programs begin when the machine lets
    them."""
    return f"sh until grep -q '{text}' $TMPDIR/{file}; do sleep 0.2; done"


def receiving(host: str) -> str:
    """The exercise's receiver at a host, once it listens."""
    begin = f"{host} python3 -u receive.py > $TMPDIR/{host} 2>&1 &"
    return f"{begin}\n{until('sniffing', host)}\nsh sleep 0.5"


def got_through(output: str) -> tuple[bool, ...]:
    """Which of the runs of `iperf` got through."""
    return tuple("bits/sec" in part for part in output.split("mininet> iperf ")[1:])
