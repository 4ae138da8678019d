"""Search for p4-utils, which has its own Python environment.

p4-utils needs other versions of protobuf and grpcio than this project, so it runs in separate
processes.
"""

import os
import subprocess
from pathlib import Path

from telemark.errors import TestbedError

CHOICE = "P4UTILS_PYTHON"  # environment variable with the interpreter's path
# interpreter that provision.sh installs, and interpreter that p4-utils' own setup uses
PLACES = ("/opt/p4utils/bin/python", "/usr/bin/python3")
IN_ENV = Path(__file__).with_name("in_env")  # code that runs in the environment of p4-utils
IMPORT_S = 20.0


def interpreter() -> str:
    """Return the Python interpreter that has p4-utils. Raises TestbedError."""
    if chosen := os.environ.get(CHOICE):
        if problem := _problem(chosen):
            raise TestbedError(f"{CHOICE}={chosen}: expected a Python with p4-utils: {problem}")
        return chosen
    for place in PLACES:
        if _problem(place) is None:
            return place
    raise TestbedError(
        f"p4-utils: not found in {' or '.join(PLACES)}; use the VM (vagrant up), or set "
        f"{CHOICE}=/path/to/its/bin/python"
    )


def environment(python: str, *folders: Path) -> dict[str, str]:
    """Return the environment variables for a process with p4-utils' interpreter.

    PATH begins with the interpreter's folder; PYTHONPATH consists of `folders` and IN_ENV.
    """
    return os.environ | {
        "PATH": _join(Path(python).parent, os.environ.get("PATH")),
        "PYTHONPATH": _join(*folders, IN_ENV, os.environ.get("PYTHONPATH")),
    }


def _join(*places: Path | str | None) -> str:
    return os.pathsep.join(str(place) for place in places if place)


def _problem(python: str) -> str | None:
    """Return the reason why an interpreter cannot import p4-utils; None if it can."""
    try:
        done = subprocess.run(
            [python, "-c", "import p4utils"], capture_output=True, text=True, check=False,
            timeout=IMPORT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    errors = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return errors[-1] if done.returncode else None
