"""telemark watch: the choice of a run, and the page of a run that has no option --watch."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from loaded import Started, StartExperiment
from virtual_networks import Pair
from watching import events

from telemark.backends.real import isolation
from telemark.cli import main
from telemark.errors import TestbedError
from telemark.watch.announcement import announced, announcement
from telemark.watch.attach import find_run
from telemark.watch.measurement import started

A, B = Path("/runs/loss-a1"), Path("/runs/loss_2-b2")


@pytest.mark.parametrize(
    ("runs", "name", "found"),
    [
        ({A: True}, None, A),
        ({A: True, B: True}, "loss", A),
        ({A: True, B: True}, "loss_2-b2", B),
        ({A: True, B: False}, None, A),
    ],
    ids=["only", "experiment", "folder", "virtual"],
)
def test_a_run_is_found_by_its_name(runs: dict[Path, bool], name: str | None, found: Path) -> None:
    assert find_run(runs, name) == found


@pytest.mark.parametrize(
    ("runs", "name", "problem"),
    [
        ({}, None, "no run in real time; start one"),
        ({A: True, B: True}, None, "several runs in real time; add the name of one: loss-a1, loss"),
        ({A: True}, "delay", "no run delay; expected one of loss-a1"),
        ({A: False}, None, "cannot attach to virtual time (loss-a1); start the run with --watch"),
    ],
)
def test_without_one_run_the_problem_is_reported(
    runs: dict[Path, bool], name: str | None, problem: str
) -> None:
    with pytest.raises(TestbedError, match=re.escape(problem)):
        find_run(runs, name)


def test_users_are_told_that_root_owns_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TestbedError, match="use sudo"):
        find_run({}, None)


def test_without_a_run_the_status_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(isolation, "Path", lambda *_: tmp_path)
    assert main(["watch"]) == 2
    assert capsys.readouterr().err.startswith("telemark watch: error: no run in real time; ")


def test_a_run_in_this_process_has_no_namespaces() -> None:
    with isolation.run_folder("example") as folder:
        assert isolation.running()[folder] is False
    assert folder not in isolation.running()


def test_a_network_is_announced_while_it_runs() -> None:
    """The folder of the network may be at any depth in that of the run."""
    with isolation.run_folder("example") as run:
        folder = run / "setting" / "network"
        folder.mkdir(parents=True)
        assert announcement(run) is None
        with announced(folder, "network", Pair(), []):
            found = json.loads(announcement(run) or "")
            assert found == started("network", Pair(), [], found["began_ns"])
        assert announcement(run) is None
        assert [*folder.iterdir()] == []


BODY = """
from virtual_networks import WIRE, Pair
from telemark.network import Network
for name in ("first", "second"):
    with Network(Pair(), run, program=str(WIRE), name=name) as net:
        print(run.folder, flush=True)
        while not (run.folder / "go").exists():
            await asyncio.sleep(0.01)
    (run.folder / "go").unlink()
return Report([{"a": 1}], [Check("a", 1, 1, 0)])
"""
HEAD = f"import asyncio, sys\nsys.path.insert(0, {str(Path(__file__).parents[1])!r})"


@pytest.fixture
def watching() -> Iterator[list[subprocess.Popen[str]]]:
    """A list for processes that end with the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def attach(watching: list[subprocess.Popen[str]], name: str) -> tuple[subprocess.Popen[str], str]:
    """Run the command; return its process, and the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "telemark.cli", "watch", name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watching.append(process)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[1]


def folder_of(process: Started) -> Path:
    return next(Path(line.strip()) for line in process.stdout if line.startswith("/var/"))


def test_a_run_in_real_time_is_shown_until_it_ends(
    start_experiment: StartExperiment, watching: list[subprocess.Popen[str]]
) -> None:
    process = start_experiment(BODY, head=HEAD)
    folder = folder_of(process)
    assert isolation.running()[folder] is True
    command, url = attach(watching, folder.name)
    seen = events(url)
    kind, network = next(seen)
    assert (kind, network["name"]) == ("network", "first")
    kind, measurement = next(seen)
    assert (kind, measurement["drops"].keys()) == ("measurement", {"s1", "s2"})
    (folder / "go").touch()
    assert next(data["name"] for kind, data in seen if kind == "network") == "second"
    (folder / "go").touch()
    assert [kind for kind, _ in seen][-2:] == ["stopped", "end"]
    assert (command.wait(60), command.communicate()[1]) == (0, "")
    assert process.communicate()[1] == ""
    assert process.returncode == 0


def test_ctrl_c_ends_the_command_and_not_the_run(
    start_experiment: StartExperiment, watching: list[subprocess.Popen[str]]
) -> None:
    process = start_experiment(BODY, head=HEAD)
    folder = folder_of(process)
    command, url = attach(watching, folder.name)
    seen = events(url)
    assert next(seen)[0] == "network"
    command.send_signal(signal.SIGINT)
    assert (command.wait(60), command.communicate()[1]) == (130, "")
    assert [kind for kind, _ in seen][-1] == "end"
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(url)
    assert isolation.is_running(folder)


def test_the_command_ends_if_the_run_is_killed(
    start_experiment: StartExperiment, watching: list[subprocess.Popen[str]]
) -> None:
    process = start_experiment(BODY, head=HEAD)
    command, url = attach(watching, folder_of(process).name)
    seen = events(url)
    assert next(seen)[0] == "network"
    process.kill()
    assert [kind for kind, _ in seen][-1] == "end"
    assert (command.wait(60), command.communicate()[1]) == (0, "")
