"""Task files of p4-utils.

A line is HOST START DURATION COMMAND. Instead of COMMAND, it may have a Python function and the
arguments of the function.

Examples: `h1 0 5 "ping 10.0.0.2"`, `h2 1 0 recv_udp_flow 5001`, `h1 2 5 flow --mod traffic --rate
10M`. Times are in seconds. A duration of 0 means unlimited.
"""

import shlex
from pathlib import Path

from importers.network import Task
from telemark.errors import TestbedError

COMMENTS = ("//", "#")
MODULE = "p4utils.utils.traffic_utils"  # module of the functions if a task has no --mod
FUNCTIONS = {
    "send_udp_flow",
    "recv_udp_flow",
    "send_tcp_flow",
    "recv_tcp_flow",
}  # functions of MODULE that tasks may call
KILL_S = 1  # seconds between SIGTERM and SIGKILL, as in p4-utils


def read_tasks(path: Path) -> list[tuple[str, Task]]:
    """Return the tasks in a file, each with the name of its host. Raises TestbedError."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TestbedError(f"{path}: cannot be read: {error}") from None
    return [
        _task(f"{path.name}:{number}", line)
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith(COMMENTS)
    ]


def _task(where: str, line: str) -> tuple[str, Task]:
    try:
        host, start, duration, *words = shlex.split(line)
        at_s, for_s = float(start), float(duration)
    except ValueError:
        words = []
    if not words or not (0 <= at_s < 1e9 and 0 <= for_s < 1e9):
        raise TestbedError(f'{where}: expected HOST START_S DURATION_S "COMMAND", such as '
                           'h1 0 5 "ping 10.0.0.2"')  # fmt: skip
    command = _command(where, words)
    return host, Task(at_s, f"timeout -k {KILL_S} {for_s:g} {command}" if for_s else command)


def _command(where: str, words: list[str]) -> str:
    """Return the shell command of a task.

    `words` are either one quoted command, or a function call.
    """
    exe, module, args, named = words[0], None, [], {}
    rest = iter(words[1:])
    for word in rest:
        if word.startswith("--") and len(word) > 2:
            value = next(rest, None)
            if value is None:
                raise TestbedError(f"{where}: {word}: expected a value after it")
            if word == "--mod":
                module = value
            else:
                named[word[2:]] = value
        else:
            args.append(word)
    if module is None and exe not in FUNCTIONS:
        return exe
    call = f"import {module or MODULE} as m; m.{exe}(*{args!r}, **{named!r})"
    return f"python3 -c {shlex.quote(call)}"
