"""The threads that move the frames of several switches (minip4/ports/c/worker.h)."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import wire
from test_ports import INCLUDE, MTU, Forwarder, port_counters
from wire import frame

from minip4 import ports
from minip4.native.build import program
from minip4.native.compiler import find_compiler
from minip4.ports.driver import Driver, Workers

SOURCES = [Path(__file__).parent / "worker_stress.c",
           *(ports.C_FOLDER / f"{name}.c" for name in ("worker", "memory_link"))]  # fmt: skip
WINDOW = "-DWINDOW_NS=UINT64_C(50000)"  # so that tasks are often moved


@pytest.mark.parametrize("sanitizer", ["none", "thread", "address,undefined"])
def test_tasks_that_are_moved_and_restarted_lose_no_frame(sanitizer: str, tmp_path: Path) -> None:
    stress = tmp_path / "stress"
    flags = [] if sanitizer == "none" else [f"-fsanitize={sanitizer}", "-g1"]
    folders = [f"-I{folder}" for folder in INCLUDE]
    built = subprocess.run(
        [*find_compiler().command, "-std=gnu11", "-O2", WINDOW, *flags, *folders, *SOURCES,
         "-o", stress, "-lpthread", "-Wl,--wrap=pthread_mutex_unlock"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if sanitizer == "thread" and "tsan" in built.stderr:
        pytest.skip("the compiler has no ThreadSanitizer")
    assert (built.returncode, built.stderr) == (0, "")
    # ThreadSanitizer does not support all layouts of a random address space, nor a preloaded
    # AddressSanitizer
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    done = subprocess.run(
        ["setarch", "-R", stress], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_crash_is_reported_with_the_device_id() -> None:
    sources = [Path(__file__).parent / "worker_crash.c", *SOURCES[1:]]
    done = subprocess.run(
        [program(sources, include=INCLUDE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGSEGV
    assert done.stderr == "minip4: device 7 crashed (signal 11)\n"


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(2)
    yield workers
    workers.close()


def thread_times_s(name: str) -> list[float]:
    """Return the CPU times of the threads of this process that have this name."""
    times = []
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            times.append(int((task / "schedstat").read_text().split()[0]) / 1e9)
    return times


def test_a_busy_driver_moves_to_another_thread(workers: Workers) -> None:
    work_ns, count = 50_000, 4_000
    with wire.namespace():
        drivers = []
        for number in (1, 2):
            for side in "ab":
                wire.veth(f"h{number}{side}", f"s{number}{side}", MTU)
            engine = Forwarder()
            engine.set_work(work_ns)
            ends = {1: f"s{number}a", 2: f"s{number}b"}
            drivers.append(Driver(engine, ends, workers=workers))
            drivers[-1].start()
        for host in ("h1a", "h2a"):
            with wire.end(host) as sender:
                for index in range(count):
                    sender.send(frame(60, index))
        for driver in drivers:
            driver.stop(60)
        sent = [port_counters(driver, 2)["transmitted_packets"] for driver in drivers]
    assert sent == [count, count]
    assert min(thread_times_s("minip4-ports")) > count * work_ns / 1e9 / 2
