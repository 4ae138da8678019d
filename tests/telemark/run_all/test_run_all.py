"""run_all.sh: which experiments run or are skipped, and the exit status."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from telemark.backends.real.targets.bmv2 import PROGRAM as BMV2
from telemark.errors import TestbedError
from telemark.results.reference import Comparison
from telemark.run_all import up_to_date
from telemark.run_all.__main__ import main

EXPERIMENT = """
import json, pathlib, sys
here = pathlib.Path(__file__)
print("ran", here.stem, *sys.argv[1:], flush=True)
results = here.parent.parent / "results" / here.stem
results.mkdir(parents=True, exist_ok=True)
checks = [{"name": name, "passed": STATUS != 1} for name in ("one", "two")]
summary = {"checks": checks, "programs": PROGRAMS}
(results / "summary.json").write_text(json.dumps(summary))
sys.exit(STATUS)
"""


class Experiments:
    """The folder experiments/ of a checkout, and run_all.sh."""

    def __init__(self, checkout: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = checkout / "experiments"
        self.folder.mkdir()
        self.results = checkout / "results"
        self._capture = capture

    def add(self, name: str, status: int = 0, programs: Sequence[object] = ()) -> Path:
        """Add an experiment that ends with this status and reports which programs it compiled."""
        script = self.folder / f"{name}.py"
        text = EXPERIMENT.replace("STATUS", str(status)).replace("PROGRAMS", repr(programs))
        script.write_text(text)
        return script

    def run_all(self, *arguments: str) -> tuple[int, str]:
        """Run run_all.sh; return the exit status and the output."""
        up_to_date._folders_imported.cache_clear()
        status = main(arguments, self.folder, self.results)
        return status, self._capture.readouterr().out


@pytest.fixture
def experiments(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Experiments:
    return Experiments(tmp_path, capfd)


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [([0, 0], 0), ([1, 0], 1), ([0, 2, 0], 2), ([0, 2, 1], 1), ([3, 1, 2], 3)],
)
def test_everything_runs_and_the_worst_status_stands(
    experiments: Experiments, statuses: list[int], worst: int
) -> None:
    for number, status in enumerate(statuses):
        experiments.add(f"e{number}", status)
    experiments.add("_venv", 99)
    status, said = experiments.run_all("--quick")
    assert status == worst
    for number in range(len(statuses)):
        assert f"ran e{number} --target=auto --time=real --seed=1 --quick\n" in said
    assert said.count("FAILED: one; two") == statuses.count(1)


def test_why_one_is_invalid_stands_in_the_table_too(
    experiments: Experiments, capfd: pytest.CaptureFixture[str]
) -> None:
    script = experiments.add("e0", 2)
    why = "e0: error: run invalid: busy"
    told = f'print("a warning\\n{why}", file=sys.stderr)\nsys.exit'
    script.write_text(script.read_text().replace("sys.exit", told))
    assert main([], experiments.folder, experiments.results) == 2
    said, errors = capfd.readouterr()
    assert errors == f"a warning\n{why}\n"
    assert "inconclusive or unavailable: run invalid: busy" in said


@pytest.mark.parametrize("has_results", [True, False])
def test_a_failed_run_that_leaves_no_results_is_no_broken_program(
    experiments: Experiments, has_results: bool
) -> None:
    script = experiments.add("e0")
    if has_results:
        experiments.run_all()
    script.write_text(
        "import sys\nsys.exit(sys.stderr.write('e0: error: run failed: no pulse') and 1)"
    )
    status, said = experiments.run_all()
    assert status == 1
    assert "FAILED: run failed: no pulse" in said


def test_what_an_experiment_leaves_running_holds_up_nothing(experiments: Experiments) -> None:
    script, told = experiments.add("e0", 2), experiments.folder / "pid"
    leave = (
        f'import subprocess; open("{told}", "w").write(str(subprocess.Popen(["sleep", "30"]).pid))'
    )
    script.write_text(script.read_text().replace("sys.exit", f"{leave}\nsys.exit"))
    assert main([], experiments.folder, experiments.results) == 2
    left = int(told.read_text())
    assert b"sleep" in Path(f"/proc/{left}/cmdline").read_bytes()  # it is still running
    os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("has_results", [True, False])
def test_one_that_cannot_be_imported_holds_up_nothing(
    experiments: Experiments, has_results: bool
) -> None:
    script = experiments.add("e0", 1)
    experiments.add("e1")
    if has_results:
        experiments.run_all("--only", "e0")
    script.write_text("import telemark_has_no_such_module\n")
    status, said = experiments.run_all()
    assert status == 3
    assert (
        "unhandled exception: ModuleNotFoundError: No module named 'telemark_has_no_such_module'"
        in said
    )
    assert "FAILED" not in said
    assert "ran e1" in said


def test_what_passed_does_not_run_again_until_something_changes(
    experiments: Experiments, tmp_path: Path
) -> None:
    p4 = tmp_path / "some.p4"
    p4.write_text("const bit<8> ONE = 1;\n")
    program = up_to_date.P4Source.read(p4).as_dict()
    script = experiments.add("e", 0, [program])
    helpers = experiments.folder / "shared"
    helpers.mkdir()
    (helpers / "__init__.py").write_text("")
    (helpers / "beside.py").write_text("")
    script.write_text("from shared import truth\n" + script.read_text())
    (helpers / "truth.py").write_text("")

    def runs(*arguments: str) -> bool:
        status, said = experiments.run_all(*arguments)
        assert status == 0
        return "ran e" in said

    assert runs()
    assert not runs()
    assert runs("--again")
    assert runs("--quick")
    assert runs("--seed", "2")
    assert not runs("--seed", "2")
    summary = tmp_path / "results" / "e" / "summary.json"
    for change in (
        lambda: script.write_text(script.read_text() + "# changed\n"),
        lambda: (helpers / "beside.py").write_text("changed = True\n"),
        lambda: summary.write_text(summary.read_text() + " "),
        summary.unlink,
    ):
        change()
        assert runs("--seed", "2")
        assert not runs("--seed", "2")
    p4.write_text("const bit<8> ONE = 1; // the same\n")
    assert not runs("--seed", "2")
    p4.write_text("const bit<8> ONE = 2;\n")
    assert runs("--seed", "2")
    p4.unlink()
    assert runs("--seed", "2")


def test_where_and_whether_anew_is_handed_on_and_makes_no_other_run(
    experiments: Experiments,
) -> None:
    experiments.add("e")
    given = "ran e --target=auto --time=virtual --seed=1"
    for arguments, said in (
        (["--jobs", "3"], f"{given} --jobs=3\n"),
        (["--jobs", "2"], "passed before"),
        (["--jobs", "2", "--again"], f"{given} --jobs=2 --again\n"),
        (["--scheduler", "tcp://a:1"], "passed before"),
        (["--scheduler", "tcp://a:1", "--again"], f"{given} --scheduler=tcp://a:1 --again\n"),
    ):
        assert said in experiments.run_all("--time", "virtual", *arguments)[1]
    with pytest.raises(SystemExit, match="2"):
        experiments.run_all("--jobs", "2")  # in real time


def test_what_failed_runs_again(experiments: Experiments) -> None:
    experiments.add("fails", 1)
    for _ in range(2):
        assert "ran fails" in experiments.run_all()[1]


def test_a_run_depends_on_the_c_of_what_its_imports_import(tmp_path: Path) -> None:
    script = tmp_path / "e.py"
    script.write_text("from telemark.network import Network\n")
    code = {str(path.relative_to(up_to_date.REPOSITORY)) for path in up_to_date.code_files(script)
            if path != script}  # fmt: skip
    assert {
        "telemark/network.py",
        "minip4/engine/c/lock.h",
        "telemark/backends/real/c/receive.c",
    } <= code
    assert not any(name.startswith(("collectors/", "controllers/")) for name in code)


def test_a_run_depends_on_what_its_programs_include(tmp_path: Path) -> None:
    script = tmp_path / "e.py"
    script.write_text("import ebpf.loader\nimport minip4.compiler\n")
    code = {
        path.relative_to(up_to_date.REPOSITORY) for path in up_to_date.code_files(script) - {script}
    }
    included = {Path("ebpf/include/packet.h"), Path("minip4/compiler/include/v1model.p4")}
    assert included <= code


def test_some_can_be_chosen(experiments: Experiments, tmp_path: Path) -> None:
    for name in ("ampm_a", "ampm_b", "ebpf_a", "int_a", "starter", "xdp_a"):
        experiments.add(name)
    (experiments.folder / "shared" / "ampm").mkdir(parents=True)

    def ran(*arguments: str) -> list[str]:
        lines = experiments.run_all("--again", *arguments)[1].splitlines()
        return [line.split()[1] for line in lines if line.startswith("ran")]

    assert ran("--only", "starter", "experiments/int_a.py") == ["int_a", "starter"]
    assert ran("--system", "ampm") == ["ampm_a", "ampm_b"]
    assert ran("--system", "ampm", "--only", "ampm_b", "starter") == ["ampm_b"]
    assert ran("--system", "xdp") == ["ebpf_a", "xdp_a"]  # all experiments with eBPF programs


def test_an_empty_selection_is_reported(experiments: Experiments) -> None:
    experiments.add("int_a")
    experiments.add("starter")
    (experiments.folder / "shared" / "int").mkdir(parents=True)
    with pytest.raises(TestbedError, match="--only starter: no experiment of --system int"):
        experiments.run_all("--only", "starter", "--system", "int")


def test_what_no_experiment_can_do_is_told_once(
    experiments: Experiments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemark.run_all.__main__.can_isolate", lambda: False)
    experiments.add("e")
    with pytest.raises(TestbedError, match="cannot create namespaces; run it with sudo"):
        experiments.run_all()
    assert experiments.run_all("--time", "virtual")[0] == 0


@pytest.mark.parametrize(
    ("has_bmv2", "options", "status"),
    [(True, [], 3), (False, [], 0), (True, ["--time=virtual"], 0)],
)
def test_what_needs_bmv2_is_left_out_where_there_is_none(
    experiments: Experiments, monkeypatch: pytest.MonkeyPatch,
    has_bmv2: bool, options: list[str], status: int,
) -> None:  # fmt: skip
    folder = experiments.folder
    experiments.add("targets", 3)
    experiments.add("other")
    folders = [f for f in os.environ["PATH"].split(":") if not Path(f, BMV2).exists()]
    if has_bmv2:
        (folder / BMV2).write_text("#!/bin/sh\n")
        (folder / BMV2).chmod(0o755)
        folders.append(str(folder))
    monkeypatch.setenv("PATH", ":".join(folders))
    ended, said = experiments.run_all(*options)
    assert ended == status
    assert "ran other" in said
    assert ("skipped: needs bmv2" in said) == (not status)


def test_an_experiment_that_needs_fetched_programs_is_skipped(experiments: Experiments) -> None:
    experiments.add("dta_prototype", 2)
    experiments.add("other")
    status, said = experiments.run_all("--time", "virtual")
    assert status == 0
    assert "ran other" in said
    assert "ran dta_prototype" not in said
    assert "skipped: needs programs that are not part of Telemark" in said


@pytest.mark.parametrize("name", ["xdp_drop", "int_collector", "ebpf_edge", "int_overhead",
                                  "gallery_conquest"])  # fmt: skip
def test_experiments_that_exclude_bmv2_are_skipped(experiments: Experiments, name: str) -> None:
    experiments.add(name, 2)
    assert experiments.run_all()[0] == 2
    status, said = experiments.run_all("--target", "bmv2")
    assert status == 0
    assert "skipped: " in said


def test_the_summary_on_bmv2_has_the_rates(experiments: Experiments) -> None:
    """On bmv2, the summary shows which share of the requested rates each experiment used.

    An inconclusive experiment has no such share. A run on minip4 has no such column.
    """
    for name, status, capacities in (
        ("int_a", 0, [{"share": 0.5}, {"share": 0.125}]), ("roce_b", 0, [{"share": 1.0}]),
        ("dta_c", 0, []), ("int_d", 2, [{"share": 1.0}]),
    ):  # fmt: skip
        script = experiments.add(name, status)
        summary = f'{{"capacities": {capacities}, "checks"'
        script.write_text(script.read_text().replace('{"checks"', summary))
    status, said = experiments.run_all("--target", "bmv2")
    assert status == 2
    _, _, shown = said.partition("All experiments")
    for name, rates in (
        ("int_a", "1/2, 1/8"), ("roce_b", " all "), ("dta_c", "fixed"), ("int_d", "inconclusive")
    ):  # fmt: skip
        [row] = [line for line in shown.splitlines() if name in line]
        assert rates in row, said
    assert "rates" not in experiments.run_all("--again")[1]


def test_time_to_go_is_that_of_the_last_run(tmp_path: Path) -> None:
    notes = up_to_date.FinishedRuns(tmp_path)
    assert up_to_date.expected_s("e", ["--quick"], notes) == up_to_date.QUICK_S
    notes.add("e", "key", ["--quick"], 3.14)
    notes.add("e", "key", [], 99.0)
    again = up_to_date.FinishedRuns(tmp_path)
    assert up_to_date.expected_s("e", ["--quick"], again) == 3.1
    assert up_to_date.expected_s("e", [], again) == 99.0


@pytest.mark.parametrize(
    ("agrees", "status"), [(True, 0), (None, 0), (False, 1), ("no reference", 0)]
)
def test_results_are_held_against_the_reference(
    experiments: Experiments, monkeypatch: pytest.MonkeyPatch, agrees: object, status: int
) -> None:
    def compare(results: Path, summary: object) -> Comparison | None:
        assert results == experiments.results / "good"
        assert json.loads((results / "summary.json").read_text()) == summary
        if agrees == "no reference":
            return None
        return Comparison(results, "2026-01-01", "told", agrees=agrees)  # type: ignore[arg-type]

    monkeypatch.setattr("telemark.run_all.__main__.compare", compare)
    experiments.add("good")
    experiments.add("targets")  # skipped on bmv2
    ended, said = experiments.run_all("--compare", "--time=virtual")
    assert ended == status
    words = "no reference" if agrees == "no reference" else "reference of 2026-01-01: told"
    assert f"passed; {words}" in said
    assert experiments.run_all("--time=virtual")[0] == 0
    experiments.add("good", 1)
    assert "FAILED: one; two" in experiments.run_all("--compare", "--time=virtual")[1]


STOPPED = """
import sys
from pathlib import Path
from telemark.run_all.__main__ import main
sys.exit(main([], Path(sys.argv[1]) / "experiments", Path(sys.argv[1]) / "results"))
"""


def begun(checkout: Path) -> "subprocess.Popen[str]":
    """Start run_all.sh in its own session; return when its first experiment has started."""
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, checkout],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    while process.stdout.readline() != "begun\n":
        pass
    return process


@pytest.mark.parametrize(
    ("number", "send"),
    [(signal.SIGINT, os.killpg), (signal.SIGINT, os.kill), (signal.SIGTERM, os.kill)],
    ids=["terminal", "interrupt", "terminate"],
)
def test_a_signal_ends_the_experiment_and_all(
    experiments: Experiments, tmp_path: Path, number: signal.Signals,
    send: Callable[[int, int], None],
) -> None:  # fmt: skip
    script = experiments.add("a")
    script.write_text(
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "print('begun', flush=True)\nsignal.pause()\n"
    )
    experiments.add("b")
    process = begun(tmp_path)
    send(process.pid, number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"ended by signal {number}; run the same command again to resume" in said
    assert "ran b" not in said


def test_an_experiment_does_not_outlive_it(experiments: Experiments, tmp_path: Path) -> None:
    """If run_all.sh is killed, its running experiment ends, too.

    Otherwise, the experiment could overwrite the results of a later run.
    """
    experiments.add("a").write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)\n")
    process = begun(tmp_path)
    process.kill()
    process.communicate(timeout=60)  # returns when no process has the pipe open
