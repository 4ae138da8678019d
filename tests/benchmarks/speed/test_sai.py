"""The benchmark sai.py: a short run as users start it, and invalid options."""

import csv
import json
import subprocess
from pathlib import Path
from types import ModuleType

import loaded
import pytest

from telemark.errors import TestbedError

FOLDER = Path(__file__).parents[3] / "benchmarks" / "speed"
BOOKS = {"received": 7, "replicas": 2, "transmitted": 5, "ingress_drops": 3, "in_queues": 1}


@pytest.fixture
def sai(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    import sai  # noqa: PLC0415

    return sai


def run(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return loaded.run(FOLDER / "sai.py", "--quick", "--out", str(out), *options)


def test_a_short_run_measures_everything(tmp_path: Path) -> None:
    done = run(tmp_path)
    if done.returncode == 2:  # the machine was loaded
        assert "run invalid: " in done.stderr.splitlines()[-1], done.stderr
        return
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "samples.csv").open() as file:
        samples = {row["measure"]: float(row["value"]) for row in csv.DictReader(file)}
    for leads in ("nexthops", "groups"):
        assert samples[f"64 B, singles, SAI, to {leads}"] > 1
        assert 10 < samples[f"pipeline, SAI, to {leads}"] < 100_000
    checks = json.loads((tmp_path / "summary.json").read_text())["checks"]
    assert [c["measured"] for c in checks if c["name"].startswith("paced")] == [0, 0]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--program", str(FOLDER / "p4" / "ipv4_lpm.p4")), "does not have the structure of SAI: "),
        (("--program", "/none.p4"), "/none.p4"),
        (
            ("--p4info", "/none.txtpb"),
            "--p4info /none.txtpb: the file is not P4Info in text format: ",
        ),
    ],
)
def test_a_missing_sai_program_is_a_one_line_error(
    tmp_path: Path, options: tuple[str, ...], text: str
) -> None:
    done = run(tmp_path, *options)
    assert done.returncode == 2
    assert text in done.stderr.splitlines()[-1]


def test_entries_are_as_many_as_promised_and_all_different(sai: ModuleType) -> None:
    for translated in (True, False):
        made = sai.entries("groups", translated=translated, seed=1)
        tables = [entry.table_id for entry in made]
        assert tables.count("ipv4_table") == 10_000
        ternary = [e for e in made if e.table_id in ("acl_pre_ingress_table", "acl_ingress_table")]
        assert len(ternary) == 500
        places = {(e.table_id, str(e.match), e.priority) for e in made}
        assert len(places) == len(made)


@pytest.mark.parametrize(("transmitted", "off"), [(5, 0), (4, 1), (7, -2)])
def test_books(sai: ModuleType, transmitted: int, off: int) -> None:
    assert sai.accounting_mismatch({"engine": {**BOOKS, "transmitted": transmitted}}) == off


@pytest.fixture
def found() -> dict[str, list[float]]:
    """Return measured values of one round that satisfy every claim."""
    names = [
        f"{kind}, SAI, to {leads}"
        for leads in ("nexthops", "groups")
        for kind in ("pipeline", "64 B, singles")
    ]
    names += ["pipeline, IPv4 router, 10,000 routes", "64 B, singles, IPv4 router, 10 routes"]
    return {name: [1.0] for name in names}


def test_a_lost_packet_fails(sai: ModuleType, found: dict[str, list[float]]) -> None:
    for lost in (0, 1):
        flow = sai.Flow(100, 100 - lost, {"engine": BOOKS})
        failed = [c.name for c in sai.checks(found, [flow]) if not c.passed]
        assert failed == ["paced: packets lost"] * lost


def test_one_slow_round_is_no_verdict(sai: ModuleType, found: dict[str, list[float]]) -> None:
    found["64 B, singles, SAI, to groups"] = [0.3]
    with pytest.raises(TestbedError, match=r"run invalid: 64 B, singles, SAI, to groups"):
        sai.checks(found, [])
