"""AM-PM switches in this process. Tests send packets at chosen times, and read the records."""

import struct
from collections.abc import Sequence
from ipaddress import IPv6Address
from pathlib import Path
from typing import NamedTuple

import subject
from forwarder import check_ipv4_checksum
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Method
from controllers.readout import CLOCK_BITS
from minip4.engine.keys import Exact, MatchKey, Ternary

PROGRAM = Path(__file__).parents[2] / "p4src" / "ampm" / "ampm.p4"
L = 1 << 20
SCHEDULE = Schedule(L)
CPU_PORT = 255
IPV6_ADDRESSES = ("fd00::1", "fd00::2")
HOSTS_MAC = "02:00:00:00:00:02"
TUNNEL = ("fd00:ed9e::1", "fd00:ed9e::2")
FIRST, MIDDLE, LAST = "mark", "observe", "observe_and_clear"
DECAPSULATE = "observe_and_decapsulate"
BLOCK, PULSE, SAMPLE = 1, 2, 3  # kinds of records in p4src/include/readout.p4
READING_US = (1 << 49) - L  # later than all packets of the tests
ANSWER = struct.Struct(">HI6s8Q")


class Record(NamedTuple):
    """Record of a block, of the pulse of a block, or of a sample, at one measurement point.

    The P4 program defines what the values mean.
    """

    block_us: int
    values: tuple[int, int, int]


class Switch:
    """An AM-PM switch. Flow n has the UDP destination port 5000 + n.

    `ahead_us` is the error of the switch's clock. The controller does not know it.
    """

    def __init__(self, role: str, methods: Method, *, flows: int = 1, ahead_us: int = 0) -> None:
        self.engine = subject.switch(PROGRAM, ports=(1, 2, CPU_PORT))
        self._ahead_us = ahead_us
        add = self.engine.table_add
        add("AmpmIngress.forwarding.forwarding", [Exact(0x020000000002)],
            "AmpmIngress.forwarding.forward", [2])  # fmt: skip
        for flow in range(flows):
            self.watch(role, methods, dst_port=5000 + flow, flow=flow)
        self.set_sampling(0)
        self._set_schedule()

    def watch(
        self, role: str, methods: Method, *, dst_port: int, flow: int = 0, dscp: int = 0
    ) -> None:
        """Watch packets that frame() made for this port.

        `dscp` is their DSCP outside the domain.
        """
        key = [Ternary(0, 0), Ternary(0, 0), Ternary(17, 255), Ternary(0, 0)]
        self._watch(
            "watch_list",
            [*key, Ternary(dst_port, 0xFFFF)],
            role,
            _params(role, flow, methods, dscp),
        )

    def watch_all(self, role: str, methods: Method, *, port_mask: int = 0) -> None:
        """Watch all IPv4 packets, also fragments, as flow 0.

        With a mask of both ports, watch only packets whose ports are 0 under this mask.
        """
        key = [*[Ternary(0, 0)] * 3, *[Ternary(0, port_mask)] * 2]
        self._watch("watch_list", key, role, _params(role, 0, methods))

    def watch_ipv6(
        self, role: str, methods: Method, *, flow_mon_id: int, flow: int = 0,
        addresses: tuple[str, str] = IPV6_ADDRESSES,
    ) -> None:  # fmt: skip
        """Watch packets with these addresses, and with the AltMark option with this FlowMonID."""
        key = [Exact(flow_mon_id), *(Exact(int(IPv6Address(a))) for a in addresses)]
        params = [flow, int(methods)] if role == DECAPSULATE else _params(role, flow, methods)
        self._watch("watch_list_ipv6", key, role, params, 0)

    def watch_plain_ipv6(
        self, role: str, methods: Method, *, protocol: int = 17, src_port: int | None = None,
        dscp: int = 0,
    ) -> None:  # fmt: skip
        """Watch IPv6 packets without the AltMark option; their DSCP contains the marks."""
        port = Ternary(0, 0) if src_port is None else Ternary(src_port, 0xFFFF)
        key = [Ternary(0, 0), Ternary(0, 0), Ternary(protocol, 255), port, Ternary(0, 0)]
        self._watch("watch_list_plain_ipv6", key, role, _params(role, 0, methods, dscp))

    def encapsulate(
        self, methods: Method, *, flow_mon_id: int, flow: int = 0, options_type: int = 0,
        ports: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """Encapsulate IPv6 packets that have no AltMark option: all, or those with these ports.

        `options_type` is 0 for a hop-by-hop header, or 60 for a destination options header.
        """
        addresses = [int(IPv6Address(a)) for a in TUNNEL]
        params = [flow, int(methods), flow_mon_id, options_type, *addresses]
        keys = [Ternary(port, 0xFFFF) for port in ports] if ports else [Ternary(0, 0)] * 2
        self._watch("watch_list_plain_ipv6", [*[Ternary(0, 0)] * 3, *keys], "encapsulate", params)

    def _watch(
        self, table: str, key: Sequence[MatchKey], action: str, params: Sequence[int],
        priority: int = 1,
    ) -> None:  # fmt: skip
        watch = "AmpmIngress.watch"
        self.engine.table_add(f"{watch}.{table}", key, f"{watch}.{action}", params, priority)

    def set_sampling(self, mask: int) -> None:
        hashed = "AmpmIngress.methods.hashed_choice"
        self.engine.table_set_default(f"{hashed}.sampling", f"{hashed}.set_sampling", [mask])

    def _set_schedule(self) -> None:
        self.engine.table_set_default(
            "AmpmIngress.watch.clock", "AmpmIngress.watch.set_clock", [0, SCHEDULE.block_shift]
        )
        windows = [(Method.PULSE, times) for times in SCHEDULE.middle_half()]
        windows.append((Method.MULTIPLEXED, SCHEDULE.multiplexed_window()))
        choice = "AmpmIngress.methods.pulse_choice"
        for method, times in windows:
            key = [Ternary(int(method), int(method)), Ternary(*times)]
            self.engine.table_add(f"{choice}.pulse_window", key, f"{choice}.choose", [], 1)
        bit = "AmpmIngress.methods.multiplexed_bit"
        for times in SCHEDULE.middle_half():
            self.engine.table_add(f"{bit}.slots", [Ternary(*times)], f"{bit}.pulse_slot", [], 1)

    def pass_on(self, frame: bytes, time_us: int) -> bytes:
        """Return the forwarded frame. The frame arrives when the common clock shows this time."""
        ((port, out),) = self.send(frame, time_us)
        assert port == 2
        return out

    def send(self, frame: bytes, time_us: int) -> list[tuple[int, bytes]]:
        """Return port and content of all frames that the switch sends when this frame arrives."""
        return self.engine.process(1, frame, self._time_ns(time_us))

    def _time_ns(self, time_us: int) -> int:
        # The time of the engine is monotonic, while the clock that the program sees wraps.
        return 1000 * ((time_us + self._ahead_us) % (1 << (CLOCK_BITS + 1)))

    def read(self, record: int, index: int) -> tuple[Record, Record]:
        """Read a record with a readout packet. Return the values for arrivals and departures."""
        _, *v = self.ask(record, index, READING_US)
        return Record(v[0], (v[1], v[2], v[3])), Record(v[4], (v[5], v[6], v[7]))

    def ask(self, record: int, index: int, time_us: int) -> tuple[int, ...]:
        """Send a readout packet. Return the clock of the switch, and the values of the record."""
        request = struct.pack(">HI", record, index) + b"request 7"
        ((port, answer),) = self.engine.process(CPU_PORT, request, self._time_ns(time_us))
        assert port == CPU_PORT
        assert answer[ANSWER.size :] == b"request 7"
        named, numbered, switch_us, *values = ANSWER.unpack(answer[: ANSWER.size])
        assert (named, numbered) == (record, index)
        return (int.from_bytes(switch_us, "big"), *values)

    def packets(self, flow: int, colour: int) -> tuple[int, int]:
        """Return how many packets of a flow and colour arrived, and how many departed."""
        counters = ("AmpmIngress.arrivals", "AmpmEgress.departures")
        first, second = (self.engine.counter_read(c, 2 * flow + colour)[0] for c in counters)
        return first, second


def _params(role: str, flow: int, methods: Method, dscp: int = 0) -> list[int]:
    return [flow, int(methods), *([dscp] if role == LAST else [])]


def frame(flow: int = 0, number: int = 0, **ip: object) -> bytes:
    """Return a frame of a flow. Frames with different numbers have different content."""
    fields = {"src": "10.0.0.1", "dst": "10.0.0.2", "id": number, **ip}
    return bytes(
        Ether(dst=HOSTS_MAC, src="02:00:00:00:00:01")
        / IP(**fields)
        / UDP(sport=4000, dport=5000 + flow)
        / Raw(struct.pack(">IQ", number, number))
    )


def frame_ipv6(option: bytes, number: int = 0, *, dst: str = "", hop_limit: int = 64) -> bytes:
    """Return a frame with this option, of six bytes, in a hop-by-hop options header."""
    src, usual_dst = IPV6_ADDRESSES
    segment = bytes(UDP(sport=4000, dport=5000, chksum=number) / Raw(bytes(20)))
    header = IPv6(src=src, dst=dst or usual_dst, nh=0, hlim=hop_limit)
    ether = Ether(dst=HOSTS_MAC, src="02:00:00:00:00:01")
    return bytes(ether / header / Raw(bytes((17, 0)) + option + segment))


def marks(data: bytes) -> tuple[int, int]:
    """Return the colour (L) and pulse (D) bits of a frame."""
    dscp = data[15] >> 2
    return dscp & 1, dscp >> 1 & 1


def checked(data: bytes) -> Packet:
    """Parse a frame. Assert that the checksum of its IPv4 header is correct."""
    packet = Ether(data)
    check_ipv4_checksum(packet)
    return packet
