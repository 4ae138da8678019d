"""Timers in the process of an application in real time, without a network."""

import os
from functools import partial
from typing import Any

import pytest

from telemark.apps.application import HostInfo
from telemark.backends.real.application_host import ProcessHost
from telemark.backends.real.applications import CLOSE, CLOSED, Task

MS = 1_000_000


def test_no_timer_comes_once_the_network_is_about_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process calls no timer after the command to end, even if a timer is due.

    The command arrives while the process calls the first timer. The second timer becomes due while
    the process answers the command.
    """
    place = HostInfo("h1", "127.0.0.1", "", 1500, {})
    host = ProcessHost(Task(place, "lo", [], None))
    now_ns = [0]  # this clock advances only in this test, even on a loaded machine
    monkeypatch.setattr(host, "now_ns", lambda: now_ns[0])
    called: list[str] = []
    reading, writing = os.pipe()

    class Answers:
        def write(self, line: bytes) -> None:
            called.append(line.decode())

        def flush(self) -> None:
            now_ns[0] += 60 * MS
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
