"""A DTA translator in this process. Responders in software write its requests to memory."""

from ipaddress import IPv4Address
from pathlib import Path

import numpy as np
import subject
from arriving import frames
from forwarder import Forwarder
from roce_path import KINDS
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from collectors.dta.packets import DTA, NACK_PORT, TrackedDTA
from collectors.roce.endpoint import Peer, Target, Transport, gid
from collectors.roce.region import Region
from collectors.roce.softnic import SoftNic
from minip4.engine.keys import Exact

PROGRAM = Path(__file__).parents[2] / "p4src" / "dta" / "translator.p4"
REPORTERS, ELSEWHERE, COLLECTOR, CPU_PORT = 1, 2, 3, 255  # ports
REPORTER_ADDR, TRANSLATOR_ADDR = "10.0.0.1", "10.0.8.1"
SWITCH_ADDR, COLLECTOR_ADDR = "10.0.9.1", "10.0.9.9"
SWITCH_MAC, COLLECTOR_MAC = 0x0200000000FF, 0x020000000063
ETHER = Ether(dst="02:00:00:00:00:fe", src="02:00:00:00:00:01")
SERVICE = 1
NEVER = 0xFFFFFF  # ack_mask with which requests never request an ACK
EVENTS = ("malformed", "out of range", "not configured", "duplicate", "out of order", "too fast",
          "column twice", "translated", "recovered", "nacked", "restarted")  # fmt: skip
WRITE = "TranslatorEgress.write_copy"
PLAN = "TranslatorIngress.translate.plan_report"


class Translator(Forwarder):
    """A translator. Reports arrive at port 1, and the collector's responder is behind port 3.

    The translator processes a response immediately.
    """

    def __init__(self, program: Path = PROGRAM) -> None:
        self.engine = subject.switch(program, ports=(REPORTERS, ELSEWHERE, COLLECTOR, CPU_PORT))
        self.add = self.engine.table_add
        self.nic = SoftNic(COLLECTOR_ADDR)
        self.connected: list[tuple[int, Region, Target]] = []  # sessions
        self.sent: list[bytes] = []  # all requests until now, in order
        self.lost: set[int] = set()  # indexes in `sent` of the requests that are lost
        self.is_deaf = False  # if True, all responses are lost
        self.answers: list[bytes] = []
        self.nacks: list[Packet] = []
        self.others: list[bytes] = []  # all frames that are neither requests nor NACKs
        self.serve(TRANSLATOR_ADDR, SERVICE)
        for port in (REPORTERS, ELSEWHERE):
            self.engine.mirror_set(256 + port, [(port, 0)])

    def serve(self, address: str, service: int) -> None:
        """Translate all reports to this address, for this service."""
        self.add("TranslatorIngress.services", [Exact(int(IPv4Address(address)))],
                 "TranslatorIngress.serve", [service])  # fmt: skip

    def forward(self, mac: int, port: int = ELSEWHERE) -> None:
        """Forward frames to this MAC address by this port."""
        self.add("TranslatorIngress.forwarding", [Exact(mac)], "TranslatorIngress.forward", [port])

    def session(
        self, number: int, record: np.dtype, count: int, *, fetch_add: bool = False,
        length: int | None = None, ack_mask: int = NEVER, patience: int = 0, psn: int = 0,
        transport: Transport = Transport.RC, region: Region | None = None,
    ) -> Region:  # fmt: skip
        """Add a session to `region`, or to a new region.

        `length` is the length of the region that the switch knows, by default the right one.
        """
        region = region or Region(record, count)
        here = Peer(SWITCH_ADDR, 0x10 + number, psn)
        target = self.nic.connect(self.nic.register(region), here, transport=transport)
        there = target.length if length is None else length
        pair = [target.qpn, target.rkey, target.base, there]
        if fetch_add:
            self.add(f"{WRITE}.queue_pairs", [Exact(number)], f"{WRITE}.fetch_add",
                     [*pair, patience])  # fmt: skip
        else:
            unreliable = int(transport is Transport.UC)
            self.add(f"{WRITE}.queue_pairs", [Exact(number)], f"{WRITE}.write",
                     [unreliable, *pair, ack_mask, patience])  # fmt: skip
        self._connect(number, target, here)
        self.connected.append((number, region, target))
        return region

    def restart_collector(self) -> None:
        """Restart the collector; its regions keep their content.

        Sessions continue from their PSNs.
        """
        self.nic = SoftNic(COLLECTOR_ADDR)
        for number, region, target in self.connected:
            here = Peer(SWITCH_ADDR, 0x10 + number, self.psn(number))
            domain = self.nic.register(region, rkey=target.rkey)
            again = self.nic.connect(domain, here, transport=target.transport)
            assert again.qpn == target.qpn

    def _connect(self, number: int, target: Target, here: Peer) -> None:
        ends = [int(IPv4Address(address)) for address in (SWITCH_ADDR, COLLECTOR_ADDR)]
        self.add(f"{WRITE}.to_collector.collectors", [Exact(number)],
                 f"{WRITE}.to_collector.over_v2",
                 [SWITCH_MAC, COLLECTOR_MAC, *ends, 0xC000 + number])  # fmt: skip
        gids = [int.from_bytes(gid(address), "big") for address in (COLLECTOR_ADDR, SWITCH_ADDR)]
        self.add("TranslatorIngress.answers.answers", [*map(Exact, [2, here.qpn, *gids])],
                 "TranslatorIngress.answers.answer", [number, 0])  # fmt: skip
        self.engine.mirror_set(number, [(COLLECTOR, 0)])
        self.engine.register_write("roce_psn", number, here.psn)
        for copies in range(1, 9):
            replicas = [(COLLECTOR, copy) for copy in range(copies)]
            self.engine.multicast_set(number << 3 | copies - 1, replicas)

    def key_write(
        self, words: int, slots: int, *, bits: int = 31, first: int = 1, sessions: int = 1,
        service: int = SERVICE,
    ) -> None:  # fmt: skip
        """Add a store of Key-Write for reports with `words` words of data."""
        self.add(f"{PLAN}.plan_key_write.key_write_stores", [Exact(service), Exact(words)],
                 f"{PLAN}.plan_key_write.write_key",
                 [first, sessions, slots - 1, (1 << bits) - 1])  # fmt: skip

    def counters(self, slots: int, *, first: int = 1, sessions: int = 1) -> None:
        """Add the store of Key-Increment."""
        self.add(f"{PLAN}.plan_key_increment.counter_stores", [Exact(SERVICE)],
                 f"{PLAN}.plan_key_increment.add_to_key", [first, sessions, slots - 1])  # fmt: skip

    def track(self, index: int = 1, reporter: int = 0, address: str = REPORTER_ADDR) -> None:
        """Track the sequence numbers of a reporter."""
        checks = "TranslatorIngress.translate.check_sequence"
        self.add(f"{checks}.reporters", [Exact(int(IPv4Address(address))), Exact(reporter)],
                 f"{checks}.track", [index])  # fmt: skip

    def limit(self, session: int, interval_ns: int, burst_ns: int = 0) -> None:
        """Limit the rate of a session to one request per `interval_ns`, apart from bursts."""
        limits = "TranslatorIngress.translate.limit_rate"
        self.add(f"{limits}.rates", [Exact(session)], f"{limits}.limit", [interval_ns, burst_ns])

    def report(self, frame: bytes, time_us: int = 0, port: int = REPORTERS) -> int:
        """Process a report, and then its requests and their responses.

        Return the number of requests.
        """
        before = len(self.sent)
        self._take(self.engine.process(port, frame, 1000 * time_us), time_us)
        return len(self.sent) - before

    def _take(self, left: list[tuple[int, bytes]], time_us: int) -> None:
        for port, frame in left:
            if port == COLLECTOR:
                self._carry_out(frame, time_us)
            elif UDP in (packet := Ether(frame)) and packet[UDP].dport == NACK_PORT:
                self.nacks.append(packet)
            else:
                self.others.append(frame)

    def _carry_out(self, request: bytes, time_us: int) -> None:
        self.sent.append(request)
        if len(self.sent) - 1 in self.lost:
            return
        for answer in self.nic.receive(frames([request])):
            self.answers.append(answer)
            if not self.is_deaf:
                self._take(self.engine.process(COLLECTOR, answer, 1000 * time_us), time_us)

    def events(self, reporter: int = 0) -> dict[str, int]:
        """Return the nonzero event counters of a reporter."""
        return self.count_events(EVENTS, "dta_events", first=16 * reporter + 1)

    def session_events(self, session: int = 1) -> dict[str, int]:
        """Return the nonzero event counters of a session."""
        return self.count_events(KINDS, "roce_events", first=16 * session)

    def psn(self, session: int = 1) -> int:
        """Return the PSN of the next request of a session."""
        return self.engine.register_read("roce_psn", session)


def ours(report: Packet, *, src: str = REPORTER_ADDR, dst: str = TRANSLATOR_ADDR,
         reporter: int = 0, sequence: int = 0, immediate: int = 0,
         retransmittable: int = 0) -> bytes:  # fmt: skip
    """Return a frame with a report in Telemark's format.

    The base header gets the other arguments.
    """
    base = DTA(reporter=reporter, sequence=sequence, immediate=immediate,
               retransmittable=retransmittable)  # fmt: skip
    return bytes(ETHER / IP(src=src, dst=dst) / UDP(sport=40041, chksum=0) / base / report)


def tracked(report: Packet, *, seqnum: int = 0, immediate: int = 0,
            retransmittable: int = 0) -> bytes:  # fmt: skip
    """Return a frame with a report in the prototype's format, in its variant with loss tracking."""
    base = TrackedDTA(seqnum=seqnum, immediate=immediate, retransmittable=retransmittable)
    ip = IP(src=REPORTER_ADDR, dst=TRANSLATOR_ADDR)
    return bytes(ETHER / ip / UDP(sport=40041, chksum=0) / base / report)
