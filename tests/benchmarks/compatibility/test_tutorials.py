"""The p4lang/tutorials benchmark: its output checks, and a run with a small exercise."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import exercise
import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "compatibility" / "tutorials.py"


@pytest.fixture
def exercises(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import tutorials  # noqa: PLC0415

    return tutorials


def tos(*values: str) -> str:
    return "".join(f"     tos       = {value}\n" for value in values)


def trace(swid: int, depth: int) -> str:
    return (f"      |   |###[ SwitchTrace ]###\n      |   |  swid      = {swid}\n"
            f"      |   |  qdepth    = {depth}\n")  # fmt: skip


def rates(probes: float, iperf: str) -> str:
    return f"Switch 1 - Port 4: {probes} Mbps\n[  1] 0.0-5.0 sec   200 MBytes   {iperf}/sec\n"


FLOW = "mininet> iperf h1 h2\n 300 Mbits/sec\n"
REFUSED = "mininet> iperf h3 h1\n*** iperf h3 h1: no connection from h3 to h1\n"
TUNNEL = "     dst       = 10.0.2.2\n"
ENDS = "     dst_id    = 2\n        dst       = 10.0.{0}.{0}\n"


@pytest.mark.parametrize(
    ("judge", "right", "wrong"),
    [
        ("check_tunnels", TUNNEL + ENDS.format(2) + ENDS.format(3), TUNNEL + ENDS.format(2)),
        ("check_answers", "> 2\r\n4\n1\n7\n6\n".replace("> ", ""), "2\n4\n1\n7\n7\n"),
        ("check_ecn", tos("0x1", "0x1", "0x3", "0x3", "0x1"), tos("0x1", "0x1")),
        ("check_ecn", tos("0x1", "0x3", "0x1"), tos("0x3", "0x1")),
        ("check_queues", trace(2, 0) + trace(1, 60) + trace(1, 0), trace(2, 0) + trace(1, 0)),
        ("check_queues", trace(2, 0) + trace(1, 60), trace(2, 60) + trace(1, 60)),
        ("check_utilisation", rates(345.5, "330 Mbits"), rates(34.55, "330 Mbits")),
        ("check_utilisation", rates(1045.5, "1.01 Gbits"), rates(1045.5, "1.01 Mbits")),
        ("check_utilisation", rates(345.5, "330 Mbits"), ""),
        ("check_balance", "5\n3\n", "8\n0\n"),
        ("check_firewall", FLOW + FLOW + REFUSED, FLOW + FLOW + FLOW),
    ],
)
def test_judges(judge: str, right: str, wrong: str, exercises: ModuleType) -> None:
    assert getattr(exercises, judge)(right) is None
    assert getattr(exercises, judge)(wrong) is not None


def run(clone: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, clone, "--time", "virtual", *options],
                          capture_output=True, text=True, check=False, timeout=300)  # fmt: skip


def test_an_exercise_is_run_with_its_solution(tmp_path: Path) -> None:
    path = exercise.whole(tmp_path / "exercises" / "basic")
    shutil.move(path.parent, path.parent.with_name("pod-topo"))
    folder = path.parent.parent
    described = folder / "pod-topo" / "topology.json"
    described.write_text(described.read_text().replace("net/", "pod-topo/"))
    (folder / "solution").mkdir()
    (folder / "gate.p4").rename(folder / "solution" / "basic.p4")
    done = run(tmp_path, "--only", "basic")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("basic                yes\n1 of 1 passed: minip4, virtual time\n")
    (folder / "solution" / "basic.p4").write_text("no program")
    done = run(tmp_path, "--only", "basic")
    assert done.returncode == 1
    assert "basic                no: exit status 2: " in done.stdout


def test_a_missing_clone_is_a_one_line_error(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert f"{tmp_path}, None: clone or exercise not found" in done.stderr
