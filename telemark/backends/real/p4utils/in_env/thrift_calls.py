"""Calls to bmv2 switches by p4-utils' SimpleSwitchThriftAPI, for a process that has no Thrift.

A line of stdin is `{"port": 9091, "method": "register_read", "arguments": ["name", 3]}`: a Thrift
port, and a method of that class. The line of stdout that answers it is `{"result": ...}` or
`{"error": "..."}`. It ends with its stdin.
"""

import contextlib
import io
import json
import sys
from typing import Any

from p4utils.utils.sswitch_thrift_API import SimpleSwitchThriftAPI


def answer(port: int, method: str, arguments: list[Any]) -> dict[str, Any]:
    """Do one call. What the class has to say of a mistake it prints, and returns None.

    It learns the program's names when it is made: each call makes one, whatever was pushed since.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            switch = SimpleSwitchThriftAPI(port, thrift_ip="127.0.0.1")
            said.truncate(said.seek(0))  # that it obtains the program is no news
            result = getattr(switch, method)(*arguments)
    except (Exception, SystemExit) as error:
        return {"error": _one_line(said) or f"{type(error).__name__}: {error}"}
    if text := _one_line(said):
        return {"error": text}
    return {"result": result}


def _one_line(said: io.StringIO) -> str:
    return " ".join(said.getvalue().split())


def main() -> None:
    """Answer line by line."""
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
