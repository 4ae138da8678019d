"""Search for bmv2's Thrift bindings, and for a Python interpreter that can import them.

bmv2 installs the bindings for the system's Python. The bindings also need the library `thrift`.
"""

import os
import shutil
import subprocess
from pathlib import Path

from telemark.errors import TestbedError

PROGRAM = "simple_switch_grpc"
CHOICE = "BMV2_PYTHON"  # environment variable with the interpreter's path
# the system's interpreter, and the interpreter of p4-utils (provision.sh)
PLACES = ("/usr/bin/python3", "/opt/p4utils/bin/python")
IMPORTS = "import thrift, bm_runtime.standard.Standard, sswitch_runtime.SimpleSwitch"
LOOK_S = 20.0


def has_thrift() -> bool:
    """Return whether simple_switch_grpc was compiled with Thrift."""
    try:
        done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=False,
                              timeout=LOOK_S)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "--thrift-port" in done.stdout + done.stderr


def interpreter() -> str:
    """Return the path of a Python interpreter that can import the bindings. Raises TestbedError."""
    chosen = os.environ.get(CHOICE)
    places = (chosen,) if chosen else PLACES
    problems = {place: _problem(place) for place in places}
    for place, problem in problems.items():
        if problem is None:
            return place
    why = "; ".join(f"{place}: {problem}" for place, problem in problems.items())
    raise TestbedError(
        f"no Thrift bindings of bmv2 ({why}); install python3-thrift and bmv2's Python modules, or "
        f"set {CHOICE}=/path/to/bin/python"
    )


def environment() -> dict[str, str]:
    """Return the environment variables of a process that imports the bindings.

    `make install` may install the bindings below /usr/local. Debian's Python does not search
    site-packages there.
    """
    folders = [*filter(None, [os.environ.get("PYTHONPATH")]), *map(str, _folders())]
    return os.environ | ({"PYTHONPATH": os.pathsep.join(folders)} if folders else {})


def _folders() -> list[Path]:
    """Return the folders below bmv2's installation prefix that contain its bindings."""
    if (program := shutil.which(PROGRAM)) is None:
        return []
    found = Path(program).resolve().parents[1].glob("lib/python3*/*-packages/sswitch_runtime")
    return sorted(each.parent for each in found)


def _problem(python: str) -> str | None:
    """Return the reason why an interpreter cannot import the bindings; None if it can."""
    try:
        done = subprocess.run(
            [python, "-c", IMPORTS], capture_output=True, text=True, check=False, timeout=LOOK_S,
            env=environment(),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    errors = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return errors[-1] if done.returncode else None
