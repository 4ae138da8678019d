"""The benchmark virtual.py, started as users start it, with its smallest parameters."""

import csv
import subprocess
from pathlib import Path
from types import ModuleType

import loaded
import pytest

from telemark.errors import TestbedError

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "speed" / "virtual.py"


def run(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return loaded.run(SCRIPT, "--out", str(out), *options)


def test_fabrics_deliver_every_packet(tmp_path: Path) -> None:
    small = ("--switches", "10", "30", "--flows", "500", "--packets", "10", "--quick")
    done = run(tmp_path, "--time", "virtual", *small)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hops/s" in done.stdout
    with (tmp_path / "samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["switches"]) for row in rows] == [10, 30]
    for row in rows:
        assert int(row["packets"]) == 5000
        # A path within a pod crosses two leaves and a spine. A path to another pod also crosses a
        # core and a second spine.
        assert 4 * 5000 < int(row["hops"]) < 5 * 5000
    assert "mean M/D/1 waiting time" in done.stdout
    assert "holds" in done.stdout


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import virtual  # noqa: PLC0415

    return virtual


@pytest.mark.parametrize(
    ("slower", "large_ns", "large_mb", "broken"),
    [(1, 200, 500, set()), (3, 200, 500, set()), (1, 230, 500, {1}), (1, 200, 800, {2})],
)
def test_claims_are_ratios(
    virtual: ModuleType, slower: float, large_ns: float, large_mb: float, broken: set[int]
) -> None:
    samples = [
        virtual.Sample(number, switches, 9.9 * slower, 1, 1, 1 / ns, 1 / ns, ns * slower, mb)
        for number in range(3)
        for switches, ns, mb in ((10, 150, 250), (1000, large_ns, large_mb))
    ]
    checks = virtual.claims(samples, [50 * slower] * 3)
    assert {number for number, check in enumerate(checks) if not check.passed} == broken
    # a hop takes six times as long as the pipeline
    checks = virtual.claims(samples, [24 * slower] * 3)
    assert not checks[0].passed
    with pytest.raises(TestbedError, match=r"run invalid: cost per hop, 10 .* in 3 rounds"):
        virtual.claims(samples, [24 * slower, 50 * slower, 24 * slower])
