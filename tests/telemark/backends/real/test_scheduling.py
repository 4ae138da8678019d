"""Timeouts do not count time in which a process was runnable but did not run."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from telemark.backends.real import scheduling
from telemark.errors import TestbedError

LIMIT_S = 0.2
# One of several threads is always busy, as in a switch that forwards packets.
SPINS = """
import os, threading
os.sched_setaffinity(0, {0})
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()
threading.Event().wait()
"""

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python processes, which are killed when the test ends."""
    started = []

    def begin(code: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-S", "-c", code]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_waiting_for_a_processor_is_not_counted(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "runqueue_wait_s", lambda _: time.monotonic())
    process = start(f"import time; time.sleep({2 * LIMIT_S}); print('done')")
    assert scheduling.wait_for_output(process, LIMIT_S, "it") == "done\n"


def test_what_does_not_end_is_told_and_left_alone(start: Start) -> None:
    process = start("import time; time.sleep(60)")
    with pytest.raises(TestbedError, match=r"it: did not exit within 0\.2 s, not counting \d"):
        scheduling.wait_for_output(process, LIMIT_S, "it")
    assert process.poll() is None


def test_all_threads_of_a_process_count_until_it_ends(start: Start) -> None:
    pair = [start(SPINS) for _ in range(2)]
    deadline_s = time.monotonic() + 60
    while not all(scheduling.runqueue_wait_s(process.pid) > 0.1 for process in pair):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    for process in pair:
        process.kill()
        process.wait()
        assert scheduling.runqueue_wait_s(process.pid) == 0
