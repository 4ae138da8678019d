"""The kernel's IP stack receives all frames of an interface except RoCE frames."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NO_TCX = "kernel without tcx"
SCRIPT = """
import socket, subprocess, sys
from pathlib import Path
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from collectors.roce.raw_socket_nic import RawSocketNic
from collectors.roce.softnic import SoftNic

own, peer = "02:00:00:00:00:02", "02:00:00:00:00:01"
for command in (f"link add v0 address {own} type veth peer name v1", "link set v0 up",
                "link set v1 up", *(f"address add {each} dev v0" for each in (
                    "10.0.0.2/24", "10.0.0.3/24", "fd00::2/64 nodad", "fd00::3/64 nodad"))):
    subprocess.run(["ip", *command.split()], check=True)
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
sender.bind(("v1", 0))

def counted(protocol, name):
    names, values = [line.split() for line in Path("/proc/net/snmp").read_text().splitlines()
                     if line.startswith(protocol + ":")]
    return int(values[names.index(name)])

def received():
    # Packets: the kernel says more of its own accord over IPv6, so of that only datagrams.
    found = dict(line.split() for line in Path("/proc/net/snmp6").read_text().splitlines())
    return counted("Ip", "InReceives") + sum(
        int(found["Udp6" + what]) for what in ("InDatagrams", "InErrors", "NoPorts"))

def goes_on(packet):
    # Whatever a busy kernel puts off, the packet is seen to when a later one is.
    before, later = received(), counted("Icmp", "InEchoReps")
    for each in (packet, IP(src="10.0.0.1", dst="10.0.0.3") / ICMP(type="echo-reply")):
        sender.send(bytes(Ether(src=peer, dst=own) / each))
    while counted("Icmp", "InEchoReps") == later:
        pass
    return received() - before - 1

def udp(port=4791, **sums):
    return UDP(sport=49152, dport=port, **sums) / bytes(32)

v4, other_v4 = (IP(src="10.0.0.1", dst=f"10.0.0.{each}") for each in (2, 3))
v6, other_v6 = (IPv6(src="fd00::1", dst=f"fd00::{each}") for each in (2, 3))
port_in_options = IP(src="10.0.0.1", dst="10.0.0.2", options=b"\\0\\0\\x12\\xb7")
rest = IP(src="10.0.0.1", dst="10.0.0.2", frag=1, proto=17)
for address, ours, others in (
    ("10.0.0.2", v4 / udp(chksum=0), [v4 / udp(4790), other_v4 / udp(), v4 / TCP(dport=4791),
                                      port_in_options / udp(4790), rest / bytes(udp())]),
    ("fd00::2", v6 / udp(), [v6 / udp(4790), other_v6 / udp()]),
):
    assert goes_on(ours) == 1
    card = RawSocketNic(SoftNic(address), "v0")
    if not card.bypasses_ip:
        sys.exit("kernel without tcx")
    assert goes_on(ours) == 0
    assert [goes_on(each) for each in others] == [1 for each in others]
    sender.send(bytes(Ether(src=peer, dst=own) / ours)[:24])  # the program reads past its end
    card.close()
    assert goes_on(ours) == 1
"""


def test_roce_frames_of_the_card_alone_are_kept_from_the_kernel() -> None:
    run = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", SCRIPT], capture_output=True, text=True,
        check=False, cwd=HERE.parents[2], timeout=300,
        env={**os.environ, "PYTHONPATH": f"{HERE.parents[2]}"},
    )  # fmt: skip
    if run.stderr == f"{NO_TCX}\n":
        pytest.skip(NO_TCX)
    assert run.returncode == 0, run.stderr
