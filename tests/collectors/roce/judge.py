"""The reference for responders: rdma_rxe, the RoCE stack of the kernel, in a virtual machine."""

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import judged
from arriving import frames
from requester import Answer, Session, write
from roce_path import COLLECTOR_ADDR, SWITCH_ADDR
from scapy.layers.inet import ICMP
from scapy.layers.l2 import Ether
from verdicts import BEFORE, Case

from collectors.roce.connection_manager import ConnectionManager
from collectors.roce.endpoint import Completion, Domain, Peer
from collectors.roce.packets import BTH
from collectors.roce.region import Region
from collectors.roce.softnic import SoftNic
from collectors.roce.verbs import Verbs
from telemark.backends.real.vm import nic
from telemark.backends.real.vm.machine import Machine
from telemark.traffic.received import Frames

OWN_MAC, PEER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
MAC_BYTES = bytes.fromhex(OWN_MAC.replace(":", ""))
ADDRESSES = {"v2": ("10.9.0.1", "10.9.0.2"), "v2_ipv6": ("fd09::1", "fd09::2")}
BATCH = 32  # frames; every queue on the path has room for more
FIRST_QPN = 0x1000  # first QPN of peers; the sentinel has the number before it


@dataclass
class Outcome:
    """Result of a case."""

    answers: list[list[Answer]]  # for each step
    memory: bytes
    completions: list[Completion]
    qpn: int


class Judge:
    """rxe in a virtual machine, and the other end of its network interface."""

    def __init__(self, machine: Machine, packets: socket.socket) -> None:
        self.machine, self.packets = machine, packets
        (own, peer), (own6, peer6) = ADDRESSES.values()
        neighbours = dict.fromkeys((peer, peer6), PEER_MAC)
        neighbours[SWITCH_ADDR] = PEER_MAC
        addresses = [f"{own}/24", f"{own6}/64", f"{COLLECTOR_ADDR}/24"]
        machine.call(nic.configure, addresses, neighbours)
        bench = _bench(FIRST_QPN - 1, "v2", Case("sentinel", ()))
        (target,) = machine.make(judged.Benches, [bench]).connected()
        self._sentinel = Session("v2", OWN_MAC, bench.peer, PEER_MAC, target)
        self._sentinels = 0  # number of sent sentinels

    def try_out(self, cases: Sequence[tuple[str, Case]]) -> list[Outcome]:
        """Return rxe's results for each pair of a RoCE version and a case.

        Each case has its own region and queue pair. Therefore the first packets of all cases are
        sent together, then all second packets, and so on. A sentinel is sent after every few
        packets. Its ACK shows that rxe has processed all earlier packets, because rxe processes
        packets in order.
        """
        benches = [_bench(FIRST_QPN + i, version, case)
                   for i, (version, case) in enumerate(cases)]  # fmt: skip
        remote = self.machine.make(judged.Benches, benches)
        targets = remote.connected()
        sessions = [
            Session(version, OWN_MAC, bench.peer, PEER_MAC, target)
            for (version, _), bench, target in zip(cases, benches, targets, strict=True)
        ]
        found = self._send_all(sessions, [case for _, case in cases])
        memory, completions = remote.results()
        return [
            Outcome(answers, left, [c for c in completions if c.qpn == target.qpn], target.qpn)
            for answers, left, target in zip(found, memory, targets, strict=True)
        ]

    def ask(self, session: Session, frame: bytes) -> list[Answer]:
        """Return the responses to a frame."""
        return [Answer.read(session, got) for got in self.exchange(frame)]

    def exchange(self, frame: bytes) -> list[bytes]:
        """Return the raw responses to a frame."""
        self.packets.send(frame)
        return [got for _, got in self._until_sentinel()]

    def _send_all(
        self, sessions: Sequence[Session], cases: Sequence[Case]
    ) -> list[list[list[Answer]]]:
        """Return the responses to each step of each case."""
        found: list[list[list[Answer]]] = [[[] for _ in case.steps] for case in cases]
        for step in range(max(len(case.steps) for case in cases)):
            numbers = [i for i, case in enumerate(cases) if step < len(case.steps)]
            for at in range(0, len(numbers), BATCH):
                for i in numbers[at : at + BATCH]:
                    self.packets.send(cases[i].steps[step].request(sessions[i]))
                for qpn, frame in self._until_sentinel():
                    i = qpn - FIRST_QPN
                    found[i][step].append(Answer.read(sessions[i], frame))
        return found

    def _until_sentinel(self) -> Iterator[tuple[int, bytes]]:
        """Send a sentinel; yield the queue pair and the content of each frame before its ACK."""
        session, psn = self._sentinel, self._sentinels
        self._sentinels += 1
        self.packets.send(write(psn, b"sentinel")(session))
        while True:
            frame = self.packets.recv(4096)
            packet = Ether(frame)
            if BTH not in packet or ICMP in packet:
                # These are multicast reports of IPv6, and ICMP errors that quote fragments of an
                # earlier case.
                continue
            if packet[BTH].dqpn == session.peer.qpn:
                assert Answer.read(session, frame).psn == psn
                return
            yield packet[BTH].dqpn, frame


class Rxe:
    """rdma_rxe of Linux as the collector of a switch that runs in this process.

    This collector has the methods of SoftNic that tests need.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._endpoint = judge.machine.make(Verbs, COLLECTOR_ADDR)
        self._regions: list[Any] = []  # in the virtual machine
        self.connect = self._endpoint.connect

    def register(self, region: Region) -> Domain:
        """Register a region of the same layout in the virtual machine."""
        self._regions.append(self._judge.machine.make(Region, region.record, region.count))
        domain: Domain = self._endpoint.register(self._regions[-1])
        return domain

    def receive(self, arrived: Frames) -> list[bytes]:
        """Return the responses."""
        return [answer for each in arrived
                for answer in self._judge.exchange(MAC_BYTES + each.frame[6:])]  # fmt: skip

    def memory(self) -> list[bytes]:
        """Return the content of the regions."""
        return [self._judge.machine.call(getattr, region, "bytes").tobytes()
                for region in self._regions]  # fmt: skip


@contextlib.contextmanager
def answering(
    nic: SoftNic, packets: socket.socket, manager: ConnectionManager | None = None,
    lose: Callable[[bytes], bool] = lambda _frame: False,
) -> Iterator[list[bytes]]:  # fmt: skip
    """Let a responder process all frames; yield the list of processed frames.

    With a manager, the responder also processes connection requests. `lose` selects responses to
    drop.
    """
    came: list[bytes] = []
    ended = threading.Event()

    def answer() -> None:
        while not ended.is_set():
            if select.select([packets], [], [], 0.01)[0]:
                came.append(packets.recv(4096))
                replies = nic.receive(frames(came[-1:]))
                if manager is not None:
                    told = manager.answers(nic.management())
                    replies += [frame for frame in told if not lose(frame)]
                for reply in replies:
                    packets.send(reply)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield came
    finally:
        ended.set()
        thread.join()


def _bench(qpn: int, version: str, case: Case) -> judged.Bench:
    own, peer = ADDRESSES[version]
    return judged.Bench(own, Peer(peer, qpn, case.psn), case.transport, case.access,
                        case.region_access, case.receives, BEFORE)  # fmt: skip
