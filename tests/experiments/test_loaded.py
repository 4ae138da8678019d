"""Time limits of scripts that tests start do not count time spent waiting for a CPU."""

import subprocess
import time
from pathlib import Path

import pytest
from loaded import Started

LIMIT_S = 0.2


def a_script(folder: Path, body: str) -> Started:
    script = folder / "script.py"
    script.write_text(f"import os, time\n{body}\n")
    return Started(script)


def test_waiting_for_a_processor_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Started, "waited_s", lambda _: time.monotonic())
    started = a_script(tmp_path, f"time.sleep({2 * LIMIT_S})\nprint('done')")
    assert started.communicate(timeout=LIMIT_S) == ("done\n", "")


def test_a_script_that_does_not_end_is_reported(tmp_path: Path) -> None:
    started = a_script(tmp_path, "time.sleep(60)")
    with pytest.raises(subprocess.TimeoutExpired):
        started.communicate(timeout=LIMIT_S)
    started.kill()


def test_two_that_share_a_processor_wait_for_each_other(tmp_path: Path) -> None:
    body = "os.sched_setaffinity(0, {0})\nwhile True: pass"
    pair = [a_script(tmp_path, body) for _ in range(2)]
    deadline = time.monotonic() + 60
    while not all(each.waited_s() > 0.02 for each in pair):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for each in pair:
        each.kill()
        each.wait()
        assert each.waited_s() == 0
