"""The benchmark sweeps.py: started commands, comparison of samples, and claims."""

from pathlib import Path
from types import ModuleType

import pytest

from telemark.errors import TestbedError

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "speed" / "sweeps.py"
FAKE = """
import pathlib, sys
told = dict(each.partition("=")[::2] for each in sys.argv[1:])
out = pathlib.Path(told["--out"])
out.mkdir(parents=True, exist_ok=True)
(out / "samples.csv").write_text("\\n".join(f"{k}={v}" for k, v in told.items() if k != "--jobs"))
sys.exit(%d)
"""


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the benchmark as a module."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import sweeps  # noqa: PLC0415

    assert isinstance(sweeps, ModuleType)
    return sweeps


def test_an_experiment_is_run_anew_with_so_many_processes(
    sweeps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "FOLDER", tmp_path)
    (tmp_path / "one.py").write_text(FAKE % 0)
    found = [sweeps.measure("one", 0, jobs, tmp_path, quick=True) for jobs in (1, 2)]
    assert (tmp_path / "one" / "samples.csv").read_text() == (
        f"--time=virtual\n--out={tmp_path / 'one'}\n--quick=\n--seeds=2\n--again="
    )
    assert [each.jobs for each in found] == [1, 2]
    assert found[0].digest == found[1].digest
    assert found[0].digest != sweeps.measure("one", 0, 1, tmp_path, quick=False).digest
    kept = sweeps.measure("one", 0, 1, tmp_path, quick=True, is_kept=True)
    assert kept.is_kept
    assert "--again" not in (tmp_path / "one" / "samples.csv").read_text()
    both = sweeps.apart("one", 0, 2, tmp_path, quick=True)
    assert (both.at_once, both.jobs) == (2, 1)
    assert (tmp_path / "apart-1" / "one" / "samples.csv").exists()
    (tmp_path / "one.py").write_text(FAKE % 1)
    with pytest.raises(TestbedError, match="one: exit status 1"):
        sweeps.measure("one", 0, 1, tmp_path, quick=True)


def test_rounds_that_differ_decide_nothing(sweeps: ModuleType) -> None:
    samples = [
        sweeps.Sample("a", number, jobs, took_s, "", at_once, is_kept)
        for number, several_s in enumerate((7.0, 6.8, 7.0))
        for jobs, took_s, at_once, is_kept in (
            (1, 10.0, 1, False), (2, several_s, 1, False), (1, 1.0, 1, True), (1, 12.0, 2, False),
        )
    ]  # fmt: skip
    with pytest.raises(TestbedError, match=r"run invalid: a: .* measured 0.04 to 0.06 in 3 rounds"):
        sweeps.claims(samples, ["a"])


@pytest.mark.parametrize(("wall_s", "holds"), [(6.8, True), (7.0, False)])
def test_the_claim_is_compared_with_what_the_machine_can_reach(
    sweeps: ModuleType, wall_s: float, holds: bool
) -> None:
    """The claim compares the time of a sweep with the shortest possible time of the same round.

    One disturbed round of three does not matter.
    """
    samples = [
        sweeps.Sample(name, number, jobs, (number + 1) * took_s, "", at_once, is_kept)
        for number in range(3)
        for name in ("a", "b")
        for jobs, took_s, at_once, is_kept in (
            (1, 10.0, 1, False), (2, wall_s if number else 9.0, 1, False), (1, 1.0, 1, True),
            (1, 12.0, 2, False),
        )
    ]  # fmt: skip
    checks = sweeps.claims(samples, ["a", "b"])
    assert [check.measured for check in checks] == [pytest.approx(wall_s / 10 - 0.64)] * 2
    assert [check.passed for check in checks] == [holds, holds]


def test_the_smallest_possible_share(sweeps: ModuleType) -> None:
    """The smallest possible share follows from the time of two parallel commands.

    These commands take 1.2 times as long as one command. Therefore, two processes need at least 0.6
    of the sequential time for the parallel part of a sweep.
    """
    one = sweeps.Sample("a", 0, 1, 10.0, "")
    samples = [one, sweeps.Sample("a", 0, 2, 6.5, ""), sweeps.Sample("a", 0, 1, 12.0, "", 2),
               sweeps.Sample("a", 0, 1, 1.0, "", is_kept=True)]  # fmt: skip
    assert sweeps.min_shares(samples, "a") == [pytest.approx(0.1 + 0.9 * 0.6)]
    assert sweeps.shares(samples, "a") == [pytest.approx(0.65)]
