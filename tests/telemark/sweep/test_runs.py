"""Sweeps give the same results for any distribution of runs to processes.

A killed or interrupted sweep loses only the current runs.
"""

import os
import re
import signal
import time
from pathlib import Path

import pytest
import scripts
from loaded import Started, StartExperiment

HEAD = """
import os
import signal
import time
from pathlib import Path
from telemark.errors import TestbedError
from telemark.sweep.runs import sweep, sweep_seeds
HERE = Path(__file__).parent
def note(number):
    with (HERE / "did").open("a") as file:
        file.write(f"{number} of {os.getpid()}\\n")
"""
SWEEP = """
found = await sweep(measure, [(number,) for number in range(4)], run)
return Report([{"found": str(each)} for each in found], [Check("runs", len(found), 4)])
"""
SEEDS = """
found = await sweep_seeds(measure, [("a",), ("b",)], [7, 8], run)
return Report([{"found": str(each)} for each in found], [Check("settings", len(found), 2)])
"""
VIRTUAL = ("--time", "virtual")


def did(folder: Path) -> list[tuple[int, int]]:
    """Return the started runs and their processes."""
    path = folder / "did"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(number), int(process)) for number, _, process in map(str.split, lines)]


def numbers(folder: Path) -> list[int]:
    return sorted(number for number, _ in did(folder))


def until_begun(folder: Path, count: int, started: Started) -> list[int]:
    """Wait until this number of runs has started; return their processes."""
    while len(did(folder)) < count:
        assert started.poll() is None, started.communicate()
        time.sleep(0.01)
    return [process for _, process in did(folder)]


def is_gone(process: int) -> bool:
    for _ in range(6000):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_each_run_is_one_of_its_own(
    start_experiment: StartExperiment, tmp_path: Path, jobs: str
) -> None:
    """Each run has its own clock, which begins at 1 s. Results are in the order of runs."""
    head = HEAD + (
        "async def measure(number, run):\n"
        "    began = run.clock.now_ns()\n"
        "    time.sleep(0.1 * (number == 0))\n"
        "    await run.clock.sleep_until(2_000_000_000 + number)\n"
        "    return number, run.seed, began, run.clock.now_ns()\n"
    )
    done = start_experiment(SWEEP, *VIRTUAL, "--jobs", jobs, head=head)
    output, errors = done.communicate()
    assert done.wait() == 0, output + errors
    assert [row["found"] for row in scripts.samples(tmp_path / "out")] == [
        f"({n}, 1, 1000000000, {2_000_000_000 + n})" for n in range(4)
    ]


def test_each_setting_has_each_seed(start_experiment: StartExperiment, tmp_path: Path) -> None:
    head = HEAD + "async def measure(name, run):\n    return name, run.seed\n"
    done = start_experiment(SEEDS, *VIRTUAL, head=head)
    output, errors = done.communicate()
    assert done.wait() == 0, output + errors
    rows = [row["found"] for row in scripts.samples(tmp_path / "out")]
    assert rows == ["[('a', 7), ('a', 8)]", "[('b', 7), ('b', 8)]"]


def test_networks_are_the_same_in_any_number_of_processes(tmp_path: Path) -> None:
    left = []
    for jobs in ("1", "2"):
        out = tmp_path / jobs
        done = scripts.run("starter", *VIRTUAL, "--quick", "--flows", "5", "--rate", "100",
                           "--jobs", jobs, "--keep", "--out", str(out))  # fmt: skip
        assert done.returncode in (0, 1), done.stdout + done.stderr
        assert sorted(path.name for path in (out / "run").iterdir()) == [
            "about.txt", "eps-0.05", "eps-0.1",
        ]  # fmt: skip
        summary = (out / "summary.json").read_text()
        left.append([(out / "samples.csv").read_bytes(), (out / "starter.png").read_bytes(),
                     summary.partition('"checks"')[2]])  # fmt: skip
    assert left[0] == left[1]


KILLS = (
    HEAD
    + """
async def measure(number, run):
    note(number)
    if number == 2 and %s:
        os.kill(os.getpid(), signal.%s)
    return number
"""
)


def test_a_process_that_is_killed_costs_its_run_only(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    head = KILLS % ("(HERE / 'did').read_text().count('2 of') == 1", "SIGKILL")
    done = start_experiment(SWEEP, *VIRTUAL, "--jobs", "2", head=head)
    output, errors = done.communicate()
    assert done.wait() == 0, output + errors
    assert numbers(tmp_path) == [0, 1, 2, 2, 3]
    assert len(scripts.samples(tmp_path / "out")) == 4


@pytest.mark.parametrize(
    ("name", "status", "kind", "cause"),
    [
        ("SIGKILL", 2, "example: error", r"SIGKILL, from another process; the largest process used "
         r"[\d,]+ MB, [\d,]+ of [\d,]+ MB are available; use fewer --jobs if memory is short"),
        ("SIGSEGV", 3, "telemark.sweep.worker_process.CrashError",
         r"SIGSEGV \(Segmentation fault\)"),
    ],
)  # fmt: skip
def test_a_run_whose_process_dies_three_times_ends_the_sweep_with_the_signal(
    start_experiment: StartExperiment, name: str, status: int, kind: str, cause: str
) -> None:
    """A run whose process dies three times ends the sweep, and the error names the signal.

    A crash (SIGSEGV) counts as a fault in the program. SIGKILL comes from another process, so it
    counts as an unsuitable environment.
    """
    done = start_experiment(SWEEP, *VIRTUAL, "--jobs", "2", head=KILLS % ("True", name))
    _, errors = done.communicate()
    assert done.wait() == status
    last_line = errors.splitlines()[-1]
    told = f"{kind}: run 3: its process died 3 times, the last time of {cause}"
    assert re.fullmatch(told, last_line), errors
    assert status == 3 or errors == f"{last_line}\n"


FAILS = (
    HEAD
    + """
async def measure(number, run):
    run.progress.say(f"says {number}")
    if number == 1:
        time.sleep(0.2)  # after the next one
    if number in (1, 2):
        raise %s(f"number {number}")
    return number
"""
)


def test_the_first_that_fails_is_told_in_one_line(start_experiment: StartExperiment) -> None:
    done = start_experiment(SWEEP, *VIRTUAL, "--jobs", "2", head=FAILS % "TestbedError")
    output, errors = done.communicate()
    assert (done.wait(), errors) == (2, "example: error: number 1\n")
    assert [line for line in output.splitlines() if "says" in line] == ["says 0", "says 1"]


def test_a_stumble_of_the_program_has_its_traceback(start_experiment: StartExperiment) -> None:
    done = start_experiment(SWEEP, *VIRTUAL, "--jobs", "2", head=FAILS % "LookupError")
    _, errors = done.communicate()
    assert done.wait() == 3
    assert 'raise LookupError(f"number {number}")' in errors
    assert errors.endswith("LookupError: number 1\n")
    assert "telemark/sweep" not in errors


def test_results_that_are_not_plain_data_are_reported(start_experiment: StartExperiment) -> None:
    head = HEAD + "async def measure(number, run):\n    return lambda: 0\n"
    done = start_experiment(SWEEP, *VIRTUAL, head=head)
    _, errors = done.communicate()
    assert done.wait() == 2
    assert errors.startswith("example: error: run.result: a function cannot be stored; ")
    assert errors.count("\n") == 1


WAITS = (
    HEAD
    + """
async def measure(number, run):
    note(number)
    while number > 1 and not (HERE / "go").exists():
        time.sleep(0.01)
    return number
"""
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_and_what_was_done_is_not_done_again(
    start_experiment: StartExperiment, tmp_path: Path, number: signal.Signals
) -> None:
    first = start_experiment(SWEEP, *VIRTUAL, "--jobs", "2", head=WAITS)
    processes = until_begun(tmp_path, 4, first)
    first.send_signal(number)
    output, errors = first.communicate()
    status = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    assert first.wait() == status, output + errors
    assert errors == ("" if number == signal.SIGKILL else "\nexample: interrupted\n")
    assert all(map(is_gone, processes))
    (tmp_path / "did").unlink()
    (tmp_path / "go").touch()
    second = start_experiment(SWEEP, *VIRTUAL, "--jobs", "2", head=WAITS)
    output, errors = second.communicate()
    assert second.wait() == 0, output + errors
    assert numbers(tmp_path) == [2, 3]
    assert "2 of 4 runs are from the cache" in output
    assert [row["found"] for row in scripts.samples(tmp_path / "out")] == [*"0123"]


def test_in_real_time_runs_are_one_after_the_other(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    if os.geteuid():
        pytest.skip("namespaces need root")
    head = HEAD + "async def measure(number, run):\n    note(number)\n    return run.seed\n"
    done = start_experiment(SWEEP, head=head)
    output, errors = done.communicate()
    assert done.wait() == 0, output + errors
    assert [number for number, _ in did(tmp_path)] == [0, 1, 2, 3]
    assert len({process for _, process in did(tmp_path)}) == 1
    assert [row["found"] for row in scripts.samples(tmp_path / "out")] == ["1"] * 4
    assert not (tmp_path / "out" / ".runs").exists()
