"""Flows on the watch lists of three switches, and their frames on the links, in virtual time."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import finsy as fy
import pytest
from ampm_path import PROGRAM, L, frame, frame_ipv6
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from virtual_networks import virtually

from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import (
    Hop,
    Method,
    Tunnel,
    WatchedFlow,
    schedule_entries,
    watch_at,
    watch_entry,
)
from controllers.connection import connection
from controllers.tables import reconcile
from telemark.accounting import pcap
from telemark.backends.virtual.clock import VirtualClock
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from topologies.basic import Line

PATH = ("s1", "s2", "s3")
H2 = "02:00:00:00:00:02"
UDP_PROTOCOL = 17


@dataclass
class Wire:
    """The line h1 - s1 - s2 - s3 - h2; captures contain all frames that h1 sent to h2."""

    net: Network
    hops: list[Hop]
    clock: VirtualClock

    async def send(self, frames: Sequence[bytes], spacing_us: int = 1000) -> int:
        """Send frames, starting in the middle of an odd block.

        Return the start of that block, in us.
        """
        now_us = self.clock.now_ns() // 1000
        block_us = (now_us // (2 * L) + 1) * 2 * L + L
        times_us = [block_us + L // 2 + spacing_us * number for number in range(len(frames))]
        self.net.send_frames("h1", [1000 * time_us for time_us in times_us], frames)
        await self.clock.sleep_until(1000 * times_us[-1] + 1_000_000_000)
        return block_us

    async def packets(self, flow: int, colour: int = 1) -> list[int]:
        """Return a flow's packet counts: arrivals and departures at each switch."""
        return [
            entry.packet_count
            for hop in self.hops
            for name in ("arrivals", "departures")
            async for entry in hop.switch.read(  # type: ignore[attr-defined]
                [fy.P4CounterEntry(name, index=2 * flow + colour)]
            )
        ]

    async def watch(self, flow: WatchedFlow) -> None:
        for hop in self.hops:
            entry = watch_entry(hop, watch_at(self.hops, hop.name, flow))
            await hop.switch.insert([entry])

    def seen(self, near: str, far: str) -> list[bytes]:
        """After the run, return the complete frames that a switch sent to its neighbour."""
        return pcap.read_frames(self.net.capture(near, far, "out"))[1]


def over_the_wire(
    folder: Path, use: Callable[[Wire], Awaitable[None]], *, s2_ahead_us: int = 0,
    s2_options: Sequence[str] = (),
) -> Wire:  # fmt: skip
    """Build the line, and let `use` watch flows and send frames."""
    options = {"s2": ["--clock-offset-us", str(s2_ahead_us), *s2_options]}

    async def main(run: Run) -> Wire:
        with Network(Line(), run, program=PROGRAM, switch_options=options) as net:
            async with AsyncExitStack() as stack:
                hops = [Hop(await stack.enter_async_context(connection(net, n))) for n in PATH]
                for hop in hops:
                    action = fy.Action("forward", port=2)
                    entry = fy.P4TableEntry("forwarding", action=action, is_default_action=True)
                    await hop.switch.write([~entry])
                    offset_us = -s2_ahead_us if hop.name == "s2" else 0
                    await reconcile(hop.switch, schedule_entries(Schedule(L), offset_us))
                assert isinstance(run.clock, VirtualClock)
                wire = Wire(net, hops, run.clock)
                await use(wire)
        return wire

    wire = virtually(folder, main)
    assert isinstance(wire, Wire)
    return wire


def test_of_flows_that_overlap_the_closest_described_one_has_the_packet(tmp_path: Path) -> None:
    flows = [  # the order of the entries is unrelated to how specific they are
        WatchedFlow(0, "10.0.0.0/8", "0.0.0.0/0"),
        WatchedFlow(1, "10.0.0.1", "10.0.0.2", UDP_PROTOCOL, 4000, 5000),
        WatchedFlow(2, "10.0.0.1", "10.0.0.2", UDP_PROTOCOL),
        WatchedFlow(3, "10.0.0.0/24", "10.0.0.0/24"),
        WatchedFlow(4, "0.0.0.0/0", "0.0.0.0/0", UDP_PROTOCOL),
        WatchedFlow(5, "10.0.0.1", "10.0.0.2", UDP_PROTOCOL, dst_port=5000),
    ]
    frames = {
        0: [frame(src="10.9.9.9")] * 1,
        1: [frame()] * 2,
        2: [frame(flow=7)] * 3,
        3: [frame(src="10.0.0.9", dst="10.0.0.9")] * 4,
        4: [frame(src="11.0.0.1")] * 5,
        5: [],
    }

    async def use(wire: Wire) -> None:
        for flow in flows:
            await wire.watch(flow)
        await wire.send([data for each in frames.values() for data in each])
        for flow in flows:
            assert await wire.packets(flow.number) == [len(frames[flow.number])] * 6

    wire = over_the_wire(tmp_path, use)
    assert wire.seen("s3", "h2") == [data for each in frames.values() for data in each]


def test_a_flow_keeps_its_dscp(tmp_path: Path) -> None:
    data = [frame(tos=46 << 2), frame(flow=1, tos=1 << 2)]

    async def use(wire: Wire) -> None:
        for number, dscp in enumerate((46, 1)):
            port = 5000 + number
            await wire.watch(
                WatchedFlow(
                    number, "10.0.0.1", "10.0.0.2", UDP_PROTOCOL, dst_port=port,
                    methods=Method.DOUBLE, dscp=dscp,
                ),
            )  # fmt: skip
        await wire.send(data)

    wire = over_the_wire(tmp_path, use)
    assert [f[15] >> 2 for f in wire.seen("s1", "s2")] == [47, 3]
    assert wire.seen("s3", "h2") == data


def ipv6(dst_port: int, src: str = "fd00::1") -> bytes:
    packet = IPv6(src=src, dst="fd00::2") / UDP(sport=4000, dport=dst_port) / b"some data"
    return bytes(Ether(dst=H2, src="02:00:00:00:00:01") / packet)


def test_ipv6_flows_with_and_without_the_option(tmp_path: Path) -> None:
    tunnel = Tunnel("fd00:ed9e::1", "fd00:ed9e::2")
    host_s = frame_ipv6(bytes.fromhex("1204ABCDE000"))

    async def use(wire: Wire) -> None:
        for flow in (
            WatchedFlow(0, "fd00::1", "fd00::2", flow_mon_id=0xABCDE),
            WatchedFlow(
                1, "fd00::/64", "fd00::2", UDP_PROTOCOL, dst_port=80, flow_mon_id=0xABCDE,
                tunnel=tunnel, methods=Method.DOUBLE,
            ),
            WatchedFlow(
                2, "fd00::/64", "fd00::2", flow_mon_id=2, tunnel=tunnel, methods=Method.PULSE
            ),
        ):  # fmt: skip
            await wire.watch(flow)
        await wire.send([host_s, ipv6(80), ipv6(80), ipv6(81), ipv6(80, "fd01::1")])
        assert [await wire.packets(n) for n in range(3)] == [[1] * 6, [2] * 6, [1] * 6]

    wire = over_the_wire(tmp_path, use)
    inside = wire.seen("s1", "s2")
    assert inside == wire.seen("s2", "s3")
    assert [data[54:62].hex() for data in inside[:4]] == [
        "11001204abcde800", "29001204abcdec00", "29001204abcde800", "2900120400002400",
    ]  # fmt: skip
    assert [data[62:] for data in inside[1:4]] == [ipv6(80)[14:], ipv6(80)[14:], ipv6(81)[14:]]
    assert inside[4] == ipv6(80, "fd01::1")
    assert wire.seen("s3", "h2") == [host_s, ipv6(80), ipv6(80), ipv6(81), ipv6(80, "fd01::1")]


def test_the_middle_of_an_end_to_end_tunnel_does_not_measure(tmp_path: Path) -> None:
    tunnel = Tunnel("fd00:ed9e::1", "fd00:ed9e::2")
    flow = WatchedFlow(1, "fd00::1", "fd00::2", flow_mon_id=2, tunnel=tunnel, end_to_end=True)

    async def use(wire: Wire) -> None:
        wire.hops = [wire.hops[0], wire.hops[2]]
        await wire.watch(flow)
        await wire.send([ipv6(80)])
        assert await wire.packets(1) == [1] * 4

    wire = over_the_wire(tmp_path, use)
    (outer,) = wire.seen("s1", "s2")
    assert (outer[20], outer[54:62].hex()) == (60, "2900120400002800")
    assert wire.seen("s3", "h2") == [ipv6(80)]


@pytest.mark.parametrize("number", [1024, 65536, -1])
def test_a_flow_that_has_no_room_is_refused(number: int, tmp_path: Path) -> None:
    async def use(wire: Wire) -> None:
        with pytest.raises(TestbedError, match="s1 supports only flows 0 to 1023"):
            await wire.watch(WatchedFlow(number, "10.0.0.1", "10.0.0.2"))
        with pytest.raises(TestbedError, match="at least two switches"):
            watch_at(wire.hops[:1], "s1", WatchedFlow(1, "10.0.0.1", "10.0.0.2"))
        await wire.send([frame()])
        assert await wire.packets(0) == [0] * 6

    over_the_wire(tmp_path, use)


def test_points_are_stamped_by_the_common_clock_before_and_after_the_queue(tmp_path: Path) -> None:
    """Arrivals are stamped before the queue and departures after it, by the common clock.

    The switch has a clock offset, and its queue sends one packet per millisecond.
    """

    async def use(wire: Wire) -> None:
        await wire.watch(WatchedFlow(3, "10.0.0.1", "10.0.0.2", methods=Method.DOUBLE))
        block_us = await wire.send([frame(number=number) for number in range(5)], spacing_us=100)
        names = ("block_us", "packets", "sum_us", "first_us")
        found = {}
        for point in ("arrivals", "departures"):
            for name in names:
                entry = fy.P4RegisterEntry(f"block_{point}.{name}", index=7)
                (found[point, name],) = [
                    e.data
                    async for e in wire.hops[1].switch.read([entry])  # type: ignore[attr-defined]
                ]
        at_us = L // 2 + 1000  # since the start of the block; the link takes 1 ms
        for point, waits_us in (("arrivals", 100), ("departures", 1000)):
            assert [found[point, name] for name in names] == [
                block_us, 5, 5 * at_us + (1 + 2 + 3 + 4) * waits_us, block_us + at_us,
            ]  # fmt: skip

    over_the_wire(tmp_path, use, s2_ahead_us=12_345_678, s2_options=["--queue", "2:rate_pps=1000"])
