"""The process of an application in real time, without a network: its timers."""

import os
import time
from functools import partial
from typing import Any

from testbed.application import Place
from testbed.real.application_host import ProcessHost
from testbed.real.applications import CLOSE, CLOSED, Task

MS = 1_000_000


def test_no_timer_comes_once_the_network_is_about_to_end() -> None:
    """It is told by a timer; its answer waits until one more would be due, and ends all."""
    place = Place("h1", "127.0.0.1", "", 1500, {})
    host = ProcessHost(Task(place, "lo", [], None))
    called: list[str] = []
    reading, writing = os.pipe()

    class Answers:
        def write(self, line: bytes) -> None:
            called.append(line.decode())

        def flush(self) -> None:
            time.sleep(0.06)
            os.close(writing)

    def end() -> None:
        os.write(writing, CLOSE)
        called.append("end")
        host.call_at(host.now_ns() + 50 * MS, partial(called.append, "late"))

    host.call_at(0, end)
    answers: Any = Answers()
    with os.fdopen(reading, "rb", buffering=0) as commands:
        host.serve(commands, answers)
    assert called == ["end", CLOSED.decode()]
