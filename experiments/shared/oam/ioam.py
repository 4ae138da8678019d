"""The same traffic and incidents in IPv6, watched by IOAM."""

import argparse
import struct
from collections.abc import Sequence
from ipaddress import IPv6Address

import finsy as fy
import numpy as np
from numpy.typing import NDArray
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from collectors.ioam.options import TraceType
from controllers.connection import connections, cpu_ports
from controllers.ioam.domain import Domain, Route, configure
from controllers.ioam.flows import DirectExportOption, IoamFlow, TraceOption
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
    Incident,
    SetSpine,
    cause,
    cross_flows,
    data_flows,
    fabric,
)
from experiments.shared.oam.run import (
    IOAM_DEX,
    IOAM_TRACE,
    READY_NS,
    Outcome,
    Truth,
    egress_ports,
    fabric_captures,
)
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.session.run import Run
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
# offsets in a frame without options
VERSION, SOURCE_HOST, DESTINATION_END, PORT, SEQUENCE = 14, 22, 52, 56, 62
FINISH_NS = 500_000_000  # max time until the last packet and report have arrived


async def measure_ioam(
    method: str, incidents: Sequence[Incident], options: argparse.Namespace, run: Run
) -> Outcome:
    """Run one IOAM method."""
    lasts_s = incidents[-1].end_s + 0.7
    data = data_flows(options.flows, options.rate, lasts_s)
    cross = cross_flows(incidents)
    topo = fabric()
    with Network(topo, run, program=PROGRAM, switch_options=cpu_ports(topo)) as net:
        kept = net.run_application(COLLECTOR, KeepingCollector())
        for host in PREFIXES:
            net.run_application(host, FrameKeeper())
        async with connections(net) as switches:
            await configure(net, switches, _domain(net, data, method))
            start_ns = run.clock.now_ns() + READY_NS
            _send(net, SENDER, data, start_ns)
            _send(net, CROSS_SENDER, cross, start_ns)
            set_spine = _route_setter(net, switches[SOURCE_LEAF], data)
            await cause(net, set_spine, incidents, start_ns, run.clock)
            await run.clock.sleep_until(start_ns + round(lasts_s * 1e9) + FINISH_NS)
    return Outcome(
        method=method,
        start_ns=start_ns,
        truth=_truth(net),
        spines=_spines(net, data),
        pings=None,
        sessions=[],
        kept=kept.result,
        nodes=dict(enumerate(topo.switches(), start=1)),
        egress=egress_ports(net),
        blocks=[],
        added_bytes=_added_bytes(net, data, cross),
        accounting=PacketAccounting.from_network(net, {}),
    )


def _address(flow: Flow) -> str:
    """Return the destination address of a flow. Each data flow has its own."""
    return PREFIXES[flow.destination] + (f"{flow.id:x}" if flow.source == SENDER else "1")


def _spine(flow: Flow) -> str:
    return SPINES[flow.id % len(SPINES)]


def _spines(net: Network, data: Sequence[Flow]) -> dict[int, str]:
    """Return the spine to which the source leaf sends most packets of each flow."""
    found = {}
    for spine in SPINES:
        frames = pcap.read(net.capture(SOURCE_LEAF, spine, "out"))
        # a data flow has its id at the end of its destination address
        found[spine] = _number(frames.bytes[_is_from(frames, SENDER)], DESTINATION_END, ">u2")
    return {
        flow.port: max(SPINES, key=lambda each: np.count_nonzero(found[each] == flow.id))
        for flow in data
    }  # fmt: skip


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
                "routes", match=fy.Match({"destination": f"{_address(flow)}/128"}),
                action=fy.Action("send", mac_addr=0, port=net.port(SOURCE_LEAF, to)),
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
            # the complement keeps the UDP checksum
            number = struct.pack(">II", sequence, ~sequence & 0xFFFFFFFF)
            frames.append((at_ns, whole[:SEQUENCE] + number + whole[SEQUENCE + len(number) :]))
    frames.sort(key=lambda each: each[0])
    net.send_frames(host, [at_ns for at_ns, _ in frames], [frame for _, frame in frames])


def _truth(net: Network) -> Truth:
    """Return the data packets, from captures at the edge of the fabric."""
    sent = _packets(pcap.read(net.capture(SOURCE_LEAF, SENDER, "in")))
    received = _packets(pcap.read(net.capture(SINK_LEAF, RECEIVER, "out")))
    sent_ns = np.array([*sent.values()], np.int64)
    delays = [received[key] - at_ns if key in received else -1 for key, at_ns in sent.items()]
    return Truth(sent_ns, np.array(delays, np.int64))


def _packets(frames: pcap.Frames) -> dict[tuple[int, int], int]:
    """Return the time of each IPv6 packet, by UDP port and sequence number."""
    data = frames.bytes[_is_ipv6(frames)]
    ports = _number(data, PORT, ">u2")
    sequences = _number(data, SEQUENCE, ">u4")
    keys = zip(ports.tolist(), sequences.tolist(), strict=True)
    return dict(zip(keys, frames.time_ns[_is_ipv6(frames)].tolist(), strict=True))


def _is_ipv6(frames: pcap.Frames) -> NDArray[np.bool_]:
    return np.asarray(frames.bytes[:, VERSION] >> 4 == 6)


def _is_from(frames: pcap.Frames, host: str) -> NDArray[np.bool_]:
    """Return which frames are IPv6 packets with the source address of a host."""
    first_word = int(IPv6Address(SOURCES[host])) >> 96
    return _is_ipv6(frames) & (_number(frames.bytes, SOURCE_HOST, ">u4") == first_word)


def _number(data: NDArray[np.uint8], at: int, kind: str) -> NDArray[np.int64]:
    size = np.dtype(kind).itemsize
    return np.ascontiguousarray(data[:, at : at + size]).view(kind)[:, 0].astype(np.int64)


def _added_bytes(net: Network, data: Sequence[Flow], cross: Sequence[Flow]) -> int:
    """Return the bytes that telemetry adds on links between switches."""
    added = 0
    for link in fabric_captures(net):
        frames = pcap.read(link)
        added += int(frames.length.sum())
        for source, flows in ((SENDER, data), (CROSS_SENDER, cross)):
            added -= int(np.count_nonzero(_is_from(frames, source))) * flows[0].size
    return added
