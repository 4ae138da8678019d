"""Unmodified scripts of p4-utils' NetworkAPI, with a stand-in for p4-utils."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from telemark.backends.real.p4utils.environment import IN_ENV, environment
from telemark.cli import main

HEAD = "from p4utils.mininetlib.network_API import NetworkAPI\n"
TELEMARK = (sys.executable, "-m", "telemark.cli")
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")


def run_there(
    tmp_path: Path, text: str, target: str = "minip4", commands: str = "-"
) -> "subprocess.CompletedProcess[str]":
    script = tmp_path / "network.py"
    script.write_text(HEAD + text)
    return subprocess.run(
        [sys.executable, str(IN_ENV / "run_network.py"), target, commands, script.name],
        cwd=tmp_path, env=environment(sys.executable), capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("target", "kind"), [("minip4", "telemark_p4utils"), ("bmv2", "p4utils.mininetlib.node")]
)
def test_a_script_gets_the_target_s_switches(
    p4utils_stand_in: Path, tmp_path: Path, target: str, kind: str
) -> None:
    text = (
        "net = NetworkAPI()\nnet.addP4RuntimeSwitch('s1')\nprint(net.given['s1']['cls'].__module__)"
        "\nprint(__name__, __file__)\nimport sys; print(sys.argv, sys.path[0])\nnet.startNetwork()"
    )
    done = run_there(tmp_path, text, target, "typed.txt")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        kind,
        "__main__ network.py",
        f"['network.py'] {tmp_path}",
        "started with Minip4Compiler",  # cleanup() was not called
        "obeys typed.txt",
    ]
    assert "obeys None" in run_there(tmp_path, "NetworkAPI().startNetwork()", target).stdout


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("import sys; sys.exit(5)", 5, ""),
        ("net = NetworkAPI()\n1 / 0", 3, "ZeroDivisionError"),
        ("from telemark_p4utils import Minip4Error\nraise Minip4Error('one line')", 2,
         "network.py: error: one line\n"),
        ("from p4utils.utils.compiler import CompilationError\nraise CompilationError", 2,
         "network.py: error: its P4 program cannot be compiled (see above)\n"),
    ],
)  # fmt: skip
def test_how_a_script_ends(
    p4utils_stand_in: Path, tmp_path: Path, text: str, status: int, words: str
) -> None:
    done = run_there(tmp_path, text)
    assert done.returncode == status
    assert words in done.stderr
    assert status != 2 or done.stderr == words


def test_it_runs_in_namespaces_with_commands_and_leaves_the_machine_alone(
    p4utils_stand_in: Path, tmp_path: Path
) -> None:
    script, commands = tmp_path / "network.py", tmp_path / "commands"
    commands.write_text("pingall\n")
    script.write_text(
        HEAD + f"import os, select, sys\nassert os.path.ismount({str(HUGE_PAGES)!r})\n"
        f"open({str(HUGE_PAGES)!r}, 'w').write('3')\n"  # a file of the kernel
        "assert 'on_minip4' in os.environ['PYTHONPATH']\n"
        "print(os.path.basename(os.getcwd()), os.environ['TELEMARK_SEED'])\n"
        "print('interfaces', os.listdir('/proc/self/net/dev_snmp6'))\n"
        "print('typed', select.select([sys.stdin], [], [], 0.1)[0])\nNetworkAPI().startNetwork()\n"
    )
    before = HUGE_PAGES.read_text()
    done = subprocess.run(
        [*TELEMARK, "run", str(script.relative_to(tmp_path.parent)), "--seed", "4", "--yes",
         "--commands", str(commands.relative_to(tmp_path.parent))],
        cwd=tmp_path.parent, capture_output=True, text=True, check=False, timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[5]),
                                                         os.environ["PYTHONPATH"]])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path.name} 4\ninterfaces ['lo']\ntyped []\n" in done.stdout
    assert f"obeys {commands}" in done.stdout
    assert HUGE_PAGES.read_text() == before


def test_a_signal_ends_the_script(p4utils_stand_in: Path, tmp_path: Path) -> None:
    (tmp_path / "network.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)")
    (tmp_path / "commands").touch()
    with subprocess.Popen(
        [*TELEMARK, "run", "network.py", "--yes", "--commands", "commands"], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[5]),
                                                         os.environ["PYTHONPATH"]])},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert "begun\n" in process.stdout
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (143, "\ntelemark: interrupted\n")


@pytest.mark.parametrize("option", [["--time", "virtual"], ["--p4", "x.p4"], ["--keep"]])
def test_what_a_script_decides_itself_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: list[str]
) -> None:
    assert main(["run", "network.py", "--commands", "x", *option]) == 2
    assert "remove --time virtual, --p4 and --keep\n" in capsys.readouterr().err
