"""The same traffic and incidents in IPv6, watched by IOAM."""

import struct
from collections.abc import Sequence
from ipaddress import ip_address

import finsy as fy
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from collectors.ioam.options import TraceType
from controllers.connection import connections
from controllers.ioam.domain import Domain, Route, configure
from controllers.ioam.flows import DirectExportOption, IoamFlow, TraceOption
from experiments.shared.int.on_bmv2 import find_clocks
from experiments.shared.int.reports import KeepingCollector
from experiments.shared.ioam.hosts import FrameKeeper
from experiments.shared.oam.incidents import (
    COLLECTOR,
    CROSS_RECEIVERS,
    CROSS_SENDER,
    RECEIVER,
    SENDER,
    SINK_LEAF,
    SOURCE_LEAF,
    SPINES,
    SetSpine,
    cause,
)
from experiments.shared.oam.run import (
    IOAM_DEX,
    IOAM_TRACE,
    READY_NS,
    Measured,
    Outcome,
    Setting,
    limit_cross_queues,
    make_outcome,
)
from experiments.shared.oam.truth import IPV6, HostTraffic
from telemark.network import Network
from telemark.traffic.flows import Flow

UDP_NUMBER = 17
PROGRAM = "p4src/ioam/ioam.p4"
FIELDS = (
    TraceType.HOP_NODE | TraceType.INTERFACES | TraceType.SECONDS | TraceType.FRACTION
    | TraceType.TRANSIT_DELAY
)  # fmt: skip
IOAM_OPTIONS: dict[str, TraceOption | DirectExportOption] = {
    IOAM_TRACE: TraceOption(FIELDS, nodes=2),
    IOAM_DEX: DirectExportOption(FIELDS),
}
SOURCES = {SENDER: "fd00:1::1", CROSS_SENDER: "fd00:2::1"}
PREFIXES = {RECEIVER: "fd00:4::", **dict(zip(CROSS_RECEIVERS.values(), ("fd00:5::", "fd00:6::"),
                                             strict=True))}  # fmt: skip
ROUTER_MAC = "02:00:00:00:ff:02"  # switches route frames to a MAC address that they do not know
SEQUENCE = IPV6.udp + 8 + IPV6.number  # offset of the sequence number in a frame without options
FINISH_NS = 500_000_000  # max time until the last packet and report have arrived


async def measure_ioam(setting: Setting) -> Outcome:
    """Run an IOAM method on IPv6 traffic."""
    run, data, cross = setting.run, setting.data, setting.cross
    with setting.network(PROGRAM) as net:
        kept = net.run_application(COLLECTOR, KeepingCollector())
        limit_cross_queues(net, setting)
        for host in PREFIXES:
            net.run_application(host, FrameKeeper())
        async with connections(net) as switches:
            clocks = await find_clocks(switches, run.clock) if net.has_panels else {}
            await configure(
                net,
                switches,
                _domain(net, data, setting.method),
                {name: offset_us for name, (offset_us, _) in clocks.items()},
            )
            start_ns = run.clock.now_ns() + READY_NS
            _send(net, SENDER, data, start_ns)
            _send(net, CROSS_SENDER, cross, start_ns)
            set_spine = _route_setter(net, switches[SOURCE_LEAF], data)
            spans = await cause(net, set_spine, setting.incidents, start_ns, run.clock)
            await run.clock.sleep_until(start_ns + round(setting.lasts_s * 1e9) + FINISH_NS)
    errors_us = {name: error_us for name, (_, error_us) in clocks.items()}
    addresses = {host: ip_address(source).packed for host, source in SOURCES.items()}
    measured = Measured(spans=spans, clock_errors_us=errors_us, kept=kept.result)
    return make_outcome(setting, net, HostTraffic(IPV6, addresses, [*data, *cross]), measured)


def _address(flow: Flow) -> str:
    """Return the destination address of a flow. Each data flow has its own."""
    return PREFIXES[flow.destination] + (f"{flow.id:x}" if flow.source == SENDER else "1")


def _spine(flow: Flow) -> str:
    return SPINES[flow.id % len(SPINES)]


def _domain(net: Network, data: Sequence[Flow], method: str) -> Domain:
    """Return the domain, whose routes spread the data flows over the spines."""
    watched = IoamFlow(SOURCES[SENDER], f"{PREFIXES[RECEIVER]}/64", UDP_NUMBER,
                       option=IOAM_OPTIONS[method])  # fmt: skip
    to_sink = [Route(f"{prefix}/64", SINK_LEAF) for prefix in PREFIXES.values()]
    routes = {
        SOURCE_LEAF: [
            *(Route(f"{_address(flow)}/128", _spine(flow)) for flow in data),
            *(Route(f"{PREFIXES[host]}/64", spine) for spine, host in CROSS_RECEIVERS.items()),
        ],
        SINK_LEAF: [Route(f"{prefix}/64", host, net.host(host).MAC())
                    for host, prefix in PREFIXES.items()],
        **dict.fromkeys(SPINES, to_sink),
    }  # fmt: skip
    return Domain(COLLECTOR, [watched], addresses={SENDER: SOURCES[SENDER]}, routes=routes)


def _route_setter(net: Network, leaf: fy.Switch, data: Sequence[Flow]) -> SetSpine:
    """Return the function that changes the routes of the data flows of a spine."""

    async def set_routes(spine: str, to: str) -> None:
        await leaf.modify([
            fy.P4TableEntry(
                "ioam_routes", match=fy.Match({"destination": f"{_address(flow)}/128"}),
                action=fy.Action("ioam_send", mac_addr=0, port=net.port(SOURCE_LEAF, to)),
            )
            for flow in data if _spine(flow) == spine
        ])  # fmt: skip

    return set_routes


def _send(net: Network, host: str, flows: Sequence[Flow], start_ns: int) -> None:
    """Send the packets of flows as frames. The payload begins with the sequence number."""
    frames: list[tuple[int, bytes]] = []
    for flow in flows:
        head = Ether(dst=ROUTER_MAC, src=net.host(host).MAC()) / IPv6(
            src=SOURCES[host], dst=_address(flow)
        ) / UDP(sport=flow.source_port, dport=flow.port)  # fmt: skip
        whole = bytes(head / (bytes(4) + b"\xff" * 4 + bytes(flow.size - SEQUENCE - 8)))
        first_ns = start_ns + round(flow.after_s * 1e9)
        for sequence in range(flow.count):
            at_ns = first_ns + round(sequence * 1e9 / flow.rate_pps)
            # with the complement of the sequence number, the UDP checksum stays right
            number = struct.pack(">II", sequence, ~sequence & 0xFFFFFFFF)
            frames.append((at_ns, whole[:SEQUENCE] + number + whole[SEQUENCE + len(number) :]))
    frames.sort(key=lambda each: each[0])
    net.send_frames(host, [at_ns for at_ns, _ in frames], [frame for _, frame in frames])
