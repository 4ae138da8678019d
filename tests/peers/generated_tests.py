"""Tests that p4testgen, p4c's test generator, writes, and explanations of those that are wrong."""

import contextlib
import functools
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from random_packets import PROGRAMS, REPOSITORY

P4TESTGEN = "p4testgen"
CASES = [program for program in PROGRAMS if (REPOSITORY / "p4src") in program.parents]
PORTS = (*range(9), 255)  # the same as in OPTIONS; 255 is the port of the controller
OPTIONS = (
    "--target", "bmv2", "--arch", "v1model", "--test-backend", "STF",
    "--max-tests", "20", "--seed", "1", "--track-coverage", "STATEMENTS",
    "--port-ranges", "0:8,255:255",
    "--packet-size-range", f"{14 * 8}:{1500 * 8}",  # in bits; an interface can transfer these
)  # fmt: skip
PATH_SELECTIONS = ("GREEDY_STATEMENT_SEARCH", "RANDOM_BACKTRACK")
"""The first one covers more of the RoCE programs, the second one more of AM-PM."""

ABORTS = {
    "does not match declaration (declare-fun bv": "p4testgen shifts only by as wide a number",
    "unimplemented extern method: truncate": "p4testgen has no truncate()",
    "vector::_M_range_check": "p4testgen has no hash with a CRCPolynomial",
}
"""Text of an error of p4testgen, and its cause. The tests that were generated before are run."""


def installed() -> bool:
    """Return whether p4testgen is on PATH."""
    return shutil.which(P4TESTGEN) is not None


@dataclass(frozen=True)
class Explanation:
    """Reason why p4testgen expects other packets than minip4 sends."""

    programs: tuple[str, ...]
    script: str
    """Regular expression: where it matches a script, the explanation applies."""
    failure: str
    """Regular expression of a difference from the expected packets."""
    cause: str

    def applies(self, program: Path, script: str, failure: str) -> bool:
        """Return whether this explanation applies to a failure of a script."""
        return (
            program.stem in self.programs
            and re.search(self.script, script) is not None
            and re.search(self.failure, failure) is not None
        )


@functools.cache
def generate(
    program: Path,
    options: tuple[str, ...] = OPTIONS,
    selections: tuple[str, ...] = PATH_SELECTIONS,
    timeout_s: float | None = None,
) -> dict[str, str]:
    """Return the files that p4testgen generates for a program: name -> text.

    If p4testgen needs longer than the timeout, return the files that it has generated so far.
    """
    tests: dict[str, str] = {}
    for selection in selections:
        with tempfile.TemporaryDirectory() as folder:
            command = [P4TESTGEN, *options, "--path-selection", selection, "--out-dir", folder]
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = subprocess.run(
                    [*command, str(program)],
                    capture_output=True, text=True, check=False, timeout=timeout_s,
                )  # fmt: skip
                said = done.stdout + done.stderr
                assert done.returncode == 0 or any(text in said for text in ABORTS), said
            for path in Path(folder).iterdir():
                tests[f"{selection} {path.stem}"] = path.read_text()
    return tests


def clone_ports(script: str) -> set[int]:
    """Return the ports of clone sessions in a script.

    The option `--port-ranges` does not limit them.
    """
    return {int(port) for port in re.findall(r"(?m)^mirroring_add \d+ (\d+)", script)}
