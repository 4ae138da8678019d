"""Proxy for calls of p4-utils' SimpleSwitchThriftAPI, for a process without Thrift.

Each line of stdin is a call: `{"port": 9091, "method": "register_read", "arguments": ["name", 3]}`.
Each line of stdout is its answer: `{"result": ...}` or `{"error": "..."}`. Ends at EOF of stdin.
"""

import contextlib
import io
import json
import sys
from typing import Any

from p4utils.utils.sswitch_thrift_API import SimpleSwitchThriftAPI


def answer(port: int, method: str, arguments: list[Any]) -> dict[str, Any]:
    """Execute one call. The class prints errors, and returns None for them.

    Its constructor reads the names in the current program; therefore each call creates an object.
    """
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            switch = SimpleSwitchThriftAPI(port, thrift_ip="127.0.0.1")
            printed.truncate(printed.seek(0))  # discard output of the constructor
            result = getattr(switch, method)(*arguments)
    except (Exception, SystemExit) as error:
        return {"error": _one_line(printed) or f"{type(error).__name__}: {error}"}
    if text := _one_line(printed):
        return {"error": text}
    return {"result": result}


def _one_line(printed: io.StringIO) -> str:
    return " ".join(printed.getvalue().split())


def main() -> None:
    """Answer calls line by line."""
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
