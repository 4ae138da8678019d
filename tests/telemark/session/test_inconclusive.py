"""Reports of inconclusive runs are printed and saved. They do not change earlier results."""

import json
from pathlib import Path

import pytest
from loaded import StartExperiment

HEAD = """
from telemark.errors import BusyMachineError, InvalidRunError, note_invalid
from telemark.network import Network
from telemark.results import plots
from telemark.results.report import table
from telemark.sweep.runs import sweep
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import Line

async def measure(number, run):
    note_invalid("a core was taken away")
    return number
"""
REPORT = """
figure, (axes,) = plots.figure()
axes.plot([1, 2])
return Report([{"a": 1}], [Check("c", 1, 0)], figure=figure,
              tables=[table("T", ("a",), [(1,)])])
"""
NOTED = f'note_invalid("a core was taken away")\n{REPORT}'
MACHINE = f'note_invalid(BusyMachineError("a core was taken away"))\n{REPORT}'
WHY = "a core was taken away; reduce the load on the machine"


def run(
    start: StartExperiment, folder: Path, body: str, *arguments: str
) -> tuple[int, str, list[str]]:
    """Return the exit status, the output, and the lines of stderr."""
    process = start(body, "--out", str(folder / "results"), *arguments, head=HEAD)
    output, errors = process.communicate()
    assert process.returncode is not None
    return process.returncode, output, errors.splitlines()


def summary(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "summary.json").read_text())
    return found


@pytest.mark.parametrize(
    ("body", "time", "end"),
    [
        (NOTED, "real", (2, f"run invalid: {WHY}")),
        (NOTED, "virtual", (1, "run failed: a core was taken away")),
        (MACHINE, "virtual", (2, f"run invalid: {WHY}")),
    ],
)
def test_the_report_is_printed_and_saved(
    start_experiment: StartExperiment, tmp_path: Path, body: str, time: str, end: tuple[int, str]
) -> None:
    status, error = end
    found, output, errors = run(start_experiment, tmp_path, body, "--time", time)
    assert (found, errors) == (status, [f"example: error: {error}"])
    assert "│ 1 │" in output
    assert "Inconclusive: a core was taken away\n" in output
    folder = tmp_path / "results" / "inconclusive"
    assert (folder / "samples.csv").read_text().splitlines() == ["a", "1"]
    assert (folder / "example.png").stat().st_size > 0
    assert summary(folder)["inconclusive"] == ["a core was taken away"]
    assert [path.name for path in folder.parent.iterdir()] == ["inconclusive"]


def test_the_figure_is_marked(start_experiment: StartExperiment, tmp_path: Path) -> None:
    run(start_experiment, tmp_path, NOTED)
    marked = (tmp_path / "results" / "inconclusive" / "example.png").read_bytes()
    run(start_experiment, tmp_path, REPORT)
    assert (tmp_path / "results" / "example.png").read_bytes() != marked


def test_a_conclusive_run_removes_the_report_and_an_inconclusive_one_keeps_results(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    assert run(start_experiment, tmp_path, REPORT)[0] == 1
    before = {path.name: path.read_bytes() for path in results.iterdir()}
    assert run(start_experiment, tmp_path, NOTED)[0] == 2
    assert {p.name: p.read_bytes() for p in results.iterdir() if p.is_file()} == before
    assert run(start_experiment, tmp_path, REPORT)[0] == 1
    assert not (results / "inconclusive").exists()
    assert summary(results)["inconclusive"] == []


@pytest.mark.parametrize("error", ["1 / 0", 'raise InvalidRunError("no block is complete")'])
def test_a_later_error_does_not_replace_the_reason(
    start_experiment: StartExperiment, tmp_path: Path, error: str
) -> None:
    status, _, errors = run(start_experiment, tmp_path, f"note_invalid('late')\n{error}")
    assert status == 2
    assert errors == ["example: error: run invalid: late; reduce the load on the machine"]


def test_flows_below_their_rate_are_reported(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    body = """
with Network(Line(switches=1), run, program="p4src/ampm/ampm.p4") as net:
    async with Traffic(net, [Flow(1, "h1", "h2", rate_pps=2e7, count=4_000_000)]) as traffic:
        records = await traffic.finish()
return Report([{"sent": len(records[1].sent)}], [Check("c", 0, 0)])
"""
    status, output, errors = run(start_experiment, tmp_path, body)
    assert status == 2
    assert "rate too high for this machine: requested 20000000 packets/s" in errors[-1]
    assert "Inconclusive: flow 1 of h1: rate too high" in output
    _, sent = (tmp_path / "results" / "inconclusive" / "samples.csv").read_text().split()
    assert 0 < int(sent) <= 4_000_000


def test_a_sweep_in_virtual_time_fails(start_experiment: StartExperiment, tmp_path: Path) -> None:
    """A problem that makes a sweep in real time inconclusive makes a sweep in virtual time fail.

    In virtual time, load on the machine cannot be the cause.
    """
    body = 'return Report([{"a": a} for a in await sweep(measure, [(1,), (2,)], run)], [])'
    status, _, errors = run(start_experiment, tmp_path, body, "--time", "virtual")
    assert (status, errors) == (1, ["example: error: run failed: a core was taken away"])
