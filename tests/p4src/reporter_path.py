"""A DTA reporter in this process.

The reporter gets the packets of users, forwards them, and sends reports.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import subject
from forwarder import IN, OUT, TO_COLLECTOR, Forwarder, check_ipv4_checksum
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from minip4.engine.keys import Exact, Ternary

FOLDER = Path(__file__).parents[2] / "p4src" / "dta"
TO_TRANSLATOR = TO_COLLECTOR
HOST_MAC, REPORTER_MAC, TRANSLATOR_MAC = 0x020000000002, 0x0200000000FF, 0x020000000063
REPORTER_ADDR, TRANSLATOR_ADDR = "10.0.9.1", "10.0.9.9"
PORT, PROTOTYPE_PORT, NACK_PORT = 40042, 40040, 40044
REPORTER, NODE, SESSIONS = 9, 0xABCD, 400
KEY_WRITE, APPEND, KEY_INCREMENT, POSTCARDING, NACK = 1, 2, 3, 4, 0x80
START, RESENT, DROPPED, MOVED, COUNT, DATA, POSTCARD = (1 << bit for bit in range(7))
STARTED, WAS_RESENT, WAS_DROPPED = range(3)  # events that lists contain
PLAN = "ReporterEgress.reports.plan"
ALL, NEVER = 0xFFFFFFFF, (1 << 48) - 1
KINDS = ("sent", "nacked", "resent", "not stored", "never sent", "redundant", "over budget")
ETHER = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")


@dataclass(frozen=True)
class Report:
    """A parsed report in Telemark's format. `detail` is the four bytes after the base header."""

    opcode: int
    sequence: int
    immediate: bool
    retransmittable: bool
    detail: bytes
    key: bytes
    words: tuple[int, ...]


class Reporter(Forwarder):
    """A reporter. Packets of users arrive at port 1, and leave by port 2.

    The translators are behind port 3.
    """

    def __init__(self, program: str = "reporter.p4", translators: int = 1) -> None:
        self.engine = subject.switch(FOLDER / program, ports=(IN, OUT, TO_TRANSLATOR))
        self.add, self.set_default = self.engine.table_add, self.engine.table_set_default
        self.add("ReporterIngress.forwarding", [Exact(HOST_MAC)], "ReporterIngress.forward", [OUT])
        addresses = [int(IPv4Address(address)) for address in (REPORTER_ADDR, TRANSLATOR_ADDR)]
        for number in range(1, translators + 1):
            ends = [addresses[0], addresses[1] + number - 1]
            self.add("ReporterEgress.reports.write_report.translators", [Exact(number)],
                     "ReporterEgress.reports.write_report.address_report",
                     [REPORTER_MAC, TRANSLATOR_MAC, *ends, REPORTER])  # fmt: skip
            self.add("ReporterIngress.process_nack.nack_sources", [*map(Exact, ends[::-1])],
                     "ReporterIngress.process_nack.process", [number, TO_TRANSLATOR])  # fmt: skip
            self.engine.mirror_set(SESSIONS + number, [(TO_TRANSLATOR, 0)])
        watch = "ReporterIngress.watch_flow"
        self.set_default(f"{watch}.flow_keys", f"{watch}.set_flow_key", [NODE, translators])
        self.follow()

    def watch(self, wanted: int, dst_port: int | None = None) -> None:
        """Watch packets: all packets, or those to this port.

        Send the reports that `wanted` names.
        """
        port = Ternary(0, 0) if dst_port is None else Ternary(dst_port, 0xFFFF)
        self.add("ReporterIngress.watch_flow.watch_list", [*[Ternary(0, 0)] * 4, port],
                 "ReporterIngress.watch_flow.watch", [wanted], 1)  # fmt: skip

    def follow(
        self, *, share: int = 0, mask: int = 0, first_word: int = 0, idle_us: int = NEVER
    ) -> None:
        """Configure when data of flows are reported: on changes, after idle time, as samples."""
        self.set_default("ReporterEgress.track_flow.flows", "ReporterEgress.track_flow.follow",
                         [7, 0, share, mask, 32 * first_word, idle_us])  # fmt: skip

    def write_data(
        self, words: int = 7, *, wanted: int = DATA, immediate: int = 0, kept: int = 0
    ) -> None:
        """Report the data of all flows by Key-Write. Also send the other reports in `wanted`."""
        self.watch(wanted)
        self.set_default(f"{PLAN}.data_reports", f"{PLAN}.write_data",
                         [2, words, immediate, kept])  # fmt: skip

    def count(self, what: str = "packets", kept: int = 0) -> None:
        """Report the packets or the bytes of flows by Key-Increment."""
        self.set_default(f"{PLAN}.count_reports", f"{PLAN}.count_{what}",
                         [4, 0, kept])  # fmt: skip

    def write_postcards(self, kept: int = 0) -> None:
        """Report all flows by Postcarding."""
        self.watch(POSTCARD)
        self.set_default(f"{PLAN}.postcards", f"{PLAN}.write_postcard",
                         [2, 0, kept])  # fmt: skip

    def append(self, event: int, number: int, *, kept: int = 1) -> None:
        """Append events of this kind to a list."""
        for plan in ("ReporterIngress.plan_drop", PLAN):
            self.add(f"{plan}.event_lists", [Exact(event)], f"{plan}.append", [1, number, 0, kept])

    def reports(self, frame: bytes, time_us: int = 0) -> list[Report]:
        """Return the reports about a packet. Assert that the packet is forwarded unchanged."""
        (port, out), *others = self.send(frame, time_us)
        assert (port, out) == (OUT, frame)
        assert all(port == TO_TRANSLATOR for port, _ in others)
        return [parse_report(frame) for _, frame in others]

    def hear(self, frame: bytes) -> list[Report]:
        """Return the reports that the reporter sends again after a NACK."""
        sent = self.send(frame, port=TO_TRANSLATOR)
        assert all(port == TO_TRANSLATOR for port, _ in sent)
        return [parse_report(frame) for _, frame in sent]

    def events(self, translator: int = 1) -> dict[str, int]:
        """Return the nonzero event counters for a translator.

        Also return how many reports were not sent again, because they were overwritten ("evicted"),
        or because the budget was used up ("over_budget").
        """
        counts = self.count_events(KINDS, "dta_events", first=16 * translator)
        for kind in ("evicted", "over_budget"):
            if count := self.engine.register_read(f"dta_{kind}", translator):
                counts[kind] = count
        return counts


def payload(frame: bytes, port: int = PORT) -> bytes:
    """Return the UDP payload of a frame to the translator. Assert that its headers are correct."""
    packet = Ether(frame)
    assert (packet.dst, packet.src) == ("02:00:00:00:00:63", "02:00:00:00:00:ff")
    assert (packet[IP].src, packet[IP].flags) == (REPORTER_ADDR, "DF")
    assert (packet[UDP].sport, packet[UDP].dport, packet[UDP].chksum) == (port, port, 0)
    assert (packet[IP].len, packet[UDP].len) == (len(frame) - 14, len(frame) - 34)
    check_ipv4_checksum(packet)
    return frame[42:]


def parse_report(frame: bytes) -> Report:
    """Parse a frame with a report in Telemark's format."""
    body = payload(frame)
    assert body[0] & 0xF3 == 0x10  # version 1, reserved bits 0
    assert int.from_bytes(body[2:4], "big") == REPORTER
    at = 12 if body[1] == APPEND else 28
    assert len(body[at:]) % 4 == 0
    words = tuple(int.from_bytes(body[i : i + 4], "big") for i in range(at, len(body), 4))
    return Report(body[1], int.from_bytes(body[4:8], "big"), bool(body[0] & 8), bool(body[0] & 4),
                  body[8:12], body[12:at], words)  # fmt: skip


def nack(first: int, count: int, *, src: str = TRANSLATOR_ADDR) -> bytes:
    """Return a NACK in Telemark's format from a translator."""
    body = bytes([0x10, NACK, 0, REPORTER]) + first.to_bytes(4, "big") + count.to_bytes(4, "big")
    return _to_reporter(body, src)


def prototype_nack(last_good: int) -> bytes:
    """Return a NACK in the prototype's format."""
    return _to_reporter(bytes([last_good, 0x80]), TRANSLATOR_ADDR)


def _to_reporter(body: bytes, src: str) -> bytes:
    return bytes(Ether(dst="02:00:00:00:00:ff", src="02:00:00:00:00:63")
                 / IP(src=src, dst=REPORTER_ADDR)
                 / UDP(sport=NACK_PORT, dport=NACK_PORT, chksum=0) / Raw(body))  # fmt: skip


def key(sport: int = 4000, dport: int = 5000, protocol: int = 17) -> bytes:
    """Return the key of the flow from 10.0.0.1 to 10.0.0.2 with these ports and this protocol."""
    numbers = (
        bytes.fromhex("0a000001 0a000002") + sport.to_bytes(2, "big") + dport.to_bytes(2, "big")
    )
    return numbers + bytes([protocol]) + NODE.to_bytes(3, "big")


def udp(size: int = 8, *, sport: int = 4000, dport: int = 5000, ttl: int = 64) -> bytes:
    """Return a UDP frame as a host sends it, with `size` bytes of payload."""
    return bytes(ETHER / IP(src="10.0.0.1", dst="10.0.0.2", ttl=ttl) / UDP(sport=sport, dport=dport)
                 / Raw(bytes(size)))  # fmt: skip


def tcp(seq: int, size: int = 100, flags: str = "A", options: Sequence[object] = ()) -> bytes:
    """Return a TCP frame as a host sends it."""
    return bytes(ETHER / IP(src="10.0.0.1", dst="10.0.0.2")
                 / TCP(sport=4000, dport=5000, seq=seq, flags=flags, options=[*options])
                 / Raw(bytes(size)))  # fmt: skip
