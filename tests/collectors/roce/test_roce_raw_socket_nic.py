"""The responder on a packet socket at one end of a veth pair, in a network namespace."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPT = """
import socket, subprocess, sys, time
import numpy as np
from collectors.roce.raw_socket_nic import RawSocketNic
from collectors.roce.endpoint import Completion, Peer
from collectors.roce.region import Region
from collectors.roce.softnic import SoftNic
from requester import Answer, Session, write
from telemark.errors import TestbedError

macs = ["02:00:00:00:00:02", "02:00:00:00:00:01"]
for command in (f"link add v0 address {macs[0]} type veth peer name v1 address {macs[1]}",
                "address add 10.0.0.2/24 dev v0", "link set v0 up", "link set v1 up",
                f"neigh add 10.0.0.1 lladdr {macs[1]} dev v0"):
    subprocess.run(["ip", *command.split()], check=True)
peer_end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300)
peer_end.bind(("v1", 0x0003))
peer_end.settimeout(120)
for address, interface, told in (("10.0.0.9", "v0", "no interface of this machine"),
                                 ("10.0.0.2", "v7", "interface v7: No such device")):
    try:
        RawSocketNic(SoftNic(address), interface)
        sys.exit("it did not refuse")
    except TestbedError as error:
        assert told in str(error), error

nic = SoftNic("10.0.0.2", mac=macs[0])
region = Region(np.dtype("u1"), 64)
peer = Peer("10.0.0.1", 7, 5)
session = Session("v2", macs[0], peer, macs[1], nic.connect(nic.register(region), peer))
card = RawSocketNic(nic, "v0")

def answer():
    while True:
        frame = peer_end.recv(2000)
        if frame[:6].hex(":") == macs[1]:
            return frame  # an ICMP message would be one, too

peer_end.send(write(0, b"hello")(session))
assert Answer.read(session, answer()) == Answer(0, msn=1)
assert not card.wait(0)
in_vlan = write(1, b"taken")(session)
for _ in range(50):
    peer_end.send(in_vlan[:12] + bytes.fromhex("81000005") + in_vlan[12:])
peer_end.send(write(2, b"early")(session))
assert Answer.read(session, answer()) == Answer(1, 0x60, 1)
peer_end.send(write(1, b"there", 5, immediate=9)(session))
assert Answer.read(session, answer()) == Answer(1, msn=2)
assert card.wait(120)
assert nic.completions() == [Completion(session.target.qpn, 9, 5)]
assert region.bytes[:10].tobytes() == b"hellothere"
assert (nic.counts().refused["GAP"], card.drops()) == (1, 0)
assert nic.counts().refused["FOREIGN"] >= 50
assert "PSN 7: expected 6" in nic.refusals()[-1]
subprocess.run(["ip", "link", "set", "v0", "down"], check=True)
for _ in range(2):
    try:
        card.wait(None)
        sys.exit("it did not notice")
    except TestbedError as error:
        assert "Network is down" in str(error), error
card.close()
subprocess.run(["ip", "link", "set", "v0", "up"], check=True)
RawSocketNic(nic, "v0")
sys.exit("and it ends, though a card is open")
"""


def test_requests_are_answered_and_the_kernel_says_nothing() -> None:
    run = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", SCRIPT], capture_output=True, text=True,
        check=False, cwd=HERE.parents[2], timeout=300,
        env={**os.environ, "PYTHONPATH": f"{HERE}:{HERE.parents[2]}"},
    )  # fmt: skip
    assert run.stderr == "and it ends, though a card is open\n"
    assert run.returncode == 1
