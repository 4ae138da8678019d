"""Checks of those INT header fields that int_path's flow does not use, in a separate network.

E and M bits, checksum complement and utilization are compared with captures of the links between
switches.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from collectors.int.application import Collector
from controllers.connection import connections, cpu_ports
from controllers.int.domain import WINDOW_US, Domain, configure
from controllers.int.watch import Instruction, WatchedFlow
from experiments.shared.int.reports import OURS
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.accounting.rejected import describe_malformed
from telemark.network import Network
from telemark.results.report import Check
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import ParkingLot

PATH = ("s1", "s2", "s3", "s4", "s5")
RATE_BPS = 1_000_000
RATE_PPS, COUNT = 200, 100  # rate and packets of each flow; on bmv2 the rate is lower
MAX_HOPS = 2  # hop limit of the flow that crosses more switches
# Long packets have 186 bytes of IP. INT adds 16 bytes, and each switch adds 8 bytes, so the third
# switch exceeds the MTU.
LONG_BYTES, MTU_BYTES = 200, 220
DSCP = 0x2D  # DSCP value with bits set inside and outside of the bits that INT overwrites
HOPS_EXCEEDED, MTU_EXCEEDED = 0x04, 0x02  # bits in the first byte of the INT header
BASE = Instruction.NODE_ID | Instruction.UTILISATION
UDP_CHECKSUM, INT_HEADER, STACK = 40, 46, 58  # offsets in a frame
# bytes per switch, including the complement; offset of utilization in these bytes
HOP_BYTES, UTILISATION = 12, 4
TOO_FAR, TOO_LONG, COMPLEMENT = (
    Flow(1, "h1", "h2", RATE_PPS, COUNT, dscp=DSCP),
    Flow(2, "h1", "h2", RATE_PPS, COUNT, LONG_BYTES, dscp=DSCP),
    Flow(3, "h1", "h2", RATE_PPS, COUNT, dscp=DSCP),
)
FLOWS = (TOO_FAR, TOO_LONG, COMPLEMENT)


async def measure_limits(options: argparse.Namespace, run: Run, delay_us: float) -> list[Check]:
    """Send three flows and compare their captured INT headers with the format.

    `delay_us` is the delay of each link.
    """
    topo = ParkingLot(len(PATH), rate_bps=RATE_BPS, delay_us=delay_us)
    with Network(
        topo, run, program=options.program, name="limits", switch_options=cpu_ports(topo)
    ) as net:
        net.run_application(
            "collector", Collector(OURS)
        )  # without an application, the kernel of the collector would reply to each report
        addresses = net.host("h1").IP(), net.host("h2").IP()
        watched = [
            WatchedFlow(
                *addresses, protocol=17, dst_port=flow.port,
                instructions=BASE | Instruction.COMPLEMENT if flow is COMPLEMENT else BASE,
                max_hops=MAX_HOPS if flow is TOO_FAR else 255,
            )
            for flow in FLOWS
        ]  # fmt: skip
        async with connections(net) as switches:
            await configure(net, switches, Domain("collector", watched, mtu_bytes=MTU_BYTES))
            rate_pps = RATE_PPS / options.slower
            sent = [replace(flow, rate_pps=rate_pps) for flow in FLOWS]
            async with Traffic(net, sent) as traffic:
                records = await traffic.finish()
    # makes the run inconclusive if bmv2 dropped packets
    PacketAccounting.from_network(net, records)
    links = [pcap.read(net.capture("s1", "h1", "in"))]
    links += [pcap.read(net.capture(*link, "out")) for link in pairwise(PATH)]
    changed = sum(records[flow.id].dscp_changed for flow in FLOWS)
    checks = [
        Check("packets received with wrong DSCP", changed, 0),
        check_bit("E", HOPS_EXCEEDED, TOO_FAR, MAX_HOPS, links),
        check_bit("M", MTU_EXCEEDED, TOO_LONG, 2, links),
        check_complement(links),
    ]
    # The egress time selects the window. Only in virtual time is it equal to the time in the
    # capture.
    return [*checks, check_utilisation(links)] if options.time == "virtual" else checks


def check_bit(name: str, bit: int, flow: Flow, pushes: int, links: Sequence[pcap.Frames]) -> Check:
    """Check which packets have a bit of the INT header.

    Only packets of `flow` may have it, from the first switch on that does not push metadata.
    """
    wrong = 0
    for switches, frames in enumerate(links[1:], start=1):
        is_set = (frames.bytes[:, INT_HEADER] & bit) != 0
        wrong += int(np.sum(is_set != (of_flow(frames, flow) & (switches > pushes))))
    return Check(f"packets with a wrong {name} bit, on all links", wrong, 0)


def check_complement(links: Sequence[pcap.Frames]) -> Check:
    """Check that UDP checksums are unchanged and correct on each link.

    Lost packets count as wrong.
    """
    wrong = 0
    sent = links[0].bytes[of_flow(links[0], COMPLEMENT)][:, UDP_CHECKSUM : UDP_CHECKSUM + 2]
    for frames in links[1:]:
        rows = frames.bytes[of_flow(frames, COMPLEMENT)]
        lengths = frames.length[of_flow(frames, COMPLEMENT)]
        wrong += abs(len(sent) - len(rows))
        for row, length, checksum in zip(rows, lengths, sent, strict=False):
            is_as_sent = (row[UDP_CHECKSUM : UDP_CHECKSUM + 2] == checksum).all()
            wrong += not is_as_sent or describe_malformed(row[:length].tobytes()) is not None
    return Check("packets with wrong checksum complement", wrong, 0)


def check_utilisation(links: Sequence[pcap.Frames]) -> Check:
    """Check the utilization: bytes transmitted in the last window, in ppm of the link rate."""
    last = links[-1]
    rows = last.bytes[of_flow(last, COMPLEMENT)]
    errors = []
    for hop, (before, after) in enumerate(pairwise(links)):
        # the last switch is first in the stack
        at = STACK + (len(links) - 2 - hop) * HOP_BYTES + UTILISATION
        reported = np.ascontiguousarray(rows[:, at : at + 4]).view(">u4")[:, 0].astype(np.int64)
        window = (after.time_ns // 1000 // WINDOW_US).astype(np.int64)
        # The egress counts packets with their length at the ingress, i.e. on the previous link.
        # Links are FIFO, so frame n of the previous link is also frame n of the next link.
        used = np.bincount(window - window[0], weights=before.length)
        bytes_before = np.concatenate([[0], used])[window - window[0]]
        expected = bytes_before * 8e6 / (RATE_BPS * WINDOW_US) * 1e6
        errors.append(abs(reported - expected[of_flow(after, COMPLEMENT)]).max())
    return Check("max error of egress tx utilization (ppm)", max(errors), 0, tolerance=1)


def of_flow(frames: pcap.Frames, flow: Flow) -> NDArray[np.bool_]:
    """Return for each frame whether it belongs to a flow, by the UDP destination port."""
    ports = frames.bytes[:, pcap.UDP + 2 : pcap.UDP + 4].astype(np.uint16)
    return (ports[:, 0] << 8 | ports[:, 1]) == flow.port
