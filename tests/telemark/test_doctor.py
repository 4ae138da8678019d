"""telemark doctor shows installed and missing dependencies, and which experiments can run."""

import argparse
import sys
from pathlib import Path

import pytest
from thrift_bindings import STAND_IN, stand_in_program

from telemark import doctor
from telemark.backends.real.targets.bmv2 import PROGRAM as BMV2
from telemark.run_all.catalogue import Experiment

OPTIONS = argparse.Namespace()


def programs(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH. It has all programs that experiments need."""
    programs(tmp_path, "unshare", "mnexec", "cc")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def found() -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in doctor.findings()}


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


def test_missing_dependencies_of_xdp_are_listed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize(
    ("load", "words"), [(0.5, "2 processors, load 0.5"), (1.5, "inconclusive")]
)
def test_other_work_is_told_of(
    monkeypatch: pytest.MonkeyPatch, path: Path, load: float, words: str
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 9.0, 9.0))
    shown = found()["processors"].shown
    assert words in shown
    assert ("inconclusive" in shown) == (load > 1)


def test_where_experiments_run(path: Path) -> None:
    loss, targets, drop, edge = (
        Experiment(Path(f"experiments/{name}.py"))
        for name in ("ampm_loss", "targets", "xdp_drop", "ebpf_edge")
    )
    assert doctor.availability(loss, ()) == ["yes"] * 3
    assert doctor.availability(loss, {BMV2}) == ["yes", "yes", "no: see above"]
    assert doctor.availability(loss, {doctor.REAL_TIME}) == [
        "yes",
        "no: see above",
        "no: see above",
    ]
    assert doctor.availability(loss, {doctor.EBPF}) == ["yes"] * 3
    assert [answer[:2] for answer in doctor.availability(targets, ())] == ["no"] * 3
    programs(path, BMV2)
    assert doctor.availability(targets, ())[1:] == ["yes", "yes"]
    of_real_time = "no: runs eBPF programs in the kernel: real time only"
    assert doctor.availability(drop, {BMV2}) == [of_real_time, "yes", "no: has no switch"]
    assert doctor.availability(edge, {BMV2}) == [
        of_real_time, "yes", "no: bmv2's clock differs from the clock of host edges"
    ]  # fmt: skip
    for lacking in (doctor.REAL_TIME, doctor.EBPF):
        for each in (drop, edge):
            assert doctor.availability(each, {lacking})[1] == "no: see above"


@pytest.mark.parametrize("missing", ["clang", "libbpf.so.1", "iptables-legacy", "nft", None])
def test_programs_in_the_kernel_do_not_run_without_what_xdp_needs(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    missing: str | None,
) -> None:  # fmt: skip
    programs(path, *({"clang", "iptables-legacy", "nft"} - {missing}))

    def load(name: str) -> None:
        if name == missing:
            raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", load)
    assert doctor.run(OPTIONS) == 0
    said = capsys.readouterr().out.splitlines()
    assert ["yes" in line for line in said if "xdp_drop" in line] == [missing is None]
    assert [line.count("yes") for line in said if "ampm_loss" in line] == [2]


@pytest.mark.parametrize("has_thrift", [True, False])
@pytest.mark.parametrize("has_bindings", [True, False])
def test_bmv2_alone_is_enough(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    has_thrift: bool, has_bindings: bool,
) -> None:  # fmt: skip
    """Experiments on bmv2 need neither p4-utils nor Thrift.

    The table still shows whether these are available.
    """
    stand_in_program(path, "--thrift-port" if has_thrift else "--device-id", monkeypatch)
    monkeypatch.setenv("P4UTILS_PYTHON", "/nowhere/python")
    monkeypatch.setenv("BMV2_PYTHON", sys.executable if has_bindings else "/nowhere/python")
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    shown = found()
    assert shown[BMV2].found == str(path / BMV2)
    assert shown["p4-utils"].shown == "missing: ./provision.sh"
    assert bool(shown["Thrift bindings"].found) == (has_thrift and has_bindings)
    if not has_thrift:
        assert "built with Thrift" in shown["Thrift bindings"].shown
    elif not has_bindings:
        assert "python3-thrift" in shown["Thrift bindings"].shown
    doctor.run(OPTIONS)
    [loss] = [line for line in capsys.readouterr().out.splitlines() if "ampm_loss" in line]
    assert loss.count("yes") == 3
