"""Sweeps on Dask workers give the same bytes. A killed worker loses only its own runs."""

import argparse
import gc
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import scripts
from loaded import StartExperiment

from telemark.errors import TestbedError
from telemark.session import cli
from telemark.sweep import cluster, options
from telemark.sweep.task import deserialize

distributed = pytest.importorskip(
    "distributed", reason=f"Dask is not installed: {cluster.INSTALL}", exc_type=ImportError
)
dask = pytest.importorskip("dask")
worker = pytest.importorskip("telemark.sweep.dask_worker")

# Timeout of a test. It is long, because a worker may have to wait for a CPU, and the test cannot
# subtract this time.
PATIENCE_S = 300
HEAD = """
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from telemark.errors import TestbedError
from telemark.sweep.runs import sweep
HERE = Path(__file__).parent
@dataclass(frozen=True)
class Found:
    number: int
    at_ns: int
def note(number):
    with (HERE / "did").open("a") as file:
        file.write(f"{number} {os.getpid()} {os.getppid()}\\n")
    begun = [line.split()[0] for line in (HERE / "did").read_text().splitlines()]
    return begun.count(str(number)) == 1
"""
SWEEP = """
found = await sweep(measure, [(number,) for number in range(4)], run)
assert all(type(each) is Found for each in found)
return Report([{"found": str(each)} for each in found], [Check("runs", len(found), 4)])
"""
FOUND = [f"Found(number={number}, at_ns=1000000000)" for number in range(4)]


@pytest.fixture(scope="module")
def workers() -> Iterator[Any]:
    """A scheduler with two worker processes on this machine.

    A killed worker is restarted. On a loaded machine, this may take longer than 15 s. Dask would
    then continue without the worker.
    """
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": f"{PATIENCE_S} s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as both,
    ):
        yield both


@pytest.fixture
def scheduler(workers: Any) -> str:
    """The address of the scheduler, when both workers have connected."""
    workers.wait_for_workers(2, timeout=PATIENCE_S)
    return str(workers.scheduler_address)


def did(folder: Path) -> list[tuple[int, int, int]]:
    """Return the started runs: number, process, and worker."""
    path = folder / "did"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(n), int(process), int(of)) for n, process, of in map(str.split, lines)]


def until_gone(process: int) -> None:
    for _ in range(100 * PATIENCE_S):
        if not Path(f"/proc/{process}").exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"process {process} is still there")


def test_the_bytes_are_the_same_of_any_threads_jobs_and_workers(
    scheduler: str, start_experiment: StartExperiment, tmp_path: Path
) -> None:
    head = f"""
import argparse
import sys
sys.path.insert(0, {str(scripts.EXPERIMENTS)!r})
import starter
from telemark.sweep.runs import sweep_seeds
"""
    body = """
few = argparse.Namespace(flows=30, rate=100)  # that share counters, by the seed
found = await sweep_seeds(starter.measure, [(0.1, few)], [7, 8], run)
return Report(
    [{**sample, "accounting": str(accounting)}
     for of_eps in found for samples, accounting in of_eps for sample in samples],
    [Check("seeds", len(found[0]), 2)],
)
"""
    left = []
    for spread in (
        ("--threads", "1", "--jobs", "1"),
        ("--threads", "2", "--jobs", "2"),
        ("--threads", "2", "--scheduler", scheduler),
    ):
        done = start_experiment(body, "--time", "virtual", "--again", *spread, head=head)
        output, errors = done.communicate(PATIENCE_S)
        assert done.wait() == 0, output + errors
        left.append((tmp_path / "out" / "samples.csv").read_bytes())
    assert len({*left}) == 1
    estimates = [row["estimate"] for row in scripts.samples(tmp_path / "out")]
    assert len(estimates) == 2 * 30
    assert estimates[:30] != estimates[30:]  # otherwise, equal bytes would prove nothing


def test_what_is_killed_costs_its_run_only(
    scheduler: str, start_experiment: StartExperiment, tmp_path: Path
) -> None:
    """A killed worker or process costs only its own run, which is then repeated.

    The test kills a worker, and then the process of a run. The results are objects of a class that
    the script defines.
    """
    deadly = """
async def measure(number, run):
    is_first = note(number)
    if is_first and number == 1:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    if is_first and number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return Found(number, run.clock.now_ns())
"""
    done = start_experiment(SWEEP, "--time", "virtual", "--scheduler", scheduler,
                            head=HEAD + deadly)  # fmt: skip
    output, errors = done.communicate(PATIENCE_S)
    assert done.wait() == 0, output + errors
    assert [row["found"] for row in scripts.samples(tmp_path / "out")] == FOUND
    begun = did(tmp_path)
    times = Counter(number for number, _, _ in begun)
    assert times[1] == times[2] == 2
    assert {*times} == {*range(4)}
    # the worker may have finished a run whose result was not yet fetched
    assert times[0] + times[3] <= 3
    for number in (1, 2):
        assert len({process for n, process, _ in begun if n == number}) == 2
    assert len({of for n, _, of in begun if n == 1}) == 2


def test_an_end_leaves_nothing_at_workers_and_what_was_done_is_kept(
    scheduler: str, start_experiment: StartExperiment, tmp_path: Path
) -> None:
    """At the end of a sweep, its processes at the workers end, and its finished runs stay cached.

    This also holds after SIGKILL. A later sweep without workers uses the cached runs.
    """
    waits = """
async def measure(number, run):
    note(number)
    while number > 1 and not (HERE / "go").exists():
        time.sleep(0.01)
    return Found(number, run.clock.now_ns())
"""
    for number, runs in ((signal.SIGINT, 4), (signal.SIGKILL, 2)):
        ended = start_experiment(SWEEP, "--time", "virtual", "--scheduler", scheduler,
                                 head=HEAD + waits)  # fmt: skip
        kept, until_s = tmp_path / "out" / ".runs", time.monotonic() + PATIENCE_S
        # the results of 0 and 1 have arrived
        while len(did(tmp_path)) < runs or len([*kept.glob("[!.]*")]) < 2:
            assert ended.poll() is None, ended.communicate(PATIENCE_S)
            assert time.monotonic() < until_s, did(tmp_path)
            time.sleep(0.01)
        ended.send_signal(number)
        output, errors = ended.communicate(PATIENCE_S)
        assert ended.wait() == (130 if number == signal.SIGINT else -9), output + errors
        assert errors == ("" if number == signal.SIGKILL else "\nexample: interrupted\n")
        for _, process, _ in did(tmp_path)[-2:]:
            until_gone(process)
        (tmp_path / "did").unlink()
    (tmp_path / "go").touch()
    last = start_experiment(SWEEP, "--time", "virtual", head=HEAD + waits)
    output, errors = last.communicate(PATIENCE_S)
    assert last.wait() == 0, output + errors
    assert sorted(n for n, _, _ in did(tmp_path)) == [2, 3]
    assert [row["found"] for row in scripts.samples(tmp_path / "out")] == FOUND


def test_an_error_of_a_run_is_told_as_here(
    scheduler: str, start_experiment: StartExperiment
) -> None:
    wrong = 'async def measure(number, run):\n    raise TestbedError(f"nothing of {number}")\n'
    done = start_experiment(SWEEP, "--time", "virtual", "--scheduler", scheduler,
                            head=HEAD + wrong)  # fmt: skip
    _, errors = done.communicate(PATIENCE_S)
    assert (done.wait(), errors) == (2, "example: error: nothing of 0\n")


@pytest.mark.parametrize(
    ("differs", "words"),
    [
        ({"time": "real"}, "--scheduler: not available in real time"),
        ({"jobs": 2}, "--scheduler: cannot be combined with --jobs"),
        ({"keep": True}, "--scheduler: cannot be combined with --keep"),
        ({"watch": True}, "--scheduler: cannot be combined with --watch"),
    ],
)
def test_what_does_not_go_with_it(
    differs: dict[str, object], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fits = {"time": "virtual", "jobs": None, "keep": False, "watch": False, "threads": 1,
            "scheduler": "tcp://a:1"}  # fmt: skip
    options.check(cli.Parser(), argparse.Namespace(**fits))
    with pytest.raises(SystemExit, match="2"):
        options.check(cli.Parser(), argparse.Namespace(**{**fits, **differs}))
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere", "ftp://127.0.0.1:1", ""])
def test_nobody_answers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ANSWER_S", 0.2)
    with pytest.raises(TestbedError, match="cannot connect to a Dask scheduler"):
        next(cluster.outcomes([], [], address, print))
    # Destroy the failed client in this thread. If the thread of the next client destroyed it, this
    # thread would wait for itself.
    gc.collect()


def test_without_dask_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        TestbedError, match=re.escape(f"--scheduler: Dask is not installed; run {cluster.INSTALL}")
    ):
        next(cluster.outcomes([], [], "tcp://127.0.0.1:1", print))


def test_a_worker_with_another_checkout_or_other_packages_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text("")
    ours = [*Path(worker.__file__).parent.glob("*.py")]
    here = worker.CheckoutFingerprint.of(script, ours)
    assert here.difference() == ""
    versions = {**here.versions, "numpy": "1"}
    assert re.match(
        r"numpy [\d.]+ differs from the client's 1$", replace(here, versions=versions).difference()
    )
    script.write_text("1")
    assert here.difference() == f"{script} differs from the client's file; update the checkout"
    (outcome,) = [deserialize(worker.run_task(b"", here))]
    assert outcome.failure is not None
    assert re.match(r"worker on \S+, process \d+: .* differs from", outcome.failure.line or "")


def test_a_worker_that_is_older_than_its_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = worker.CheckoutFingerprint.of(Path(__file__), Path(worker.__file__).parent.glob("*.py"))
    monkeypatch.setitem(worker._LOADED, "telemark/sweep/task.py", "older")
    problem = "telemark/sweep/task.py has changed since the worker started; restart the worker"
    assert here.difference() == problem


def test_a_script_that_cannot_be_imported_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "example.py"
    # This function would ask Dask, which does not run in this test.
    monkeypatch.setattr(worker, "_is_cancelled", lambda: False)
    script.write_text("from telemark.session import cli\ncli.main(__file__, None, None)\n")
    process = worker._Process(worker.CheckoutFingerprint.of(script, []))
    failure = deserialize(process.run_task(b"", tmp_path)).failure
    process.end()
    assert failure is not None
    assert failure.line == (
        "example.py: cli.main() runs when another process imports the script; call it below "
        '`if __name__ == "__main__":`'
    )
