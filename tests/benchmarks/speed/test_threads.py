"""The benchmark threads.py: its smallest run, and its claims."""

import csv
from pathlib import Path
from types import ModuleType

import loaded
import pytest

from telemark.errors import IDLE_MACHINE, TestbedError

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "speed" / "threads.py"

# Runs the benchmark without the change to one thread, which depends on the load of the machine.
PARALLEL = f"""
import runpy, sys
from minip4.simulator.virtual import Virtual

def create(self, *arguments, **options):
    original(self, *arguments, **options)
    self.stay_parallel()

original, Virtual.__init__ = Virtual.__init__, create
sys.path.insert(0, {str(SCRIPT.parent)!r})
sys.argv[0] = {str(SCRIPT)!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_both_record_the_same(tmp_path: Path) -> None:
    script = tmp_path / "parallel.py"
    script.write_text(PARALLEL)
    small = ("--time", "virtual", "--quick", "--flows", "200", "--packets", "10")
    done = loaded.run(script, "--out", str(tmp_path), *small)
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "samples.csv").open() as file:
        one, two, *apart = csv.DictReader(file)
    assert (one["threads"], two["threads"]) == ("1", "2")
    assert [(each["threads"], each["apart"]) for each in apart] == [("1", "2")] * 2
    assert {(each["digest"], each["events"]) for each in (two, *apart)} == {
        (one["digest"], one["events"])
    }
    assert float(one["crossed"]) == 0 < float(two["crossed"])


@pytest.mark.parametrize(
    ("wall_s", "cpu_s", "memory_mb", "broken"),
    [(0.5, 0.99, 100, set()), (0.5, 0.9, 100, set()), (0.6, 0.99, 100, {0}),
     (0.5, 0.99, 8001, {1})],
)  # fmt: skip
def test_claims(
    wall_s: float, cpu_s: float, memory_mb: float, broken: set[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import threads  # noqa: PLC0415

    assert isinstance(threads, ModuleType)
    samples = [
        threads.Sample(number, 1000, 10.0, count, 7, took_s, cpu_s, 0, 1, 0, 1, memory_mb, "")
        for number in range(3)
        for count, took_s in ((1, 1.0), (2, wall_s))
    ]
    checks = threads.claims(samples)
    assert {number for number, check in enumerate(checks) if not check.passed} == broken


@pytest.mark.parametrize(
    ("cpu_s", "walls_s", "words"),
    [(0.9, [0.6] * 3, "1.67 times as fast as one thread, but the one-thread run had a core for "
        "only 90%"),
     (0.99, [0.6, 0.5, 0.6], "measured 1.67 to 2 in 3 rounds")],
)  # fmt: skip
def test_a_busy_machine_decides_nothing(
    cpu_s: float, walls_s: list[float], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import threads  # noqa: PLC0415

    assert isinstance(threads, ModuleType)
    samples = [
        threads.Sample(number, 1000, 10.0, count, 7, took_s, cpu_s, 0, 1, 0, 1, 100, "")
        for number, wall_s in enumerate(walls_s)
        for count, took_s in ((1, 1.0), (2, wall_s))
    ]
    with pytest.raises(TestbedError, match=f"run invalid.*{words}.*{IDLE_MACHINE}"):
        threads.claims(samples)


def test_a_core_that_others_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of an invalid run shows for how much of the time a thread had a core.

    The runs of one thread had a core all the time. In the runs of two threads, one thread had a
    core half the time.
    """
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import threads  # noqa: PLC0415

    assert isinstance(threads, ModuleType)
    before = {1: threads.Scheduling(5, 5, 1), 2: threads.Scheduling(0, 0, 0)}
    after = {1: threads.Scheduling(105, 5, 1), 2: threads.Scheduling(50, 50, 7)}
    share, preemptions = threads.contention(before, after)
    assert (share, preemptions) == (0.5, 7)
    samples = [
        threads.Sample(number, 1000, 10.0, count, 7, took_s, 0.99, 0, 1, 0, 1, 100, "", 1, had, 7)
        for number in range(3)
        for count, took_s, had in ((1, 1.0, 1.0), (2, 1.4, share))
    ]
    words = (
        f"run invalid: 0.71 times.* a thread had a core for 50% .* .7 involuntary.*{IDLE_MACHINE}"
    )
    with pytest.raises(TestbedError, match=words):
        threads.claims(samples)


def test_the_ratio_that_the_machine_can_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """The highest possible ratio of two threads to one follows from two independent parallel runs.

    Two parallel runs take 1.25 times as long as one run, so the ratio is at most 2 / 1.25 = 1.6.
    """
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import threads  # noqa: PLC0415

    assert isinstance(threads, ModuleType)
    samples = [
        threads.Sample(
            number, 1000, 10.0, 1, 7, took_s * (1 + number), 1, 0, 1, 0, 1, 100, "", apart
        )
        for number in range(2)
        for took_s, apart in ((1.0, 1), (1.1, 2), (1.25, 2))
    ]
    assert threads.max_times(samples, 1000, 10.0, 2) == [pytest.approx(1.6)] * 2
    assert len(threads.summary(samples).rows) == 2
