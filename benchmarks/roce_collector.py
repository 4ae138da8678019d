"""What does a record cost that a switch writes over RoCE, and what one that it sends over UDP?

The same records of TCP packets (44 bytes) come over a veth, from one sender, to four collectors:
the RoCE responder, which checks the iCRC of each and writes it where the packet says; one in C over
UDP and one on a packet socket, which keep records in a ring and index them by flow; and one in
Python over UDP. What counts is the CPU time of a record at both ends, less what the sender needs
where nobody takes its frames: the kernel does its work for a frame in the sender's name.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import socket
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import _roce_records
import numpy as np
from _claims import AtLeast, AtMost
from _roce_records import COUNT, TRANSPORT, WRITER
from _wires import GENERATOR_CORE, SWITCH_CORE, await_true, tool
from _wires import run as command
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from collectors.roce.application import FIRST_RKEY
from collectors.roce.endpoint import Transport
from collectors.roce.packets import BTH, RETH, UC, Op, icrc
from collectors.roce.region import TCP, Region
from collectors.roce.softnic import BASE, SoftNic
from minip4.simulator.shared import ARRIVAL
from testbed import cli
from testbed.arrivals import Frames
from testbed.errors import TestbedError
from testbed.results.report import Check, Report, table
from testbed.run import Run

COLLECTOR, PORT, QPN = "10.66.0.2", 5000, 0x100
MAC, SENDER_MAC, NOBODY = "02:00:00:00:00:02", "02:00:00:00:00:01", "02:00:00:00:00:99"
FLOWS = 1000
SECONDS, QUICK_SECONDS, ROUNDS = 2.0, 0.5, 5
PACE, PYTHON_PACE, AS_FAST = 250_000, 50_000, 0
ROCE, UDP_C, PACKET_C, UDP_PYTHON = (
    "RoCE responder, C", "UDP and index, C", "packet socket and index, C", "UDP and index, Python",
)  # fmt: skip
HALF, MILLION = 0.5, 1.0


class Taken(NamedTuple):
    """What a collector did in one turn."""

    collector: str
    pace: int  # asked for; 0: as fast as they go
    sent: int
    received: int
    dropped: int  # by the kernel
    collector_ns: float  # CPU time a record
    sender_ns: float  # CPU time a frame

    @property
    def per_s(self) -> float:
        """Records that one core takes, the kernel's work at its socket aside."""
        return 1e9 / self.collector_ns


def records() -> np.ndarray[Any, Any]:
    """Records of the ring: of each flow one after the other."""
    found = np.zeros(COUNT, TCP)
    words = found.view(">u4").reshape(COUNT, -1)
    words[:, 0] = 0x0A000000 + np.arange(COUNT) % FLOWS
    found["source_port"] = 1000 + np.arange(COUNT) % FLOWS
    found["sequence"] = 1 + np.arange(COUNT)
    return found


def frames(kind: str, path: Path) -> Path:
    """The frames of all records, for one collector."""
    ethernet = Ether(src=SENDER_MAC, dst=NOBODY if kind == NOBODY else MAC)
    ip = IP(src=WRITER.address, dst=COLLECTOR, flags="DF")
    with path.open("wb") as file:
        template = bytearray(bytes(ethernet / ip / _content(kind)))
        for number, record in enumerate(records()):
            end = len(template) - 4 if kind == ROCE else len(template)
            template[end - TCP.itemsize : end] = record.tobytes()
            if kind == ROCE:
                struct.pack_into("!Q", template, 54, BASE + number * TCP.itemsize)
                template[51:54] = number.to_bytes(3, "big")
                template[-4:] = icrc(bytes(template[14:-4]))
            file.write(struct.pack("<I", len(template)) + template)
    return path


def _content(kind: str) -> Packet:
    empty = Raw(bytes(TCP.itemsize))
    if kind != ROCE:
        return UDP(sport=1000, dport=PORT, chksum=0) / empty
    opcode = Op.WRITE_ONLY | (UC if TRANSPORT is Transport.UC else 0)
    header = RETH(va=BASE, rkey=FIRST_RKEY, length=TCP.itemsize)
    return UDP(sport=49152, chksum=0) / BTH(opcode=opcode, dqpn=QPN, icrc=0) / header / empty


def turn(run: Run, kind: str, pace: int, seconds: float) -> Taken:
    """Send, and take."""
    run.progress.update(f"{kind}, {pace or 'any number'} a second")
    path = run.folder / kind.replace(" ", "_")
    if not path.exists():
        frames(kind, path)
    command(f"ip link add collector address {MAC} type veth peer name sender address {SENDER_MAC}")
    command(f"ip address add {COLLECTOR}/24 dev collector")
    command("ip link set collector up")
    send = ["unshare", "-n", tool("send_records"), "sender", path, pace, seconds, GENERATOR_CORE]
    sender = _started(send)
    collector = None
    try:
        _expect(sender, "here")
        command(f"ip link set sender netns {sender.pid}")
        _expect(sender, "ready")
        if kind != NOBODY:
            collector = _started(["taskset", "-c", SWITCH_CORE, *_collecting(kind)])
            _expect(collector, "ready")
        sent, sender_ns = map(int, sender.communicate("\n")[0].split())
        received = dropped = used_ns = 0
        if collector is not None:
            received, dropped, used_ns = map(int, collector.communicate()[0].split())
        return Taken(kind, pace, sent, received, dropped, used_ns / max(received, 1),
                     sender_ns / sent)  # fmt: skip
    finally:
        for process in filter(None, (sender, collector)):
            process.kill()
            process.wait()
        await_true(lambda: "collector" not in {name for _, name in socket.if_nameindex()},
                   "the veth goes with the sender")  # fmt: skip


def alone_ns(folder: Path) -> float:
    """CPU time of a record in the responder itself, from memory: the least of some turns."""
    content = frames(ROCE, folder / "alone").read_bytes()
    (length,) = struct.unpack("<I", content[:4])
    rows = np.frombuffer(content, np.uint8).reshape(COUNT, 4 + length)[:, 4:]
    arrivals = np.zeros(COUNT, ARRIVAL)
    arrivals["length"] = length
    taken = Frames((arrivals, rows.tobytes()))
    nic = SoftNic(COLLECTOR)
    nic.connect(nic.register(Region(TCP, COUNT), rkey=FIRST_RKEY), WRITER, transport=TRANSPORT)
    turns = []
    for _ in range(200):
        began_ns = time.process_time_ns()
        nic.receive(taken)
        turns.append((time.process_time_ns() - began_ns) / COUNT)
    if nic.counts().refused:
        raise AssertionError(nic.refusals()[-1])
    return min(turns)


def _collecting(kind: str) -> list[Any]:
    if kind == UDP_C:
        return [tool("collect_records"), "udp", COLLECTOR, PORT]
    if kind == PACKET_C:
        return [tool("collect_records"), "packet", "collector", PORT]
    script = [sys.executable, _roce_records.__file__]
    return [*script, "roce", COLLECTOR, "collector"] if kind == ROCE else [
        *script, "udp", COLLECTOR, PORT]  # fmt: skip


def _started(arguments: list[Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(each) for each in arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _expect(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    if process.stdout.readline() != f"{word}\n":
        raise TestbedError(f"{process.args}: it did not start")


def experiment(options: argparse.Namespace, run: Run) -> Report:
    if options.time != "real":
        raise TestbedError("this benchmark runs in real time")
    seconds, rounds = (QUICK_SECONDS, 1) if options.quick else (SECONDS, ROUNDS)
    plan = [(NOBODY, PACE), (NOBODY, PYTHON_PACE), (UDP_PYTHON, PYTHON_PACE)]
    plan += [(kind, pace) for kind in (ROCE, UDP_C, PACKET_C) for pace in (PACE, AS_FAST)]
    rows = [turn(run, *each, seconds) for _ in range(rounds) for each in plan]
    return report(rows, alone_ns(run.folder))


def report(rows: list[Taken], alone: float) -> Report:
    """Medians of the rounds, and the claims."""

    def median(kind: str, pace: int, what: str) -> float:
        same = [row for row in rows if (row.collector, row.pace) == (kind, pace)]
        return statistics.median(float(getattr(row, what)) for row in same)

    def whole_ns(kind: str, pace: int = PACE) -> float:
        kernel_ns = median(kind, pace, "sender_ns") - median(NOBODY, pace, "sender_ns")
        return median(kind, pace, "collector_ns") + kernel_ns

    values = [
        (kind, median(kind, pace, "sent") - median(kind, pace, "received"),
         median(kind, pace, "collector_ns"), whole_ns(kind, pace),
         median(kind, AS_FAST, "per_s") / 1e6 if kind != UDP_PYTHON else 1e3 / whole_ns(kind, pace))
        for kind, pace in ((ROCE, PACE), (UDP_C, PACE), (PACKET_C, PACE), (UDP_PYTHON, PYTHON_PACE))
    ]  # fmt: skip
    columns = ("collector", "records lost", "CPU ns of the collector", "and of the kernel",
               "million records/s a core")  # fmt: skip
    return Report(
        samples=[row._asdict() for row in rows],
        checks=[
            AtMost("CPU time of a record over RoCE to that of one over UDP in C, at most",
                   whole_ns(ROCE) / whole_ns(UDP_C), HALF),
            AtLeast("million records/s a core over RoCE, with the iCRC checked, at least",
                    median(ROCE, AS_FAST, "per_s") / 1e6, MILLION),
            Check("records that are neither received nor counted as dropped",
                  sum(row.sent - row.received - row.dropped for row in rows
                      if row.collector not in (NOBODY, UDP_PYTHON)), 0),
        ],
        tables=[table("Collectors of records", columns, values)],
        metrics={"CPU ns a record in the RoCE responder alone": alone},
    )  # fmt: skip


if __name__ == "__main__":
    cli.main(f"benchmark_{Path(__file__).name}", __doc__, experiment)
