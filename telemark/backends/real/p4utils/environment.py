"""Where p4-utils is: the Python environment that it shares with nothing of this project.

It pins protobuf and grpcio to versions of its own, so it is talked to by processes alone.
"""

import os
import subprocess
from pathlib import Path

from telemark.errors import TestbedError

CHOICE = "P4UTILS_PYTHON"  # environment variable: its interpreter
PLACES = ("/opt/p4utils/bin/python", "/usr/bin/python3")  # the VM's, and p4-utils' own setup's
THERE = Path(__file__).with_name("in_env")  # what runs in it
LOOK_S = 20.0


def interpreter() -> str:
    """The Python interpreter that has p4-utils. Raises TestbedError."""
    if chosen := os.environ.get(CHOICE):
        if problem := _problem(chosen):
            raise TestbedError(f"{CHOICE}={chosen}: expected a Python with p4-utils: {problem}")
        return chosen
    for place in PLACES:
        if _problem(place) is None:
            return place
    raise TestbedError(
        f"no p4-utils: neither {' nor '.join(PLACES)} has it. The VM does (vagrant up); where it "
        f"is elsewhere, say {CHOICE}=/path/to/its/bin/python"
    )


def environment(python: str, *folders: Path) -> dict[str, str]:
    """Environment variables of a process there: its own `python` and `python3` come first.

    It imports from our folder THERE, and from further ones that are given.
    """
    return os.environ | {
        "PATH": _joined(Path(python).parent, os.environ.get("PATH")),
        "PYTHONPATH": _joined(*folders, THERE, os.environ.get("PYTHONPATH")),
    }


def _joined(*places: Path | str | None) -> str:
    return os.pathsep.join(str(place) for place in places if place)


def _problem(python: str) -> str | None:
    """Why p4-utils cannot be imported there, or None."""
    try:
        done = subprocess.run(
            [python, "-c", "import p4utils"], capture_output=True, text=True, check=False,
            timeout=LOOK_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
    return said[-1] if done.returncode else None
