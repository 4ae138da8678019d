"""IOAM switches in this process. Tests send frames at chosen times through several switches."""

import random
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import subject
from forwarder import CPU_PORT, IN, OUT, TO_COLLECTOR, Forwarder, check_ipv4_checksum
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from collectors.ioam.options import (
    Option,
    Report,
    Trace,
    TraceType,
    node_words,
    options_header,
    parse_options,
)
from minip4.engine.keys import Exact, Lpm, Ternary

FOLDER = Path(__file__).parents[2] / "p4src" / "ioam"
# names of the controls of IOAM in the ingress and the egress of a program
CONTROLS = {
    "ioam.p4": ("IoamIngress.arrival", "IoamEgress.departure"),
    "with_ampm_int.p4": ("AllIngress.ioam_arrival", "AllEgress.ioam_departure"),
}
HOST_MAC, COLLECTOR_MAC, ROUTER_MAC = 0x020000000002, 0x020000000063, 0x02000000AA00
COLLECTOR, SWITCH_ADDR = "10.0.9.9", "10.0.9.1"
REPORT_PORT = 32766
SESSION, LOOPBACK_SESSIONS = 500, 1000
ALL = 0xFFFFFFFF  # sampling of all packets
NAMESPACE = 123
SHORT = TraceType.HOP_NODE | TraceType.INTERFACES  # two words
TIMES = TraceType.SECONDS | TraceType.FRACTION | TraceType.TRANSIT_DELAY
ETHER = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
EVENTS = ("malformed", "foreign stripped", "foreign dropped", "leak dropped", "unknown namespace",
          "overflowed", "no room", "not possible", "terminated", "looped back")  # fmt: skip
STRIP_FOREIGN, DROP_FOREIGN = "strip_foreign", "drop_foreign"
TUNNEL = ("fd00:e::1", "fd00:e::2")
NODE_WIDE, DATA, DATA_WIDE = 0x0102_0304_0506, 0xDADA0000, 0xDADA0001_DADA0002


class Switch(Forwarder):
    """An IOAM switch. Frames arrive at port 1 and leave by port 2. Reports leave by port 3.

    `border` is the treatment of IOAM from outside at port 1; `leaving` says that port 2 leads out
    of the domain. The collector gets `reports` of packets that leave.
    """

    def __init__(
        self, node: int, *, border: str = "", leaving: bool = False, mtu: int = 1500,
        offset_us: int = 0, namespaces: Sequence[int] = (0, NAMESPACE), routed: bool = False,
        reports: bool = True, program: str = "ioam.p4",
    ) -> None:  # fmt: skip
        self.engine = subject.switch(FOLDER / program, ports=(IN, OUT, TO_COLLECTOR, CPU_PORT))
        ingress, egress = CONTROLS[program]
        self.watch, self.packet = watch, packet = f"{ingress}.watch", f"{egress}.packet"
        report, forward = f"{egress}.write_report", f"{ingress}.forward"
        add, set_default = self.engine.table_add, self.engine.table_set_default
        if routed:
            add(f"{forward}.ioam_routes", [Lpm(0, 0)], f"{forward}.ioam_send", [HOST_MAC, OUT])
        else:
            add(f"{forward}.ioam_forwarding", [Exact(HOST_MAC)], f"{forward}.ioam_forward", [OUT])
        set_default(f"{watch}.ioam_node", f"{watch}.set_ioam_node",
                    [node, NODE_WIDE + node, offset_us])  # fmt: skip
        for namespace in namespaces:
            key, data = [Exact(namespace)], [DATA + node, DATA_WIDE + node]
            add(f"{watch}.namespaces", key, f"{watch}.join", data)
            add(f"{watch}.export_namespaces", key, f"{watch}.join_export", data)
        if border:
            add(f"{watch}.border.ioam_borders", [Exact(IN)], f"{watch}.border.{border}", [])
        if leaving:
            add(f"{packet}.ioam_ports", [Exact(OUT)], f"{packet}.remove_ioam", [int(reports)])
        else:
            add(f"{packet}.ioam_ports", [Exact(OUT)], f"{packet}.keep_ioam", [mtu])
        collector = int(IPv4Address(COLLECTOR))
        set_default(f"{report}.ioam_collector", f"{report}.send_ioam_report",
                    [0x02000000FF00 + node, COLLECTOR_MAC, int(IPv4Address(SWITCH_ADDR)),
                     collector, REPORT_PORT])  # fmt: skip
        self.engine.mirror_set(SESSION, [(TO_COLLECTOR, 0)])

    def insert(self, action: str, params: Sequence[int], flow: int = 7) -> None:
        """Insert options of flow number `flow` into all packets without IOAM."""
        self.engine.table_add(f"{self.watch}.flows", [Ternary(0, 0)] * 5, f"{self.watch}.{action}",
                              [flow, NAMESPACE, *map(int, params)], 1)  # fmt: skip

    def insert_trace(
        self, trace_type: int, nodes: int = 3, *, incremental: bool = False, active: bool = False,
        loopback: bool = False, e2e: int = 0, words: int | None = None, sampling: int = ALL,
    ) -> None:  # fmt: skip
        own = node_words(trace_type) + bool(trace_type & TraceType.OPAQUE)
        words = nodes * own if words is None else words
        self.insert("insert_trace",
                    [trace_type, incremental, words, active, loopback, e2e, sampling])  # fmt: skip

    def insert_dex(self, trace_type: int, extensions: int = 0, e2e: int = 0) -> None:
        self.insert("insert_direct_export", [trace_type, extensions, e2e, ALL])

    def begin_tunnel(self, flow: int = 7) -> None:
        src, dst = (int(IPv6Address(each)) for each in TUNNEL)
        self.engine.table_add(
            f"{self.watch}.tunnels", [Exact(flow)], f"{self.watch}.begin_tunnel", [src, dst]
        )

    def end_tunnel(self, *, reports: bool = True) -> None:
        self.engine.table_add(f"{self.watch}.tunnel_ends", [Exact(int(IPv6Address(TUNNEL[1])))],
                              f"{self.watch}.end_tunnel", [int(reports)])  # fmt: skip

    def keep_inside(self, address: str) -> None:
        """Packets to this address of another switch must not leave the domain."""
        self.engine.table_add(f"{self.watch}.tunnel_ends", [Exact(int(IPv6Address(address)))],
                              f"{self.watch}.keep_inside", [])  # fmt: skip

    def loop_back(self, address: str, gap_us: int = 0) -> None:
        """Send copies from this address, with a gap between them."""
        self.engine.table_set_default(
            f"{self.packet}.loop_back.loopback", f"{self.packet}.loop_back.send_copies",
            [int(IPv6Address(address)), gap_us],
        )  # fmt: skip
        self.engine.mirror_set(LOOPBACK_SESSIONS + IN, [(IN, 0)])

    def report(self, frame: bytes, time_us: int = 0) -> tuple[bytes, Report]:
        """Return the forwarded frame, and its report. Assert that the switch sends nothing else."""
        out, report = self.send_report(frame, time_us)
        return out, parse_report(report)

    def events(self) -> dict[str, int]:
        """Return the nonzero event counters of the switch."""
        counters = (f"{self.watch}.border.ioam_arriving_events", f"{self.watch}.namespace_events",
                    f"{self.packet}.ioam_departing_events")  # fmt: skip
        return self.count_events(EVENTS, *counters)


def parse_report(frame: bytes) -> Report:
    """Parse the frame of a report. Assert that its headers are correct."""
    packet = Ether(frame)
    assert packet.dst == "02:00:00:00:00:63"
    assert (packet[IP].src, packet[IP].dst, packet[IP].flags) == (SWITCH_ADDR, COLLECTOR, "DF")
    assert (packet[UDP].dport, packet[UDP].chksum) == (REPORT_PORT, 0)
    assert packet[IP].len == len(frame) - 14 == packet[UDP].len + 20
    check_ipv4_checksum(packet)
    report = Report.decode(frame[42:])
    assert report.encode() == frame[42:]
    return report


def udp(
    payload: bytes = b"payload of a packet!", *, header: bytes = b"", hlim: int = 64,
    chksum: int = 0xBEEF,
) -> bytes:  # fmt: skip
    """Return an IPv6 UDP frame. `header` is a hop-by-hop header with next header 17."""
    segment = bytes(UDP(sport=4000, dport=5000, chksum=chksum) / Raw(payload))
    ip = IPv6(src="fd00::1", dst="fd00::2", tc=0xB8, fl=0x12345, hlim=hlim,
              nh=0 if header else 17, plen=len(header) + len(segment))  # fmt: skip
    return bytes(ETHER)[:12] + b"\x86\xdd" + bytes(ip) + header + segment


def with_options(*options: Option) -> bytes:
    """Return a UDP frame with these IOAM options."""
    return udp(header=options_header(options, 17))


def options_of(frame: bytes) -> list[Option]:
    """Return the IOAM options of a frame. Assert that its lengths are correct."""
    packet = frame[14:]
    assert int.from_bytes(packet[4:6], "big") == len(packet) - 40
    assert packet[6] == 0
    return parse_options(packet[40:])[1]


def trace_of(frame: bytes) -> Trace:
    """Return the trace option of a frame."""
    (trace,) = (each for each in options_of(frame) if isinstance(each, Trace))
    return trace


def damaged(frame: bytes, rng: random.Random) -> bytes:
    """Return the frame with some changed bytes in its hop-by-hop header; some frames are cut."""
    data = bytearray(frame)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(54, 54 + (frame[55] + 1) * 8)
        data[at] = rng.choice((0, 1, 0x31, 0xFF, rng.randrange(256)))
    return bytes(data[: rng.choice((len(data), len(data), rng.randrange(54, len(data))))])
