"""Run networks of other projects with `telemark run` and check the output."""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from telemark.session.cli import Parser

# Either a pattern that the output must contain, or a function from the output to an error or None.
Expected: TypeAlias = str | Callable[[str], str | None]

TELEMARK = [sys.executable, "-m", "telemark.cli", "run"]
TIMEOUT_S = 180
PINGALL = "pingall"
ALL_ANSWERED = r"\b0% dropped"  # \b, because 100% must not match
YES = "yes"  # verdict of a run that passed


def make_parser(description: str | None, of: str) -> Parser:
    """Return a parser with the arguments that all compatibility scripts share."""
    made = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("clone", type=Path, help=f"folder of a clone of {of}")
    made.add_argument("--target", choices=("minip4", "bmv2"), default="minip4")
    made.add_argument("--time", choices=("real", "virtual"), default="real")
    made.add_argument("--only", metavar="NAME", help="run one exercise and print its output")
    return made


def run_and_check(
    file: Path,
    commands: str,
    expected: Sequence[Expected],
    options: argparse.Namespace,
    program: Path | None = None,
) -> str:
    """Run a network with commands; return YES or the error."""
    with tempfile.NamedTemporaryFile("w", suffix=".commands") as script:
        script.write(commands)
        script.flush()
        try:
            done = subprocess.run(
                [*TELEMARK, file, "--yes", "--commands", script.name,
                 *(["--p4", str(program)] if program else []),
                 "--target", options.target, "--time", options.time],
                capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"no: timed out after {TIMEOUT_S} s"
    if options.only:
        print(done.stdout, done.stderr)
    if done.returncode:
        return f"no: exit status {done.returncode}: {done.stderr.strip()}"
    wrong = find_error(expected, done.stdout.replace("\r", ""))
    return YES if wrong is None else f"no: {wrong}"


def find_error(expected: Sequence[Expected], output: str) -> str | None:
    """Return the first error in the output, or None."""
    for each in expected:
        if callable(each):
            if (wrong := each(output)) is not None:
                return wrong
        elif not re.search(each, output):
            return f"no {each!r}"
    return None


def print_summary(verdicts: Sequence[str], options: argparse.Namespace) -> int:
    """Print the number of networks that passed; return the exit status."""
    right = verdicts.count(YES)
    print(f"{right} of {len(verdicts)} passed: {options.target}, {options.time} time")
    return 0 if right == len(verdicts) else 1


def wait_for_text(text: str, file: str) -> str:
    """Return a command that waits until a file contains a text."""
    return f"sh until grep -q '{text}' $TMPDIR/{file}; do sleep 0.2; done"


def start_receiver(host: str) -> str:
    """Return commands that start the receiver of the exercise and wait until it listens."""
    begin = f"{host} python3 -u receive.py > $TMPDIR/{host} 2>&1 &"
    return f"{begin}\n{wait_for_text('sniffing', host)}\nsh sleep 0.5"


def find_connected_runs(output: str) -> tuple[bool, ...]:
    """Return whether each run of `iperf` connected."""
    return tuple("bits/sec" in part for part in output.split("mininet> iperf ")[1:])
