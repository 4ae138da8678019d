"""Watch list, measured losses and true losses of all flows of ampm_scale.py."""

from collections.abc import Mapping, Sequence

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from controllers.ampm.collector import BlockReport
from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Hop, Method, WatchedFlow
from controllers.connection import connection
from experiments.shared.ampm.measurement import UDP, reject_late_packets
from experiments.shared.ampm.truth import Truth, read_truths
from telemark.network import Network
from telemark.traffic.flows import Flow, FlowRecord
from topologies.leaf_spine import Backhaul

UNKNOWN = np.iinfo(np.int64).min
# Number of switches -> (access switches, aggregation switches); the last switch is the core.
BACKHAULS = {5: (3, 1), 20: (16, 3), 100: (90, 9), 300: (280, 19), 1000: (966, 33)}
LINK = {"delay_us": 1000, "loss_probability": 0.01}


def make_topo(switches: int) -> Backhaul:
    """Return the backhaul topology with this number of switches."""
    access, aggregation = BACKHAULS[switches]
    return Backhaul(access=access, aggregation=aggregation, **LINK)


def watch_list(net: Network, topo: Backhaul, flows: Sequence[Flow]) -> dict[WatchedFlow, list[Hop]]:
    """Return all watched flows with their paths."""
    server = net.host(topo.server)
    hops = {}
    for name, above in topo.uplinks.items():
        up = fy.P4TableEntry(
            "forwarding",
            match=fy.Match({"hdr.ethernet.dst_addr": server.MAC()}),
            action=fy.Action("forward", port=net.port(name, above)),
        )
        hops[name] = Hop(connection(net, name), [up], net.switch(name).clock_offset_us)
    return {
        WatchedFlow(
            flow.id, net.host(flow.source).IP(), server.IP(), UDP, dst_port=flow.port,
            methods=Method.DOUBLE,
        ): [hops[name] for name in topo.paths[flow.source]]
        for flow in flows
    }  # fmt: skip


def path_segments(path: Sequence[str]) -> list[tuple[Point, Point]]:
    """Return the segments of a path, namely its two links and the whole path."""
    access, aggregation, core = path
    return [
        (Point(access, "departures"), Point(aggregation, "arrivals")),
        (Point(aggregation, "departures"), Point(core, "arrivals")),
        (Point(access, "departures"), Point(core, "departures")),
    ]


def measured_losses(
    topo: Backhaul, flows: Sequence[Flow], reports: Sequence[BlockReport]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return packet counts at the first point, and losses.

    The shapes are (flows, blocks) and (flows, segments, blocks). Values are UNKNOWN if a switch was
    not read.
    """
    packets = np.zeros((len(flows), len(reports)), np.int64)
    losses = np.full((len(flows), 3, len(reports)), UNKNOWN)
    for column, report in enumerate(reports):
        for flow in flows:
            records = report.records[flow.id]
            for number, points in enumerate(path_segments(topo.paths[flow.source])):
                first, second = (records[point] for point in points)
                if first is not None and second is not None:
                    packets[flow.id, column] = first.packets
                    losses[flow.id, number, column] = first.packets - second.packets
    return packets, losses


def read_ground_truth(
    net: Network, topo: Backhaul, records: Mapping[int, FlowRecord], schedule: Schedule
) -> dict[int, Truth]:
    """Return the ground truth of each flow, by flow id."""
    paths = {record.flow: topo.paths[record.flow.source] for record in records.values()}
    return read_truths(net, paths, schedule, Method.DOUBLE, records)


def reject_noise(truths: Mapping[int, Truth], schedule: Schedule, why: str) -> None:
    """Make the run inconclusive if packets took longer than the method tolerates."""
    for number, truth in truths.items():
        end = Point(truth.path[-1], "departures")
        range_us = -float("inf"), schedule.block_us / 2
        reject_late_packets(f"flow {number}", truth, end, range_us, why)


def true_losses(truths: Mapping[int, Truth], blocks: range) -> NDArray[np.int64]:
    """Return the true losses with shape (flows, segments, blocks)."""
    return np.array(
        [
            [truth.lost(*points, blocks) for points in path_segments(truth.path)]
            for truth in truths.values()
        ]
    )
