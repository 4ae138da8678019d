"""`minip4 switch` as a process: the scenes of live.py, and errors of one line."""

import copy
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from harness import compiled

from minip4.compiler import compile_p4
from minip4.runtime.switch.cli import NO_PROGRAM

# when a scene ends, its processes and interfaces end, too
NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
LIVE = Path(__file__).parent / "live.py"


@pytest.mark.parametrize(
    "scene",
    [
        "control",
        "finsy",
        "full_disk",
        "hostile_programs",
        "interfaces",
        "killed",
        "many_ports",
        "many_programs",
        "no_program",
        "run_source",
        "start",
        "stress",
    ],
)
def test_scene(scene: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [*NAMESPACES, sys.executable, str(LIVE), scene, str(tmp_path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "control.json"
    path.write_text(json.dumps(compiled().bmv2_json))
    return str(path)


def test_a_switch_needs_a_program_or_no_p4(program: str) -> None:
    refused([], "expected either PROGRAM.json or --no-p4")
    refused([program, "--no-p4"], "expected either PROGRAM.json or --no-p4")
    refused(["--no-p4", "--p4info", "x"], "--p4info needs PROGRAM.json")


def test_no_program_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NO_PROGRAM.parent)
    assert json.loads(NO_PROGRAM.read_text()) == compile_p4("no_program.p4").bmv2_json


BAD = {
    "no such option": (["--speed", "9"], "--speed"),
    "interface without port": (["-i", "veth1"], "'veth1': expected PORT@INTERFACE"),
    "port too large": (["-i", "511@veth1"], "511: expected 0 to 510"),
    "no such interface": (["-i", "1@nosuch0"], "nosuch0"),
    "no folder for counters": (["--counters", "/no/such/c.json"], "/no/such is not a directory"),
    "port twice": (["-i", "1@a", "-i", "1@b"], "port 1 is given twice"),
    "loss": (["-i", "1@lo", "--link", "1:loss_probability=1.5"], ": 1.5: expected 0 to 1"),
    "jitter": (["--link", "1:delay_us=1,jitter_us=2"], "jitter_us 2 is above delay_us 1"),
    "link's key": (["--link", "1:lost=1"], "expected PORT:KEY=VALUE"),
    "link without interface": (["--link", "1:loss_probability=0.5"], "port 1 has no interface"),
    "queue's key": (["--queue", "1:size=1"], "expected PORT:KEY=VALUE"),
    "queue's depth": (["--queue", "1:depth=0"], "depth: 0: expected 1 to 1e+06"),
    "queue without port": (["--queue", "1:depth=5"], "the switch has no port 1 (its ports: none)"),
    "queue above": (
        ["-i", "1@lo", "--priority-queues", "2", "--queue", "1:priority=2,depth=5"],
        "priority 2, but the switch has 2 priority queues",
    ),
    "queues": (["--priority-queues", "9"], "9: expected 1 to 8"),
    "trace": (["--trace", "/nosuch/trace"], "--trace /nosuch/trace: No such file"),
    "control": (["--control", "/nosuch/s"], "--control /nosuch/s: No such file"),
    "control in use": (["--control", "/dev/null"], "a file with this name exists"),
    "CPU port in use": (["-i", "1@lo", "--cpu-port", "1"], "cannot be both the CPU port"),
    "address": (["--grpc-server-addr", "localhost"], "expected HOST:PORT"),
    "no P4Info": (["--p4info", "nosuch.txtpb"], "nosuch.txtpb: No such file"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD.keys())
def test_bad_options(options: list[str], message: str, program: str) -> None:
    refused([program, "--grpc-server-addr", "127.0.0.1:0", *options], message)


FILES = {
    "missing": (None, "No such file"),
    "no JSON": ("header h_t {", "expected BMv2 JSON"),
    "nested": ("[" * 100_000, "expected BMv2 JSON"),
    "no object": ("[1]", "expected BMv2 JSON"),
    "other JSON": ('{"a": 1}', ""),
}


@pytest.mark.parametrize(("text", "message"), FILES.values(), ids=FILES.keys())
def test_bad_program(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_text(text)
    refused([str(path), "--grpc-server-addr", "127.0.0.1:0"], message)


def test_a_program_that_needs_too_much(tmp_path: Path) -> None:
    path, document = tmp_path / "large.json", copy.deepcopy(compiled().bmv2_json)
    document["register_arrays"][0]["size"] = 2**32 - 1
    path.write_text(json.dumps(document))
    message = "bytes; at most 1073741824 are accepted"
    refused([str(path), "--grpc-server-addr", "127.0.0.1:0"], message)


def test_bad_p4info(program: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txtpb"
    path.write_text("tables { colour: 1 }")
    refused([program, "--p4info", str(path)], "expected P4Info in protobuf's text format")


def test_an_address_in_use(program: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused([program, "--grpc-server-addr", address], f"{address}: Address already in use")


def refused(arguments: list[str], message: str) -> None:
    """Check that the switch ends with status 2, and that its last line has this message."""
    run = subprocess.run(
        [sys.executable, "-m", "minip4.cli", "switch", *arguments],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 2, run.stderr
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    assert message in run.stderr.splitlines()[-1]
