"""Linux as a transit node between IOAM switches: both agree on the format.

A router in the namespace of the test forwards the packets of a switch (in this process) from one
veth pair to another.
"""

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ioam_path import DROP_FOREIGN, NAMESPACE, SHORT, Switch, trace_of, udp
from wire import end, namespace, run, veth

from collectors.ioam.options import NodeData, TraceFlag, TraceType
from controllers.ioam.domain import Namespace, Route
from controllers.ioam.linux import LinuxRouter, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

NODE, NODE_WIDE = 42, 0x2A2A2A2A2A2A2A
INTERFACES = {"a1": 7, "b1": 8}
DATA = Namespace(NAMESPACE, 0xDEADBEEF, 0xCAFE_C0CA_F11D_C0DE)
ROUTER_MAC = "02:00:00:00:00:aa"
HOST_MAC = "02:00:00:00:00:02"
ONES = 0xFFFFFFFF


class Router:
    """A Linux router between the interfaces a0 and b0."""

    def __init__(self, schema: tuple[int, str] | None) -> None:
        veth("a0", "a1")
        veth("b0", "b1")
        run(f"ip link set dev a1 address {ROUTER_MAC}")
        self._in, self._out = end("a0"), end("b0")
        LinuxRouter(NODE, NODE_WIDE, INTERFACES, [Route("fd00::2/128", "b1", HOST_MAC)], [DATA],
                    schema).configure()  # fmt: skip

    def pass_on(self, frame: bytes) -> bytes:
        """Return the frame as the router forwards it."""
        self._in.send(bytes.fromhex(ROUTER_MAC.replace(":", "")) + frame[6:])
        while True:
            found = self._out.recv(2048)
            if found[:6] == frame[:6] and found[12:14] == b"\x86\xdd":
                return found

    def sent_back(self) -> list[bytes]:
        """Return the IPv6 frames that the router sent to the previous node."""
        self._in.setblocking(False)
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(self._in.recv(2048))
        return [frame for frame in found if frame[12:14] == b"\x86\xdd"]


@contextlib.contextmanager
def router(schema: tuple[int, str] | None = None) -> Iterator[Router]:
    with namespace():
        yield Router(schema)


def encapsulating(trace_type: int, **options: bool | int) -> Switch:
    switch = Switch(1, border=DROP_FOREIGN)
    switch.insert_trace(trace_type, **options)
    return switch


KERNEL = NodeData(
    hop_limit=63, node=NODE, ingress=7, egress=8, transit_delay=ONES, namespace_data=DATA.data,
    queue_depth=0, checksum=ONES, hop_limit_wide=63, node_wide=NODE_WIDE, ingress_wide=7,
    egress_wide=8, namespace_data_wide=DATA.data_wide, buffer_occupancy=ONES, schema=0xFFFFFF,
)  # fmt: skip


@pytest.mark.parametrize("trace_type", [
    TraceType.HOP_NODE, SHORT, 0xFFF000, 0x00FFFE, *(1 << bit for bit in range(1, 24)),
])  # fmt: skip
def test_switches_and_linux_fill_the_same_option(trace_type: int) -> None:
    with router() as linux:
        before = time.time_ns() // 1000
        inside = linux.pass_on(encapsulating(trace_type, nodes=3).pass_on(udp()))
        after = time.time_ns() // 1000
    trace = trace_of(inside)
    first, second = trace.nodes
    if trace_type & TraceType.SECONDS:
        assert before // 10**6 <= (second.seconds or 0) <= after // 10**6
        if trace_type & TraceType.FRACTION:
            assert before <= (second.seconds or 0) * 10**6 + (second.fraction or 0) <= after
    times = {"seconds": second.seconds, "fraction": second.fraction}
    expected = dataclasses.replace(KERNEL, **times)
    assert second == NodeData.decode(trace_type, expected.encode(trace_type))[0]
    assert first == trace_of(encapsulating(trace_type, nodes=3).pass_on(udp())).nodes[0]
    third = trace_of(Switch(3).pass_on(inside))
    assert third.nodes[:2] == (first, second)
    assert (len(third.nodes), third.remaining, third.flags) == (3, 0, 0)
    assert Switch(4, leaving=True).report(inside)[0][14:] == udp(hlim=63)[14:]


def test_a_router_sends_nothing_of_its_own() -> None:
    """The router has only joined the groups of all nodes, which need no reports (RFC 3810, 6)."""
    with router():
        rows = [line.split() for line in Path("/proc/self/net/igmp6").read_text().splitlines()]
    groups = {row[2] for row in rows if row[1] in INTERFACES}
    assert groups <= {"ff02" + "0" * 27 + "1", "ff01" + "0" * 27 + "1"}


def test_an_opaque_snapshot_of_linux_does_not_disturb_switches() -> None:
    trace_type = TraceType.HOP_NODE | TraceType.OPAQUE
    with router((0x777, "snapshot")) as linux:
        inside = linux.pass_on(encapsulating(trace_type, words=8).pass_on(udp()))
    trace = trace_of(Switch(3).pass_on(inside))
    assert [node.node for node in trace.nodes] == [1, NODE, 3]
    assert (trace.nodes[1].schema, trace.nodes[1].opaque) == (0x777, b"snapshot")
    assert (trace.nodes[2].schema, trace.nodes[2].opaque) == (0xFFFFFF, b"")
    assert trace.remaining == 0


def test_linux_sets_the_overflow_flag_that_switches_respect() -> None:
    with router() as linux:
        inside = linux.pass_on(encapsulating(SHORT, nodes=1).pass_on(udp()))
    assert trace_of(inside).flags == TraceFlag.OVERFLOW
    assert Switch(3).pass_on(inside) == inside


def test_linux_respects_the_overflow_flag_of_switches() -> None:
    full = Switch(2).pass_on(encapsulating(SHORT, nodes=1).pass_on(udp()))
    assert trace_of(full).flags == TraceFlag.OVERFLOW
    with router() as linux:
        assert trace_of(linux.pass_on(full)) == trace_of(full)


def test_linux_ignores_the_loopback_flag() -> None:
    inside = encapsulating(TraceType.HOP_NODE, loopback=True).pass_on(udp())
    with router() as linux:
        passed = linux.pass_on(inside)
        assert linux.sent_back() == []
    trace = trace_of(passed)
    assert trace.flags == TraceFlag.LOOPBACK
    assert [node.node for node in trace.nodes] == [1, NODE]


def test_linux_passes_an_incremental_option_on() -> None:
    inside = encapsulating(SHORT, incremental=True).pass_on(udp())
    with router() as linux:
        passed = linux.pass_on(inside)
    assert trace_of(passed) == trace_of(inside)
    nodes = [node.node for node in trace_of(Switch(3).pass_on(passed)).nodes]
    assert nodes == [1, 3]


def test_linux_passes_other_options_on() -> None:
    first = Switch(1, border=DROP_FOREIGN)
    first.insert_dex(SHORT, 0xC0, e2e=0xF000)
    inside, _ = first.report(udp())
    with router() as linux:
        passed = linux.pass_on(inside)
    assert passed[54:] == inside[54:]
