"""Remote memory: the network, and a server with RDMA READ."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import finsy as fy
import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray

from collectors.roce.application import FIRST_QPN, Outcome, Responder, Writer
from collectors.roce.endpoint import Peer
from collectors.roce.packets import PSN_MASK, UNLIMITED, Op, icrc
from collectors.roce.softnic import BASE
from controllers.roce.queue_pair import mac_of
from telemark.apps.application import Host
from telemark.network import Network
from telemark.traffic.received import Frames

COUNTERS, TABLE, BUFFER = "counters", "lookup table", "packet buffer"
MODES = (COUNTERS, TABLE, BUFFER)
RECORDS: Mapping[str, np.dtype[Any]] = {
    COUNTERS: np.dtype("<u8"),
    TABLE: np.dtype([("mac", "V6"), ("port", ">u2"), ("frame", "V64")]),
    BUFFER: np.dtype("V64"),
}
SWITCH = Peer("10.9.0.1", qpn=0x10, psn=0)
SERVER_PORT, OUT_PORT = 4, 2
CHANGE, READ = 1, 2  # numbers of the sessions in remote_memory.p4
READ_QPN = FIRST_QPN + 1  # queue pair whose requests MemoryServer executes
SERVER_CLONES = 1
READ_RESPONSE = 0x10
# offsets in a frame of RoCEv2 over IPv4: network, transport, and RDMA header
IP, UDP, BTH, RETH = 14, 34, 42, 54
IPV4 = struct.Struct(">BBHHHBBH8s")


class Server(Topo):
    """h1 - s1 - h2 and h3; the memory is in m. `out` are parameters of the link to h2."""

    def build(self, **out: float) -> None:
        self.addSwitch("s1")
        for port, host in enumerate(("h1", "h2", "h3", "m"), start=1):
            given = {OUT_PORT: out, SERVER_PORT: {"delay_us": 2}}.get(port, {})
            self.addLink("s1", self.addHost(host), port1=port, params1=given)


@dataclass(frozen=True)
class Entries:
    """Initial content of the memory. Entries of the table are random: h2 or h3."""

    mode: str
    cells: int
    macs: tuple[bytes, bytes]  # MAC addresses of h2 and h3
    seed: int

    def memory(self) -> NDArray[Any]:
        """Return the memory before the run."""
        memory = np.zeros(self.cells, RECORDS[self.mode])
        if self.mode == TABLE:
            to_h3 = np.random.default_rng(self.seed).integers(2, size=self.cells)
            memory["mac"], memory["port"] = np.array(self.macs, "V6")[to_h3], OUT_PORT + to_h3
        return memory


@dataclass(frozen=True)
class Served:
    """Result of a MemoryServer."""

    memory: NDArray[Any]
    reads: int
    refused: list[str]  # reasons of rejected requests


class MemoryServer(Responder):
    """Responder that also executes RDMA READ, in software and on a queue pair of its own.

    Requests are executed in the order in which they arrive.
    """

    def __init__(self, address: str, entries: "Entries") -> None:
        record = RECORDS[entries.mode]
        super().__init__(address, [Writer(SWITCH, record, entries.cells)])
        self._entries = entries
        self._psn, self._reads = 0, 0
        self._refused: list[str] = []

    def start(self, host: Host) -> None:
        """See Responder; also sets the initial content of the memory."""
        super().start(host)
        self._regions[0].records[:] = self._entries.memory()
        self._memory = self._regions[0].records.view(np.uint8).reshape(-1)

    def on_frames(self, frames: Frames) -> None:
        """Execute the requests in the frames, and send the responses."""
        records, data = frames.taken
        ends = np.cumsum(records["length"], dtype=np.int64).tolist()
        starts = [0, *ends[:-1]]
        first = 0
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if data[start + BTH : start + BTH + 1] == bytes([Op.READ_REQUEST]):
                if first < number:
                    super().on_frames(Frames((records[first:number], data[starts[first] : start])))
                first = number + 1
                self._read(data[start:end])
        if first < len(records):
            super().on_frames(Frames((records[first:], data[starts[first] :])))

    def _read(self, frame: bytes) -> None:
        """Execute a READ request."""
        address, key, length = struct.unpack_from(">QII", frame, RETH)
        psn = int.from_bytes(frame[BTH + 9 : BTH + 12], "big")
        qpn = int.from_bytes(frame[BTH + 5 : BTH + 8], "big")
        at = address - BASE
        problems = {
            "iCRC": icrc(frame[IP:-4]) != frame[-4:],
            "queue pair": qpn != READ_QPN,
            "PSN": psn != self._psn,
            "key": key != self.targets[0].rkey,
            "bounds": at < 0 or at + length > len(self._memory),
        }
        if any(problems.values()):
            self._refused += [name for name, is_wrong in problems.items() if is_wrong]
            return
        self._psn = (psn + 1) & PSN_MASK
        self._reads += 1
        aeth = bytes([UNLIMITED]) + self._reads.to_bytes(4, "big")[1:]
        bth = bytes([READ_RESPONSE, 0x40, 0xFF, 0xFF, 0]) + SWITCH.qpn.to_bytes(3, "big")
        body = bth + bytes(1) + psn.to_bytes(3, "big") + aeth
        body += self._memory[at : at + length].tobytes()
        udp = frame[UDP : UDP + 4] + struct.pack(">HH", len(body) + 12, 0)
        addresses = frame[IP + 16 : IP + 20] + frame[IP + 12 : IP + 16]
        parts = (0x45, 0, len(body) + 32, 0, 0x4000, 64, 17)
        words = np.frombuffer(IPV4.pack(*parts, 0, addresses), ">u2").sum(dtype=np.int64)
        checksum = ~((words & 0xFFFF) + (words >> 16)) & 0xFFFF
        packet = IPV4.pack(*parts, checksum, addresses) + udp + body
        self._port.send(frame[6:12] + frame[:6] + frame[12:14] + packet + icrc(packet))

    def result(self) -> Served:
        """Return the memory, and the counts of requests."""
        outcome: Outcome = super().result()
        return Served(outcome.records[0], self._reads, self._refused + outcome.refusals)


def configuration(net: Network, server: MemoryServer) -> list[Any]:
    """Return the entries of s1: its queue pairs, and its clone session."""
    target = server.targets[0]
    ends = {"src_mac": mac_of(SWITCH), "dst_mac": net.host("m").MAC(),
            "src_addr": SWITCH.address, "dst_addr": target.address}  # fmt: skip
    found: list[Any] = [fy.P4CloneSessionEntry(SERVER_CLONES, replicas=[SERVER_PORT])]
    for session, qpn in ((CHANGE, target.qpn), (READ, READ_QPN)):
        match = fy.Match({"session": session})
        connect = fy.Action("connect", qpn=qpn, rkey=target.rkey, base=target.base)
        over = fy.Action("over_v2", **ends, src_port=0xC000 | session)
        found += [fy.P4TableEntry("queue_pairs", match=match, action=connect),
                  fy.P4TableEntry("collectors", match=match, action=over)]  # fmt: skip
    return found


def expected_packets(
    entries: Entries, cells: NDArray[np.int64], frames: Sequence[bytes]
) -> dict[str, list[bytes]]:
    """Return the packets that each host must receive, in order."""
    if entries.mode != TABLE:
        return {"h2": list(frames), "h3": []}
    ports = entries.memory()["port"][cells].tolist()
    found: dict[str, list[bytes]] = {"h2": [], "h3": []}
    for frame, port in zip(frames, ports, strict=True):
        found[f"h{port}"].append(entries.macs[port - OUT_PORT] + frame[6:])
    return found


def count_wrong_cells(
    entries: Entries, served: Served, cells: NDArray[np.int64], frames: Sequence[bytes]
) -> int:
    """Return the number of cells that differ from the model."""
    memory = [cell.tobytes() for cell in served.memory]
    if entries.mode == BUFFER:
        # Which packets wait depends on the queue. They are stored in order, and all are read back.
        kept = [memory[n] for n in range(served.reads)]
        numbers = [int.from_bytes(frame[42:46], "big") for frame in kept]
        is_ascending = [b > a for a, b in zip([-1, *numbers], numbers, strict=False)]
        wrong = [
            frame != frames[number] or not ascends
            for frame, number, ascends in zip(kept, numbers, is_ascending, strict=True)
        ]
        return sum(wrong) + sum(any(cell) for cell in memory[served.reads :])
    expected = entries.memory()
    for cell, frame in zip(cells.tolist(), frames, strict=True):
        if entries.mode == COUNTERS:
            expected[cell] += 1
        else:
            expected[cell]["frame"] = np.void(frame)
    return sum(a != b.tobytes() for a, b in zip(memory, expected, strict=True))
