"""The process that keeps a core awake: its core, its priority, and its end."""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from experiments.shared.xdp import flooded_server
from experiments.shared.xdp.flooded_server import Awake

EXPERIMENTS = Path(flooded_server.__file__).parents[1]
# Give the process a normal share of its core; otherwise it would end only when other processes let
# it run.
PARENT = """
import os
import signal
from experiments.shared.xdp import flooded_server
flooded_server.LAST_NICE, os.SCHED_IDLE = 0, os.SCHED_OTHER
print(flooded_server.Awake(0)._process.pid, flush=True)
signal.pause()
"""
LONGEST_S = 60


def test_it_is_on_its_core_behind_all_others() -> None:
    core = max(os.sched_getaffinity(0))
    with closing(Awake(core)) as kept:
        process_id = kept._process.pid
        assert os.sched_getaffinity(process_id) == {core}
        assert os.sched_getscheduler(process_id) == os.SCHED_IDLE
        group = Path(f"/proc/{process_id}/autogroup")
        assert not group.exists() or group.read_text().endswith(" nice 19\n")
    assert not Path(f"/proc/{process_id}").exists()


def test_it_never_sleeps() -> None:
    command = [sys.executable, "-c", flooded_server.LOOP, str(os.getpid())]
    with subprocess.Popen(command) as process:
        try:
            end_s = time.monotonic() + LONGEST_S
            while ticks(process.pid) < 10:  # more than it needs to start
                assert time.monotonic() < end_s
        finally:
            process.kill()


def ticks(process_id: int) -> int:
    """Return the CPU time of a process in clock ticks: utime in proc(5), stat."""
    return int(Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[11])


def test_it_ends_with_its_parent() -> None:
    """The process ends when its parent ends, even if the parent is killed."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, cwd=EXPERIMENTS, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        with open(os.pidfd_open(int(parent.stdout.readline())), "rb") as kept:
            assert not select.select([kept], [], [], 0)[0]
            parent.send_signal(signal.SIGKILL)
            assert select.select([kept], [], [], LONGEST_S)[0]


def test_it_ends_at_once_where_its_parent_has_gone_before() -> None:
    command = [sys.executable, "-c", flooded_server.LOOP, str(os.getpid() + 1)]
    assert subprocess.run(command, timeout=LONGEST_S, check=False).returncode == 0
