"""Path reports of one node or of a stack of nodes, and a sender of reports."""

from collections.abc import Sequence

import made_reports
from scapy.layers.inet import IP, UDP

from telemark.apps.application import Application, Host

ME, TRACKED, DROPPED = 7000, 2, 8


def packet(ttl: int, source_port: int, payload: bytes) -> IP:
    return IP(src="10.0.0.1", dst="10.0.0.2", ttl=ttl, id=0) / UDP(sport=source_port, dport=80) / (
        payload)  # fmt: skip


def alone(
    node: int, sequence: int, *, ttl: int = 64, interfaces: tuple[int, int] = (1, 2),
    ingress: int = 0, egress: int = 0, number: int = 0, flags: int = TRACKED, flow: int = ME,
) -> bytes:  # fmt: skip
    """Return an INT-XD report with level 1 interfaces, queue and times, for 16 bytes of data."""
    inner = bytes(packet(ttl, flow, number.to_bytes(16, "big")))
    metadata = (
        b"".join(each.to_bytes(2, "big") for each in interfaces) + (node * 10).to_bytes(4, "big")
        + ingress.to_bytes(8, "big") + egress.to_bytes(8, "big")
    )  # fmt: skip
    head = made_reports.Individual(
        inner_type=4, length=2 + 6 + len(inner) // 4, md_length=6, flags=flags
    )
    group = made_reports.Group(node=node, sequence=sequence)
    return bytes(group) + bytes(head) + bytes(made_reports.Main(bits=0x5C00)) + metadata + inner


def stacked(
    sequence: int, hops: Sequence[tuple[int, int, int, int]], *, flags: int = TRACKED,
    int_flags: int = 0, number: int = 0, flow: int = ME,
) -> bytes:  # fmt: skip
    """Return an INT-MD report for these hops: (node, latency, ingress time, egress time).

    The source is the first hop.
    """
    stack = b""
    for node, latency, ingress, egress in hops:
        stack = (node.to_bytes(4, "big") + latency.to_bytes(4, "big")
                 + ingress.to_bytes(8, "big") + egress.to_bytes(8, "big") + stack)  # fmt: skip
    header = made_reports.Md(hop_words=6, bits=0xAC00, m=int_flags)
    shim = made_reports.Shim(length=3 + len(stack) // 4)
    inner = packet(64, flow, bytes(shim) + bytes(header) + stack + number.to_bytes(16, "big"))
    inner.tos = made_reports.INT_DSCP << 2
    head = made_reports.Individual(
        report_type=0, inner_type=4, length=len(bytes(inner)) // 4, flags=flags
    )
    group = made_reports.Group(node=hops[-1][0], sequence=sequence)
    return bytes(group) + bytes(head) + bytes(inner)


class Reporter(Application):
    """Sends reports to a collector at regular intervals."""

    def __init__(self, payloads: Sequence[bytes], address: str, port: int, each_ns: int) -> None:
        self.payloads = payloads
        self.address = address
        self.port = port
        self.each_ns = each_ns

    def start(self, host: Host) -> None:
        self.udp = host.udp(6000)
        begin_ns = host.now_ns() + self.each_ns
        for number in range(len(self.payloads)):
            host.call_at(begin_ns + number * self.each_ns, lambda number=number: self.send(number))

    def send(self, number: int) -> None:
        self.udp.send(self.payloads[number], self.address, self.port)
