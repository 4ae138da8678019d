"""telemark doctor: what is there and what is missing, and where each experiment can run."""

import argparse
from pathlib import Path

import pytest

from testbed import doctor
from testbed.run_all.catalogue import Experiment

OPTIONS = argparse.Namespace()


def programs(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are found, with all that experiments need."""
    programs(tmp_path, "unshare", "mnexec", "cc")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def found() -> dict[str, doctor.Finding]:
    return {finding.what: finding for finding in doctor.findings()}


def test_all_that_is_needed_is_there(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.run(OPTIONS) == 0
    assert found()["cc"].shown == str(path / "cc")
    said = capsys.readouterr().out
    assert "missing: apt install tshark" in said
    assert "ampm_loss" in said


@pytest.mark.parametrize("name", ["mnexec", "cc"])
def test_what_is_needed_and_missing_makes_status_2(path: Path, name: str) -> None:
    (path / name).unlink()
    assert doctor.run(OPTIONS) == 2
    assert found()[name].shown == "missing: ./setup.sh"


def test_what_xdp_needs_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(path, "clang")
    assert found()["clang"].shown == str(path / "clang")
    assert found()["nft"].shown == "missing: ./setup.sh"

    def none(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", none)
    assert "too old" in found()["libbpf"].shown


def test_without_namespaces_there_is_no_real_time(path: Path) -> None:
    (path / "unshare").write_text("#!/bin/sh\nexit 1\n")
    assert doctor.run(OPTIONS) == 2
    assert "--privileged" in found()["namespaces"].shown


@pytest.mark.parametrize(("load", "words"), [(0.5, "2 processors, 0.5 "), (1.5, "other work")])
def test_other_work_is_told_of(
    monkeypatch: pytest.MonkeyPatch, path: Path, load: float, words: str
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 9.0, 9.0))
    shown = found()["processors"].shown
    assert words in shown
    assert ("other work" in shown) == (load > 1)


def test_where_experiments_run(path: Path) -> None:
    loss, targets = (
        Experiment(Path(f"experiments/{name}.py")) for name in ("ampm_loss", "targets")
    )
    assert where(loss, has_bmv2=False) == ["yes", "yes", "no: see above"]
    assert where(loss, ready=False) == ["yes", "no: see above", "no: see above"]
    assert [answer[:2] for answer in where(targets)] == ["no"] * 3
    programs(path, "simple_switch_grpc")
    assert where(loss) == ["yes"] * 3
    assert where(targets)[1:] == ["yes", "yes"]
    in_the_kernel = Experiment(Path("experiments/xdp_drop.py"))
    assert where(in_the_kernel) == [
        "no: programs in the kernel are of real time alone", "yes", "no: it has no switch",
    ]  # fmt: skip


def where(experiment: Experiment, *, ready: bool = True, has_bmv2: bool = True) -> list[str]:
    return doctor.where(experiment, ready=ready, has_bmv2=has_bmv2)


@pytest.mark.parametrize("has_p4utils", [True, False])
def test_bmv2_takes_p4utils_too(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    has_p4utils: bool,
) -> None:  # fmt: skip
    programs(path, "simple_switch_grpc")
    (path / "python").write_text(f"#!/bin/sh\nexit {0 if has_p4utils else 1}\n")
    (path / "python").chmod(0o755)
    monkeypatch.setenv("P4UTILS_PYTHON", str(path / "python"))
    doctor.run(OPTIONS)
    [loss] = [line for line in capsys.readouterr().out.splitlines() if "ampm_loss" in line]
    assert loss.count("yes") == (3 if has_p4utils else 2)
