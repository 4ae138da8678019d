"""`telemark run` in real time: hosts, commands and controllers as in the original tools."""

import os
import signal
import time
from pathlib import Path

import exercise
import pytest
from loaded import Started, run

import telemark.cli

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
TELEMARK = Path(telemark.cli.__file__)


def test_a_described_network_in_namespaces(tmp_path: Path) -> None:
    described = exercise.topology()
    described["hosts"]["h1"]["commands"] += [
        "echo $PWD > where",
        "no-such-program",
        "echo 'open",
    ]
    described["hosts"]["h2"]["commands"] += [
        "for i in $(seq 20000); do echo noise; done &",
        "sleep 0.05",
    ]
    described["switches"]["s2"] = {}
    described["links"] = [["h1", "s1-p3"], ["h2", "s1-p7"], ["s1-p1", "s2-p1"]]
    path = exercise.write(tmp_path / "x", described, exercise.runtime({"h1": 3, "h2": 7}))
    script = tmp_path / "a script"
    script.write_text(
        "h1 ip route\nh1 ip neigh\nh1 cat where /sys/class/net/eth0/address\n"
        "# not a command\nsh minip4 tables GateIngress.routes --grpc-server-addr 127.0.0.1:50051 "
        "--device-id 0\nh1 ping -c 1 -W 5 h2\nexit\nh1 echo never\n"
    )
    done = run(TELEMARK, "run", str(path), "--yes", "--commands", str(script))
    output = done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    assert "default via 10.0.1.10 dev eth0" in output
    assert "10.0.1.10 dev eth0 lladdr 08:00:00:00:01:00 PERMANENT" in output
    assert "10.0.2.2" not in output.partition("mininet> h1 ip neigh")[2].partition("mininet>")[0]
    assert f"{tmp_path}/x\n08:00:00:00:01:11\n" in output.replace("\r", "")
    assert "h1: `no-such-program` ended with status 127" in output
    assert "h1: `echo 'open`" in output
    assert "table GateIngress.routes: 2 of 1024 entries" in output
    assert "icmp_seq=1 ttl=63" in output
    assert "never" not in output
    # s2 waits for a controller, which reads its program from there.
    assert {each.name for each in (tmp_path / "x" / "build").iterdir()} == {
        "gate.json", "gate.p4.p4info.txtpb",
    }  # fmt: skip
    assert (tmp_path / "x" / "logs").is_dir()


def runs(process: Path, *command: str) -> bool:
    try:
        return (process / "cmdline").read_text().split("\0")[:-1] == [*command]
    except OSError:  # the process has ended
        return False


def test_an_interrupt_ends_a_script_and_leaves_nothing(tmp_path: Path) -> None:
    path = exercise.whole(tmp_path / "x")
    script = tmp_path / "script"
    seconds = 100_000 + os.getpid()  # a number that no other test uses
    script.write_text(f"sh echo begun\nh1 sleep {seconds}\n")
    started = Started(TELEMARK, "run", str(path), "--commands", str(script))
    inside = next(line for line in started.stdout if line.startswith("To enter this run: "))
    pid = inside.partition(" -t ")[2].split()[0]
    assert any(line == "begun\n" for line in started.stdout)
    while not any(runs(path, "sleep", str(seconds)) for path in Path("/proc").glob("[0-9]*")):
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    assert started.wait(60) == 128 + signal.SIGINT
    assert not Path(f"/proc/{pid}").exists()
    started.communicate()


def test_a_host_whose_shell_has_ended_hangs_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("h1 true; exit\nh1 echo on\nh2 echo still\n")
    done = run(TELEMARK, "run", str(exercise.whole(tmp_path / "x")), "--commands", str(script))
    assert done.returncode == 2
    messages = "h1: `true; exit` ended its shell; use commands that"
    assert done.stderr.startswith(f"telemark: error: {messages}")
    assert done.stderr.count("\n") == 1
    assert f"*** h1 echo on: {messages}" in done.stdout
    assert "h2 echo still\nstill" in done.stdout.replace("\r", "")


def test_commands_of_a_description_need_a_terminal_or_yes(tmp_path: Path) -> None:
    described = exercise.topology()
    described["hosts"]["h1"]["commands"] += ["touch executed"]
    path = exercise.write(tmp_path / "x", described, exercise.runtime({"h1": 3, "h2": 7}), {})
    script = tmp_path / "script"
    script.write_text("h1 true\n")
    done = run(TELEMARK, "run", str(path), "--commands", str(script))
    assert (done.returncode, done.stdout, done.stderr) == (
        2, "", f"telemark: error: {path}: contains commands that run as root (1), but there is no "
        "terminal to confirm them; read them and use --yes\n",
    )  # fmt: skip
    assert not (tmp_path / "x" / "executed").exists()
