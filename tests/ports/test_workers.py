"""The threads that move the frames of several switches (minip4/ports/c/worker.h)."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
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
    flags = [] if sanitizer == "none" else [f"-fsanitize={sanitizer}", "-g1"]
    run_stress(SOURCES, flags, tmp_path)


def test_a_task_may_run_while_another_thread_stops_it(tmp_path: Path) -> None:
    """The other thread is delayed when it has marked the task, but has not notified it yet."""
    test, worker, *others = SOURCES
    mark = "atomic_store(&task->is_stopping, true);"
    text = worker.read_text()
    assert text.count(mark) == 1
    delayed = tmp_path / "worker.c"
    pause = "nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);"
    delayed.write_text(text.replace(mark, mark + pause))
    run_stress([test, delayed, *others], [], tmp_path)


def run_stress(sources: Sequence[Path], flags: Sequence[str], folder: Path) -> None:
    """Compile the stress test and run it."""
    stress = folder / "stress"
    folders = [f"-I{path}" for path in INCLUDE]
    built = subprocess.run(
        [*find_compiler().command, "-std=gnu11", "-O2", WINDOW, *flags, *folders, *sources,
         "-o", stress, "-lpthread", "-Wl,--wrap=pthread_mutex_unlock"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "-fsanitize=thread" in flags and "tsan" in built.stderr:
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
