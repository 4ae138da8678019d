"""`telemark run` with a p4app.json that names command scripts for switches, and other scripts."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import exercise
import pytest


def write(folder: Path, **more: Any) -> Path:
    """Write h1 - s1 - h2, with routes in a command script that has one wrong line."""
    folder.mkdir()
    shutil.copy(exercise.GATE, folder)
    (folder / "s1-commands.txt").write_text(
        "// routes\ntable_add routes forward 10.1.1.2/32 => 00:00:0a:01:01:02 1\n"
        "table_add rotues forward 10.1.2.2/32 => 00:00:0a:01:02:02 2\n"
        "table_add routes forward 10.1.2.2/32 => 00:00:0a:01:02:02 2\ntable_num_entries routes\n"
    )
    topology = {
        "assignment_strategy": "l3",
        "links": [["h1", "s1"], ["h2", "s1"]],
        "hosts": {"h1": {}, "h2": {}},
        "switches": {"s1": {"cli_input": "s1-commands.txt"}},
    }
    path = folder / "p4app.json"
    path.write_text(json.dumps({"p4_src": "gate.p4", "topology": topology, **more}))
    return path


def run(path: Path, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    commands = path.with_name("commands")
    commands.write_text(script)
    return subprocess.run(
        [sys.executable, "-m", "telemark.cli", "run", path, "--yes", "--commands", commands,
         *options],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_in_virtual_time(tmp_path: Path) -> None:
    path = write(tmp_path / "x", exec_scripts=[{"cmd": "./controller.py"}])
    done = run(path, "pingall\n", "--time", "virtual")
    output = " ".join(done.stdout.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert "s1: s1-commands.txt:3: table_add: table 'rotues': there is no such name" in output
    assert "s1: 2 " in output
    assert "not in virtual time: ./controller.py" in output
    assert "0% dropped (2/2 received)" in output


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_in_real_time(tmp_path: Path) -> None:
    scripts = [
        {"cmd": "echo begun > begun; sleep 600"},
        {"cmd": "echo $$ > failing; echo no >&2; exit 3"},
        {"cmd": "while ip link show s1-eth1; do sleep 0.01; done; exit 4"},
    ]
    path = write(tmp_path / "x", exec_scripts=scripts, tasks_file="tasks.txt")
    path.with_name("tasks.txt").write_text(
        'h2 0 0 "cp /sys/class/net/h2-eth0/address mac"\n'
        'h1 0 0 "echo $$ > lacking; no-such-program"\n'
        "h1 0 0.1 'sleep 600'\nh2 0 0 \"sh -c 'yes | head -c 200000; echo written > much'\"\n"
    )
    done = run(
        path,
        "h1 for each in mac begun much failing lacking; do "
        "until [ -s $each ]; do sleep 0.02; done; done\n"
        "h1 for each in failing lacking; do "  # both have ended
        "until grep -qs State:.Z /proc/$(cat $each)/status; do sleep 0.02; done; done\n"
        "h1 ip neigh\nh1 ping -c 1 -W 5 10.1.2.2\nh1 cat mac begun much\n",
    )
    output = done.stdout.replace("\r", "")
    assert (done.returncode, done.stderr) == (0, "")
    assert "10.1.1.1 dev h1-eth0 lladdr 00:01:0a:01:01:02 PERMANENT" in output
    assert "icmp_seq=1" in output
    assert "00:00:0a:01:02:02\nbegun\nwritten\n" in output
    assert "h1: `echo $$ > lacking; no-such-program` ended with status 127: sh: " in output
    assert "sleep 600` ended" not in output  # the process was terminated
    assert "`echo $$ > failing; echo no >&2; exit 3` ended with status 3: no" in output
    # termination at the end of the network is not a failure of the command
    assert "status 4" not in output
