"""Failures during an experiment give one line and exit status 2. They leave nothing behind."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from loaded import Started, StartExperiment

SCRIPT = Path(__file__).parents[2] / "experiments" / "ampm_loss.py"
SHORT = ("--method", "double", "--loss", "1", "--blocks", "1", "--rate", "1000")
TIMEOUT_S = 300  # timeout for hung processes; generous for a loaded machine


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """Return the descendants of a process, with their names."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    left = [pid]
    while left:
        for child in children.get(left.pop(), []):
            left.append(child)
            try:
                yield child, Path(f"/proc/{child}/comm").read_text().strip()
            except (FileNotFoundError, ProcessLookupError):
                continue


def open_captures(pid: int) -> list[Path]:
    """Return the paths of the captures that a process writes."""
    try:
        files = [Path(os.readlink(link)) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [path for path in files if path.suffix == ".pcap"]


def switches_under_traffic(experiment: Started) -> tuple[int, Path]:
    """Wait until s1 has sent some packets.

    Return the process of the switches, and the folder of the run.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        assert experiment.poll() is None, experiment.communicate()
        for pid, name in descendants(experiment.pid):
            if name == "minip4":
                for capture in open_captures(pid):
                    seen = capture.with_name("s1-eth2_out.pcap")
                    if seen.exists() and seen.stat().st_size > 20_000:
                        return pid, seen.parent.parent
        time.sleep(0.05)
    raise AssertionError("no switch, or no traffic")


def test_the_end_of_the_process_of_the_switches_is_reported(tmp_path: Path) -> None:
    process = Started(SCRIPT, *SHORT, "--out", str(tmp_path / "out"))
    try:
        pid, folder = switches_under_traffic(process)
        os.kill(pid, signal.SIGKILL)
        _output, errors = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == 2, errors
    cause = "switches s1, s2, s3: the process of all switches (minip4) ended by SIGKILL"
    assert cause in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert not (tmp_path / "out" / "summary.json").exists()
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


CLOCKS = """
options = cpu_ports(topo := Line())
options["s2"] += {options}
with Network(topo, run, program="p4src/ampm/ampm.p4", switch_options=options) as net:
    hops = [Hop(connection(net, n), forwarding_entries(net, n), {offset}) for n in PATH]
    flow = WatchedFlow(1, net.host("h1").IP(), net.host("h2").IP())
    schedule = Schedule(2**20)
    bounds = Bounds({error}, 0)
    async with Collector({{flow: hops}}, schedule, run.clock, bounds=bounds) as collector:
        await collector.watch()
        first = schedule.block_at(run.clock.now_ns() // 1000) + 3
        async for report in collector.blocks(first, first + 20):
            if report.problems:
                raise TestbedError(report.problems[0])
return Report([], [Check("all went well", 1, 1)])
"""
HEAD = """
from controllers.ampm.collector import Collector
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, WatchedFlow
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from telemark.errors import TestbedError
from telemark.network import Network
from topologies.basic import Line
PATH = ("s1", "s2", "s3")
"""


@pytest.mark.parametrize(
    ("options", "offset", "error_us", "words"),
    [
        (["--clock-offset-us", "5000"], 0, 100, "switch s2: its clock error is at least 5000 us"),
        (["--clock-offset-us", "-5000"], 0, 100, "switch s2: its clock error is at least"),
        # The clock is right at first. After ten seconds, its error exceeds the bound.
        (["--clock-drift-ppb", "10000"], None, 100, "switch s2: its clock error is at least"),
        (["--clock-offset-us", "90"], 0, 100, ""),
        (["--clock-offset-us", "123456"], None, 100, ""),
    ],
)
def test_a_clock_that_is_off_is_named(
    options: list[str], offset: int | None, error_us: int, words: str,
    start_experiment: StartExperiment,
) -> None:  # fmt: skip
    body = CLOCKS.format(options=options, offset=offset, error=error_us)
    process = start_experiment(body, "--time", "virtual", head=HEAD)
    _output, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == (2 if words else 0), errors
    assert "Traceback" not in errors
    if words:
        assert words in errors.splitlines()[-1]
        assert "which exceeds the bound of 100 us" in errors
