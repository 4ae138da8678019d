"""All eBPF programs load, and the loader works, on kernel 6.1 of Debian in a virtual machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ebpf.loader.compile import compile_program
from minip4.native import cache
from telemark.backends.real.vm import machine

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("ebpf", "experiments/shared")
    for path in ROOT.glob(f"{folder}/*/*.bpf.c")
)
SCRIPT = """
import json, subprocess, sys
from ebpf.loader import LoadError, attach_tc, attach_xdp, load, run, run_live

veth = "ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up"
subprocess.run(["sh", "-ec", veth], check=True)
frame = bytes.fromhex("020000000001020000000002080045000020000000004011000001020304050607080009"
                      "0009000c0000") + bytes(22)
told = {}
for source in sys.argv[1:]:
    try:
        with load(source) as whole:
            told[source] = [
                run(each, packet).verdict
                for each in whole.programs.values() for packet in (frame, bytes(64))
            ]
    except LoadError as error:
        told[source] = str(error)
with load("ebpf/datapath/drop.bpf.c") as first, load("ebpf/datapath/drop.bpf.c") as last:
    def count(whole):
        return int(whole.maps["dropped"].read().sum())

    passing = first.programs["pass_all"]
    with attach_xdp(passing, "v0") as link, attach_tc(first.programs["drop_ports_at_tc"], "v0"):
        filters = subprocess.check_output(["tc", "filter", "show", "dev", "v0", "ingress"])
        told["clsact"] = b"direct-action" in filters
        run_live(passing, frame, 500, ingress="v0")
        told["at tc"] = count(first)
    with load("ebpf/datapath/drop.bpf.c") as other, load("ebpf/datapath/forward.bpf.c") as back:
        here = attach_xdp(other.programs["pass_all"], "v0")
        with attach_xdp(last.programs["drop_all"], "v1", order=2) as link:
            with attach_xdp(first.programs["pass_all"], "v1", order=1):
                run_live(back.programs["send_back"], frame, 300, ingress="v0")
            link.replace(first.programs["drop_all"])
            run_live(back.programs["send_back"], frame, 200, ingress="v0")
        told["at xdp"] = [count(last), count(first)]
print(json.dumps(told))
"""


@pytest.mark.skipif(machine.missing() is not None, reason=str(machine.missing()))
def test_all_is_loaded_and_attached_there(tmp_path: Path) -> None:
    for (
        source
    ) in PROGRAMS:  # compiled on this machine, because an emulated CPU takes many times as long
        with compile_program(ROOT / source):
            pass
    command = [sys.executable, "-c", SCRIPT, *PROGRAMS]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache.folder().parent)}
    with machine.Machine(tmp_path) as booted:
        done = booted.call(subprocess.run, command, -1, None, None, subprocess.PIPE,
                           subprocess.PIPE, None, True, False, ROOT,
                           environment)  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    assert {name: text for name, text in told.items() if isinstance(text, str)} == {}
    assert {*PROGRAMS} < {*told}
    assert (told["clsact"], told["at tc"], told["at xdp"]) == (True, 500, [300, 700])
