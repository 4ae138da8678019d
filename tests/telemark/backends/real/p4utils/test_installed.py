"""A script and a P4Runtime controller of p4-utils on both targets, if p4-utils is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from telemark.backends.real.p4utils.environment import interpreter
from telemark.backends.real.targets.bmv2 import PROGRAM
from telemark.errors import TestbedError

REPOSITORY = Path(__file__).parents[5]
NETWORK = """
from p4utils.mininetlib.network_API import NetworkAPI

net = NetworkAPI()
net.setCompiler(p4rt=True)
net.execScript("python controller.py", out_file="controller.log")
net.addP4RuntimeSwitch("s1", cli_input="s1-commands.txt")
net.setP4Source("s1", "repeater.p4")
for host in ("h1", "h2"):
    net.addHost(host)
    net.addLink("s1", host, bw=100)
net.l2()
net.enablePcapDumpAll()
net.startNetwork()
"""
CONTROLLER = """
from p4utils.utils.helper import load_topo
from p4utils.utils.sswitch_p4runtime_API import SimpleSwitchP4RuntimeAPI
from p4utils.utils.sswitch_thrift_API import SimpleSwitchThriftAPI

data = load_topo("topology.json").get_p4rtswitches()["s1"]
switch = SimpleSwitchP4RuntimeAPI(data["device_id"], data["grpc_port"],
                                  p4rt_path=data["p4rt_path"], json_path=data["json_path"])
switch.reset_state()
SimpleSwitchThriftAPI(data["thrift_port"]).reset_state()
switch.table_add("repeater", "forward", ["1"], ["2"])  # both: the file's are gone
switch.table_add("repeater", "forward", ["2"], ["1"])
"""
REPEATER = """
#include <core.p4>
#include <v1model.p4>
struct empty_t { }
parser RepeaterParser(packet_in packet, out empty_t hdr, inout empty_t meta,
                      inout standard_metadata_t std) { state start { transition accept; } }
control RepeaterVerify(inout empty_t hdr, inout empty_t meta) { apply { } }
control RepeaterIngress(inout empty_t hdr, inout empty_t meta, inout standard_metadata_t std) {
    action forward(bit<9> port) { std.egress_spec = port; }
    table repeater { key = { std.ingress_port: exact; } actions = { forward; NoAction; } }
    apply { repeater.apply(); }
}
control RepeaterEgress(inout empty_t hdr, inout empty_t meta, inout standard_metadata_t std) {
    apply { }
}
control RepeaterCompute(inout empty_t hdr, inout empty_t meta) { apply { } }
control RepeaterDeparser(packet_out packet, in empty_t hdr) { apply { } }
V1Switch(RepeaterParser(), RepeaterVerify(), RepeaterIngress(), RepeaterEgress(),
         RepeaterCompute(), RepeaterDeparser()) main;
"""
TYPED = """h1 ping -c 1 -W 1 h2
sh for i in $(seq 100); do grep -q "Adding.*" controller.log && sleep 0.3 && break; sleep 0.1; done
h1 ping -c 2 -W 1 h2
"""


def problem(*programs: str) -> str:
    """Return the reason why p4-utils cannot run on this machine, or an empty text."""
    if missing := [name for name in programs if shutil.which(name) is None]:
        return f"{missing[0]} is not on PATH"
    try:
        interpreter()
    except TestbedError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("minip4", marks=pytest.mark.skipif(bool(problem()), reason=problem())),
        pytest.param("bmv2", marks=pytest.mark.skipif(
            bool(problem(PROGRAM, "simple_switch_CLI")),
            reason=problem(PROGRAM, "simple_switch_CLI"))),
    ],
)  # fmt: skip
def test_a_network_with_a_file_of_commands_and_a_controller(tmp_path: Path, target: str) -> None:
    for name, text in (("network.py", NETWORK), ("controller.py", CONTROLLER), ("typed", TYPED),
                       ("repeater.p4", REPEATER),
                       ("s1-commands.txt", "table_add repeater forward 1 => 2\n"
                                           "table_add repeater forward 2 => 1\n")):  # fmt: skip
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "telemark.cli", "run", str(tmp_path / "network.py"), "--target",
         target, "--yes", "--commands", str(tmp_path / "typed")],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout + done.stderr  # output of Mininet
    assert "1 packets transmitted, 1 received" in told  # the entries of the file forward the ping
    assert "2 packets transmitted, 2 received" in told
    assert (tmp_path / "controller.log").read_text().count("Adding entry") == 2
    assert "rror" not in (tmp_path / "controller.log").read_text()
    assert (tmp_path / "pcap" / "s1-eth1_in.pcap").stat().st_size > 3 * 60
    is_minip4 = target == "minip4"
    assert ("link implemented by minip4 instead of tc: rate_bps=100000000" in told) is is_minip4
