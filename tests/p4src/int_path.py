"""INT switches in this process. Tests send frames at chosen times through several switches."""

from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path

import subject
from forwarder import CPU_PORT, IN, OUT, TO_COLLECTOR, Forwarder, check_ipv4_checksum
from int_layers import NODE, QUEUE, Int, Report, take_int, take_report
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from minip4.engine.keys import Exact, Ternary

FOLDER = Path(__file__).parents[2] / "p4src" / "int"
HOST_MAC, COLLECTOR_MAC = 0x020000000002, 0x020000000063
COLLECTOR, SWITCH_ADDR = "10.0.9.9", "10.0.9.1"
REPORT_PORT = 32766
SESSION = 500
ALL = 0xFFFFFFFF  # sampling of all packets
DSCP, PORT, NEW_UDP, PROBE = range(4)  # how a packet shows that it has INT
INT_PORT, MARKER = 32767, b"TELEMARK"
# prefixes of the names of a program's ingress and egress
KINDS = {"int.p4": "Int", "grouped.p4": "Grouped", "with_ampm.p4": "Both",
         "../roce/int_sink.p4": "Sink", "../dta/int_sink.p4": "Sink",
         "../ioam/with_ampm_int.p4": "All"}  # fmt: skip
ETHER = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
EVENTS = ("malformed", "cleared", "stopped", "no room", "not possible", "not understood",
          "hops", "mtu")  # fmt: skip


class Switch(Forwarder):
    """An INT switch. Frames arrive at port 1 and leave by port 2. Reports leave by port 3.

    `outside` are the ports that lead out of the domain.
    """

    def __init__(
        self, node: int, *, outside: Sequence[int] = (), mtu: int = 1500, offset_us: int = 0,
        parts_a_byte: int = 0, program: str = "int.p4",
    ) -> None:  # fmt: skip
        self.engine = subject.switch(FOLDER / program, ports=(IN, OUT, TO_COLLECTOR, CPU_PORT))
        kind = KINDS[program]
        self.ingress, self.egress = f"{kind}Ingress.arrival", f"{kind}Egress.departure"
        add, set_default = self.engine.table_add, self.engine.table_set_default
        for mac, port in ((HOST_MAC, OUT), (COLLECTOR_MAC, TO_COLLECTOR)):
            add(f"{self.ingress}.forward.forwarding", [Exact(mac)],
                f"{self.ingress}.forward.forward", [port])  # fmt: skip
        collector = [int(IPv4Address(COLLECTOR)), REPORT_PORT]
        set_default(f"{self.ingress}.watch.node", f"{self.ingress}.watch.set_node",
                    [node, offset_us % (1 << 48), *collector])  # fmt: skip
        report = f"{self.egress}.write_outer"
        set_default(f"{report}.collector", f"{report}.send_report",
                    [0x02000000FF00 + node, COLLECTOR_MAC, int(IPv4Address(SWITCH_ADDR)),
                     *collector])  # fmt: skip
        egress = f"{self.egress}.packet"
        if OUT in outside:
            add(f"{egress}.ports", [Exact(OUT)], f"{egress}.leave_domain", [parts_a_byte])
        else:
            add(f"{egress}.ports", [Exact(OUT)], f"{egress}.stay_inside", [mtu, parts_a_byte])
        if IN in outside:
            add(
                f"{self.ingress}.watch.border.borders",
                [Exact(IN)],
                f"{self.ingress}.watch.border.outside",
                [],
            )
        self.engine.mirror_set(SESSION, [(TO_COLLECTOR, 0)])

    def watch(
        self, action: str, params: Sequence[int], *, version: int = 4, dst_port: int | None = None
    ) -> None:
        """Watch packets of this IP version: all packets, or those to this port."""
        port = Ternary(0, 0) if dst_port is None else Ternary(dst_port, 0xFFFF)
        table = "int_list" if version == 4 else "int_list_ipv6"
        self.engine.table_add(
            f"{self.ingress}.watch.{table}", [*[Ternary(0, 0)] * 4, port],
            f"{self.ingress}.watch.{action}", params, 1,
        )  # fmt: skip

    def embed_data(
        self, instructions: int, hops: int = 8, mark: int = DSCP, sampling: int = ALL, **key: int
    ) -> None:
        self.watch("embed_data", [instructions, hops, mark, sampling], **key)

    def report_all(self) -> None:
        reports = f"{self.egress}.packet.flow_reports"
        self.engine.table_set_default(f"{reports}.flow_reports", f"{reports}.report_all", [])

    def report_queue(self) -> None:
        """Let the next packet find a full queue, however short the queue is."""
        queues = f"{self.egress}.packet.queue_reports"
        self.engine.table_add(f"{queues}.queue_reports", [Exact(OUT)], f"{queues}.report_queue",
                              [0, 0, 1, 0xF000])  # fmt: skip

    def report(self, frame: bytes, time_us: int = 0) -> tuple[bytes, Report]:
        """Return the forwarded frame, and its report. Assert that the switch sends nothing else."""
        out, report = self.send_report(frame, time_us)
        return out, parse_report(report)

    def events(self) -> dict[str, int]:
        """Return the nonzero event counters of the switch."""
        counters = (
            f"{self.ingress}.watch.border.arriving_events",
            f"{self.egress}.packet.departing_events",
        )
        return self.count_events(EVENTS, *counters)


def parse_report(frame: bytes) -> Report:
    """Parse the frame of a report. Assert that its outer headers are correct."""
    packet = Ether(frame)
    assert packet.dst == "02:00:00:00:00:63"
    assert (packet[IP].src, packet[IP].dst, packet[IP].flags) == (SWITCH_ADDR, COLLECTOR, "DF")
    assert (packet[UDP].dport, packet[UDP].chksum) == (REPORT_PORT, 0)
    assert packet[IP].len == len(frame) - 14
    assert packet[UDP].len == len(frame) - 34
    check_ipv4_checksum(packet)
    return take_report(frame[42:])


def udp(payload: bytes = b"payload!", *, version: int = 4, **fields: object) -> bytes:
    """Return a UDP frame as a host sends it. Its checksum is correct unless `chksum` is given."""
    ip = _ip(version, fields)
    layer = UDP(**{"sport": 4000, "dport": 5000, **fields})
    return bytes(ETHER / ip / layer / Raw(payload))


def tcp(payload: bytes = b"payload!", *, version: int = 4, **fields: object) -> bytes:
    """Return a TCP frame as a host sends it, with TCP options."""
    options = [("Timestamp", (7, 8)), ("NOP", None), ("NOP", None)]
    ip = _ip(version, fields)
    layer = TCP(**{"sport": 4000, "dport": 5000, "seq": 99, "options": options, **fields})
    return bytes(ETHER / ip / layer / Raw(payload))


def _ip(version: int, fields: dict[str, object]) -> Packet:
    """Return an IP layer with the IP fields among `fields`, and remove these from `fields`."""
    tos, ttl, ip_id = (fields.pop(name, usual) for name, usual in
                       (("tos", 0), ("ttl", 64), ("ip_id", 7)))  # fmt: skip
    if version == 6:
        return IPv6(src="fd00::1", dst="fd00::2", tc=tos, hlim=ttl)
    ip_options = fields.pop("ip_options", [])
    return IP(src="10.0.0.1", dst="10.0.0.2", id=ip_id, tos=tos, ttl=ttl, options=ip_options)


def layer4(packet: Packet) -> UDP | TCP:
    """Return the first TCP or UDP header of a packet."""
    return packet[TCP] if TCP in packet else packet[UDP]


def parse_int(frame: bytes) -> Int:
    """Parse the INT data of a frame. Assert that lengths and checksums of the frame are correct."""
    packet = checked(frame)
    payload = bytes(layer4(packet).payload)
    return take_int(payload.removeprefix(MARKER))


def checked(frame: bytes) -> Packet:
    """Parse a frame. Assert that its lengths and checksums are correct.

    The checksum of UDP may also be 0.
    """
    packet = Ether(frame)
    ip = packet[IP] if IP in packet else packet[IPv6]
    again = ip.copy()
    again.remove_payload()
    again = again / layer4(ip).copy()
    names = {"IP": ("len", "chksum"), "IPv6": ("plen",), "UDP": ("len",), "TCP": ()}
    for name, fields in names.items():
        if again.haslayer(name):
            for field in fields:
                again[name].delfieldval(field)
    if layer4(packet).chksum != 0 or TCP in packet:
        layer4(again).delfieldval("chksum")
    assert bytes(again) == frame[14:], f"{again!r}\n{ip!r}"
    return packet


def pushed(frame: bytes, *nodes: int, instructions: int, **given: int) -> bytes:
    """Return the frame after it passed these nodes. The first node is the source."""
    source = Switch(nodes[0], outside=[IN])
    version = 6 if frame[12:14] == b"\x86\xdd" else 4
    source.embed_data(instructions, version=version, **given)
    out = source.pass_on(frame, 1000)
    for node in nodes[1:]:
        out = Switch(node).pass_on(out, 1000 * node)
    return out


def insides() -> list[bytes]:
    """Return frames with INT for each mark, IP version and protocol, as switches send them."""
    frames = []
    for version in (4, 6):
        for mark in (DSCP, PORT, NEW_UDP, PROBE):
            source = Switch(1, outside=[IN])
            source.embed_data(NODE | QUEUE, mark=mark, version=version)
            for make in (udp, tcp):
                frames.append(Switch(2).pass_on(source.pass_on(make(version=version))))
    source = Switch(1, outside=[IN])
    source.embed_data(0xFF81)
    frames.append(source.pass_on(udp(ip_options=[b"\x07\x0b\x08" + bytes(8)])))
    return frames
