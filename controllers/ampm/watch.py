"""Watch lists of AM-PM flows and their marking methods. P4: p4src/ampm/watch.p4.

Methods that use different bits of the packet can be combined; see Method.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Generic, NamedTuple, Protocol, TypeVar

import finsy as fy

from controllers.ampm.schedule import ClockRange, Schedule
from controllers.flow_keys import known_bits, match, networks
from controllers.readout import CLOCK_BITS
from telemark.errors import TestbedError

NUMBER_BITS = 16
"""Width of a flow number in bits, as in watch.p4."""

HOP_BY_HOP, DESTINATION_OPTIONS = 0, 60
"""Protocol numbers of the IPv6 options headers that may contain the AltMark option."""


class LimitError(TestbedError):
    """Clock errors and delays of a path exceed the limits that a method sets for the blocks."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of a domain, in microseconds.

    The bounds are the maximum difference between two clocks (A in RFC 9341 section 5), and the
    maximum delay of a path (D).
    """

    clock_error_us: float = 0
    delay_us: float = 0

    @property
    def guard_us(self) -> float:
        """Return the guard time d.

        Packets of a block arrive no later than d after the end of the block, and no earlier than d
        before its start.
        """
        return self.clock_error_us + self.delay_us


class Method(IntFlag):
    """Methods of alternate marking, as in p4src/ampm/watch.p4.

    The operator `|` combines methods.
    """

    STEP = 1
    PULSE = 2
    DOUBLE = STEP | PULSE
    MULTIPLEXED = 4
    HASHED = 8


def check_limits(methods: Method, schedule: Schedule, bounds: Bounds) -> None:
    """Raise LimitError if blocks may be inexact.

    docs/reference/alternate-marking.md lists the limits.
    """
    if Method.MULTIPLEXED in methods:
        law, limit_us = "L/4 - L/32", schedule.block_us * 7 / 32
    elif Method.STEP in methods:
        law, limit_us = "L/2", schedule.block_us / 2
    else:
        law, limit_us = "L/4", schedule.block_us / 4
    total_us = bounds.clock_error_us + bounds.delay_us
    if total_us >= limit_us:
        factor = limit_us / schedule.block_us
        needed_us = 1 << math.floor(math.log2(total_us / factor) + 1)
        raise LimitError(
            f"{_name(methods)} is exact only if A + D < {law}: clock error + delay are "
            f"{total_us:.0f} us, but {law} is {limit_us:.0f} us for blocks of L = "
            f"{schedule.block_us} us; use blocks of at least {needed_us} us"
        )


def _name(methods: Method) -> str:
    names = {Method.DOUBLE: "double", Method.STEP: "step", Method.PULSE: "pulse"}
    return names.get(methods & Method.DOUBLE, "multiplexed") + " marking"


class Tunnel(NamedTuple):
    """Addresses of outer IPv6 packets.

    The source is the first switch, and the destination is the last switch.
    """

    src_addr: str
    dst_addr: str


@dataclass(frozen=True)
class WatchedFlow:
    """A flow on the watch list: its number (0..1023), its match key, and its methods.

    Addresses may be prefixes (`10.1.0.0/16`); None matches anything. If a packet matches several
    flows, the most specific flow applies. If these are equally specific, the flow with the lowest
    number applies. Each switch considers only the flows whose path includes this switch. So flows
    that match the same packets should have the same path. Fragments after the first have no ports,
    so they match only entries without ports. `dscp` is the DSCP of the packets outside the domain.
    The last switch restores the bits of the DSCP that carried marks.

    IPv6 packets are marked in their DSCP, too, or in the AltMark option (RFC 9343) with
    `flow_mon_id`. If the sending host inserts the option, the option and the addresses identify the
    packets. Otherwise, such a flow needs a `tunnel`. The first switch then puts packets into outer
    packets with the option, and the last switch unpacks them. Between these switches, frames are 48
    bytes longer. The option is in a hop-by-hop header, or, with `end_to_end`, in a destination
    options header. With `end_to_end`, only the two ends of the tunnel measure.

    Raises ValueError for invalid parameters.
    """

    number: int
    src_addr: str
    dst_addr: str
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None
    methods: Method = Method.STEP
    dscp: int = 0
    flow_mon_id: int | None = None
    tunnel: Tunnel | None = None
    end_to_end: bool = False

    def __post_init__(self) -> None:
        problem = _method_problem(self.methods) or self._address_problem() or self._key_problem()
        if problem:
            raise ValueError(f"flow {self.number}: {problem}")

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, IPv4Network | IPv6Network]:
        """Return the source and destination networks."""
        return networks(self)

    @property
    def key(self) -> Hashable:
        """Return the key that identifies the flow's packets inside the domain.

        Two flows must not have the same key (see check_distinct).
        """
        if self.flow_mon_id is None:
            return self.networks, self.protocol, self.src_port, self.dst_port
        return self.flow_mon_id, *map(ip_network, self.tunnel or (self.src_addr, self.dst_addr))

    @property
    def priority(self) -> int:
        """Return the priority of the flow's entry.

        The priority increases with the number of key bits that are not wildcards. For equal numbers
        of bits, the flow with the lower number has the higher priority.
        """
        return (known_bits(self) + 1 << NUMBER_BITS) - self.number

    def _address_problem(self) -> str:
        versions = {network.version for network in self.networks}
        if len(versions) > 1:
            return f"{self.src_addr} and {self.dst_addr} are of different versions of IP"
        if versions == {4} and self.flow_mon_id is not None:
            return "IPv4 has no AltMark option; set flow_mon_id=None"
        if self.flow_mon_id is not None and not 0 <= self.flow_mon_id < 1 << 20:
            return f"flow_mon_id {self.flow_mon_id}: expected 20 bits (RFC 9343)"
        if self.end_to_end and self.tunnel is None:
            return (
                "only the ends of a tunnel may use a destination options header; set a tunnel, or "
                "end_to_end=False"
            )
        if self.tunnel is not None:
            if self.flow_mon_id is None:
                return "a tunnel is only for IPv6 packets with a flow_mon_id"
            if any(ip_network(end).prefixlen < 128 for end in self.tunnel):
                return f"{self.tunnel}: expected two IPv6 addresses"
        return ""

    def _key_problem(self) -> str:
        if not 0 <= self.dscp < 64:
            return f"DSCP {self.dscp}: expected six bits"
        if self.flow_mon_id is None:
            return ""
        if self.dscp:
            return "dscp does not apply to flows with a flow_mon_id; do not set it"
        if self.tunnel is None:
            if (self.protocol, self.src_port, self.dst_port) != (None, None, None):
                return (
                    "an IPv6 flow without a tunnel is identified by FlowMonID and addresses; set "
                    "no protocol and ports, or set a tunnel"
                )
            if any(network.num_addresses > 1 for network in self.networks):
                return "an IPv6 flow without a tunnel needs single addresses, not prefixes"
        return ""


def check_distinct(flows: Iterable[WatchedFlow]) -> None:
    """Raise TestbedError if two flows share cells, or if switches cannot distinguish them."""
    by_number: dict[int, WatchedFlow] = {}
    by_key: dict[Hashable, WatchedFlow] = {}
    for flow in flows:
        if flow.number in by_number:
            raise TestbedError(f"two flows have the number {flow.number}")
        other = by_key.setdefault(flow.key, flow)
        if other is not flow:
            raise TestbedError(
                f"flows {other.number} and {flow.number} match the same packets; use different "
                f"addresses, protocols, ports or FlowMonIDs"
            )
        by_number[flow.number] = flow


class Named(Protocol):
    """A measuring point on a path: a switch (Hop), or the edge program of a host (edge.py)."""

    @property
    def name(self) -> str:
        """Unique name of the measuring point."""


NamedPoint_co = TypeVar("NamedPoint_co", bound=Named, covariant=True)


@dataclass(frozen=True)
class Multipoint(Generic[NamedPoint_co]):
    """Measuring points of a flow that has several paths (RFC 9342), e.g. because of ECMP.

    Every packet enters the domain at one of the points in `first`, which marks the packet. It
    leaves the domain at one of the points in `last`, which clears the mark. The points in `middle`
    only observe. Between the two ends of its path, a packet must not pass a point in `first` or
    `last`. See controllers/ampm/clusters.py.
    """

    first: Sequence[NamedPoint_co]
    last: Sequence[NamedPoint_co]
    middle: Sequence[NamedPoint_co] = ()

    def __iter__(self) -> Iterator[NamedPoint_co]:
        yield from (*self.first, *self.middle, *self.last)


FlowPath = Sequence[NamedPoint_co] | Multipoint[NamedPoint_co]
"""Measuring points of a flow: a sequence if the flow has one path, else a Multipoint."""


class Watch(NamedTuple):
    """A flow at one of the measuring points of its path."""

    flow: WatchedFlow
    is_first: bool
    is_last: bool


def check_paths(flows: Mapping[WatchedFlow, FlowPath[NamedPoint_co]]) -> None:
    """Raise TestbedError for a path with a loop, or if packets match two entries."""
    entering: dict[Hashable, WatchedFlow] = {}
    for flow, path in flows.items():
        names = [hop.name for hop in path]
        if flow.tunnel and isinstance(path, Multipoint):
            raise TestbedError(
                f"flow {flow.number}: a tunnel has only one path; measure the flow without a "
                f"tunnel, or give one path"
            )
        if flow.end_to_end and len(names) > 2:
            raise TestbedError(
                f"flow {flow.number}: only the ends of a tunnel with end_to_end measure; expected "
                f"two switches as its path, got {', '.join(names)}"
            )
        if len(set(names)) < len(names):
            raise TestbedError(
                f"flow {flow.number}: its path {', '.join(names)} contains a switch twice, which "
                f"would count a packet only once; shorten the path"
            )
        if (flow.tunnel or flow.flow_mon_id is None) and names:
            key = names[0], flow.networks, flow.protocol, flow.src_port, flow.dst_port
            other = entering.setdefault(key, flow)
            if other is not flow:
                raise TestbedError(
                    f"flows {other.number} and {flow.number} match the same packets at "
                    f"{names[0]}; use different addresses, protocols or ports"
                )


def _method_problem(methods: Method) -> str:
    """Return why these methods cannot be combined; "" if they can be combined."""
    if not methods:
        return "no marking method; set at least one"
    if Method.MULTIPLEXED in methods and methods & Method.DOUBLE:
        return "multiplexed marking includes step and pulse; remove step and pulse"
    if Method.HASHED in methods and not methods & (Method.STEP | Method.MULTIPLEXED):
        return "hashed sampling needs a colour; add step or multiplexed marking"
    return ""


@dataclass(frozen=True)
class Hop:
    """One switch of a path, and the connection to it.

    `entries` are other entries that the switch's tables need, e.g. forwarding entries.
    `clock_offset_us` plus the time of the switch's clock is the time of the common clock. With
    None, readouts measure the offset. `clock_ahead_us` is an artificial error that is added to the
    clock.
    """

    switch: fy.Switch
    entries: Sequence[fy.P4TableEntry] = ()
    clock_offset_us: int | None = 0
    clock_ahead_us: int = 0

    @property
    def name(self) -> str:
        """Name of the switch, e.g. `s1`."""
        return self.switch.name


def schedule_entries(
    schedule: Schedule, clock_offset_us: int, sampling_shift: int = 6
) -> list[fy.P4TableEntry]:
    """Return the entries that set the common clock and the blocks of a switch.

    Hashed marking samples one of 2^`sampling_shift` packets (0..29).
    """
    offset_us = clock_offset_us % (1 << CLOCK_BITS)
    defaults = [
        ("clock", fy.Action("set_clock", offset_us=offset_us, block_shift=schedule.block_shift)),
        ("sampling", fy.Action("set_sampling", mask=(1 << sampling_shift) - 1)),
    ]
    return [
        *(fy.P4TableEntry(t, action=a, is_default_action=True) for t, a in defaults),
        *(_pulse_window(Method.PULSE, times) for times in schedule.middle_half()),
        _pulse_window(Method.MULTIPLEXED, schedule.multiplexed_window()),
        *(_pulse_slot(times) for times in schedule.middle_half()),
    ]


def _pulse_window(method: Method, times: ClockRange) -> fy.P4TableEntry:
    match = {"watch.methods": (int(method), int(method)), "watch.now_us": tuple(times)}
    return fy.P4TableEntry(
        "pulse_window", match=fy.Match(match), priority=1, action=fy.Action("choose")
    )


def _pulse_slot(times: ClockRange) -> fy.P4TableEntry:
    match = {"watch.now_us": tuple(times)}
    return fy.P4TableEntry(
        "slots", match=fy.Match(match), priority=1, action=fy.Action("pulse_slot")
    )


def watch_at(path: FlowPath[NamedPoint_co], name: str, flow: WatchedFlow) -> Watch:
    """Return the Watch of a flow at the measuring point with this name.

    Raises TestbedError if the path of the flow has only one point, or no point at one end.
    """
    if isinstance(path, Multipoint):
        first, last = path.first, path.last
    else:
        first, last = path[:1], path[1:][-1:]
    if not first or not last:
        raise TestbedError(f"flow {flow.number}: its path needs at least two switches")
    return Watch(
        flow,
        is_first=any(point.name == name for point in first),
        is_last=any(point.name == name for point in last),
    )


def watch_entry(hop: Hop, watch: Watch) -> fy.P4TableEntry:
    """Return the watch-list entry for one switch.

    Raises TestbedError if the switch has no cell for the number of the flow.
    """
    flow, first, last = watch
    room = hop.switch.p4info.counters["arrivals"].size // 2
    if not 0 <= flow.number < room:
        raise TestbedError(
            f"flow {flow.number}: switch {hop.name} supports only flows 0 to {room - 1} "
            f"(AMPM_FLOWS in p4src/ampm/watch.p4)"
        )
    watched = {"flow": flow.number, "methods": int(flow.methods)}
    if flow.tunnel is not None and first:
        outer = {
            "flow_mon_id": flow.flow_mon_id,
            "options_type": DESTINATION_OPTIONS if flow.end_to_end else HOP_BY_HOP,
            **flow.tunnel._asdict(),
        }
        action = fy.Action("encapsulate", **watched, **outer)
        return _entry("watch_list_plain_ipv6", flow, ("ipv6", "next_header"), action)
    if flow.tunnel is not None and last:
        action = fy.Action("observe_and_decapsulate", **watched)
    elif last:
        action = fy.Action("observe_and_clear", **watched, dscp=flow.dscp)
    else:
        action = fy.Action("mark" if first else "observe", **watched)
    if flow.flow_mon_id is None:
        if flow.networks[0].version == 6:
            return _entry("watch_list_plain_ipv6", flow, ("ipv6", "next_header"), action)
        return _entry("watch_list", flow, ("ipv4", "protocol"), action)
    src_addr, dst_addr = flow.tunnel or (flow.src_addr, flow.dst_addr)
    match = {
        "hdr.altmark.flow_mon_id": flow.flow_mon_id,
        "hdr.ipv6.src_addr": src_addr,
        "hdr.ipv6.dst_addr": dst_addr,
    }
    return fy.P4TableEntry("watch_list_ipv6", match=fy.Match(match), action=action)


def _entry(
    table: str, flow: WatchedFlow, names: tuple[str, str], action: fy.P4TableAction
) -> fy.P4TableEntry:
    """Return the entry that matches the flow.

    `names` are the names of the header and of the protocol field in the program.
    """
    return fy.P4TableEntry(table, match=match(flow, *names), priority=flow.priority, action=action)
