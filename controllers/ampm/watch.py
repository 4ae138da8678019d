"""Puts flows on watch lists, each with its methods; the P4 side is p4src/ampm/watch.p4.

Any combination of methods that share no bit of the packet: see Method.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Protocol

import finsy as fy

from controllers.ampm.schedule import CLOCK_BITS, ClockRange, Schedule
from testbed.errors import TestbedError


class Clock(Protocol):
    """The common clock of controller, hosts and switches, in nanoseconds."""

    def now_ns(self) -> int: ...
    async def sleep_until(self, time_ns: int) -> None: ...


class LimitError(TestbedError):
    """Clocks and delays of a path are beyond what a method's blocks can bear."""


class Method(IntFlag):
    """Methods of alternate marking, as in p4src/ampm/watch.p4; `|` combines them."""

    STEP = 1
    PULSE = 2
    DOUBLE = STEP | PULSE
    MULTIPLEXED = 4
    HASHED = 8


def check_limits(
    methods: Method, schedule: Schedule, clock_error_us: float, delay_us: float
) -> None:
    """Raise LimitError unless every block will be exact (docs/ampm.md).

    `clock_error_us` is the greatest difference between two clocks, `delay_us` the greatest delay
    of the path.
    """
    if Method.MULTIPLEXED in methods:
        law, limit_us = "L/4 - L/32", schedule.block_us * 7 / 32
    elif Method.STEP in methods:
        law, limit_us = "L/2", schedule.block_us / 2
    else:
        law, limit_us = "L/4", schedule.block_us / 4
    total_us = clock_error_us + delay_us
    if total_us >= limit_us:
        factor = limit_us / schedule.block_us
        needed_us = 1 << math.floor(math.log2(total_us / factor) + 1)
        raise LimitError(
            f"{_name(methods)} is exact only while A + D < {law}: here clock error + delay are "
            f"{total_us:.0f} us, and {law} is {limit_us:.0f} us for blocks of L = "
            f"{schedule.block_us} us; take blocks of {needed_us} us or more"
        )


def _name(methods: Method) -> str:
    names = {Method.DOUBLE: "double", Method.STEP: "step", Method.PULSE: "pulse"}
    return names.get(methods & Method.DOUBLE, "multiplexed") + " marking"


@dataclass(frozen=True)
class WatchedFlow:
    """A flow on the watch list: its number (0..1023), what its packets look like, its methods.

    Of IPv4, what is None is left open. Fragments have no ports: only an entry without sees them
    all. Of IPv6, packets have the AltMark option (RFC 9343), which their host puts in, with
    `flow_mon_id`; they are known by it and their addresses alone. Raises ValueError for methods
    that cannot share a packet.
    """

    number: int
    src_addr: str
    dst_addr: str
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None
    methods: Method = Method.STEP
    flow_mon_id: int | None = None

    def __post_init__(self) -> None:
        if not self.methods:
            raise ValueError(f"flow {self.number} has no method")
        if Method.MULTIPLEXED in self.methods and self.methods & Method.DOUBLE:
            raise ValueError(
                f"flow {self.number}: multiplexed marking has step and pulse on its one bit; "
                "take it without them"
            )
        if Method.HASHED in self.methods and not self.methods & (Method.STEP | Method.MULTIPLEXED):
            raise ValueError(
                f"flow {self.number}: hashed samples are told apart by a colour; "
                "add step or multiplexed marking"
            )
        transport = (self.protocol, self.src_port, self.dst_port)
        if self.flow_mon_id is not None and transport != (None, None, None):
            raise ValueError(
                f"flow {self.number}: an IPv6 flow is known by its FlowMonID and its addresses; "
                "leave protocol and ports open"
            )


@dataclass(frozen=True)
class Hop:
    """One switch of the path, as the controller reaches it.

    `clock_offset_us` is what must be added to the switch's clock to get the common clock.
    """

    switch: fy.Switch
    clock_offset_us: int = 0

    @property
    def name(self) -> str:
        """The switch's name, e.g. `s1`."""
        return self.switch.name


async def set_schedule(hop: Hop, schedule: Schedule, sampling_shift: int = 6) -> None:
    """Give a switch its clock's offset, the blocks and their parts; before any flow is watched.

    Hashed marking samples one packet in 2^`sampling_shift` (0..29).
    """
    offset_us = hop.clock_offset_us % (1 << CLOCK_BITS)
    defaults = [
        ("clock", fy.Action("set_clock", offset_us=offset_us, block_shift=schedule.block_shift)),
        ("sampling", fy.Action("set_sampling", mask=(1 << sampling_shift) - 1)),
    ]
    windows = [
        *(_pulse_window(Method.PULSE, times) for times in schedule.middle_half()),
        _pulse_window(Method.MULTIPLEXED, schedule.multiplexed_window()),
        *(_pulse_slot(times) for times in schedule.middle_half()),
    ]
    await hop.switch.write(
        [
            *(~fy.P4TableEntry(t, action=a, is_default_action=True) for t, a in defaults),
            *(+window for window in windows),
        ]
    )


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


async def watch_flow(hops: Sequence[Hop], flow: WatchedFlow) -> None:
    """Put a flow on the watch list of every switch of its path (first switch first).

    The last switch is told first. So no packet is marked before all who must count and clear its
    mark are ready.
    """
    entry = _ipv4_entry if flow.flow_mon_id is None else _ipv6_entry
    for hop in reversed(hops):
        role = "mark" if hop is hops[0] else "observe"
        if hop is hops[-1]:
            role = "observe_and_clear"
        action = fy.Action(role, flow=flow.number, methods=int(flow.methods))
        await hop.switch.write([+entry(flow, action)])


def _ipv4_entry(flow: WatchedFlow, action: fy.P4TableAction) -> fy.P4TableEntry:
    match = {
        "hdr.ipv4.src_addr": flow.src_addr,
        "hdr.ipv4.dst_addr": flow.dst_addr,
        "hdr.ipv4.protocol": flow.protocol,
        "hdr.ports.src_port": flow.src_port,
        "hdr.ports.dst_port": flow.dst_port,
    }
    given = fy.Match({k: v for k, v in match.items() if v is not None})
    return fy.P4TableEntry("watch_list", match=given, priority=1, action=action)


def _ipv6_entry(flow: WatchedFlow, action: fy.P4TableAction) -> fy.P4TableEntry:
    match = {
        "hdr.altmark.flow_mon_id": flow.flow_mon_id,
        "hdr.ipv6.src_addr": flow.src_addr,
        "hdr.ipv6.dst_addr": flow.dst_addr,
    }
    return fy.P4TableEntry("watch_list_ipv6", match=fy.Match(match), action=action)
