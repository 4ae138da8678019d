"""QUIC-like connections over a path with an observer in the middle: h1 - s1 - s2 - s3 - h2."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import finsy as fy
import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray

from controllers.connection import connections, cpu_ports
from controllers.explicit import Connection, Direction, StreamReport, read_streams
from controllers.explicit_metrics import publishing
from controllers.forwarding import forwarding_entries
from experiments.shared.explicit.truth import StreamTruth, read_truth
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.application import RunningApplication
from telemark.apps.explicit_bits import Scheme
from telemark.apps.quic import QuicEndpoint
from telemark.capacity_probe import CapacityEstimate, probe
from telemark.errors import note_invalid
from telemark.network import Network
from telemark.results.report import Check
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Schedule
from telemark.traffic.patterns import OnOff

PROGRAM = "p4src/explicit/explicit.p4"
CLIENT, SERVER, OBSERVER = "h1", "h2", "s2"
SEGMENTS = (("s1", "s2"), ("s2", "s3"), ("s3", "s2"), ("s2", "s1"))  # links with loss, in order
LINK_DELAY_US = 10_000
RTT_US = 4 * LINK_DELAY_US
SERVER_PHASE = 0.4  # packet intervals that the server waits before its first packet
BURST = 8  # packets of an application-limited endpoint between two pauses, on average
# ports of connection 0; the ports of connection n are n higher
CLIENT_PORT, SERVER_PORT = 6000, 4430
DRAIN_NS = 1_500_000_000  # enough time for the probes that detect the last losses


class ObservedPath(Topo):
    """Path with an observer. `losses` are the loss probabilities of SEGMENTS.

    The first segment holds back a fraction `held` of the packets for `held_us`.
    """

    def build(
        self, losses: tuple[float, float, float, float] = (0, 0, 0, 0), held: float = 0,
        held_us: float = 0,
    ) -> None:  # fmt: skip
        s1, s2, s3 = (self.addSwitch(name) for name in ("s1", "s2", "s3"))
        up, down, back, home = ({"loss_probability": loss} for loss in losses)
        up |= {"reorder_probability": held, "reorder_us": held_us}
        self.addLink(self.addHost(CLIENT), s1)
        self.addLink(s1, s2, delay_us=LINK_DELAY_US, params1=up, params2=home)
        self.addLink(s2, s3, delay_us=LINK_DELAY_US, params1=down, params2=back)
        self.addLink(s3, self.addHost(SERVER))


@dataclass(frozen=True)
class Setting:
    """Impairment of the path, and traffic of all endpoints."""

    name: str
    rate_pps: float
    count: int  # data packets of each endpoint
    losses: tuple[float, float, float, float] = (0, 0, 0, 0)  # loss probabilities of SEGMENTS
    held: float = 0.0  # fraction of the packets that the first segment holds back
    held_packets: int = 0  # number of packets that overtake each held packet
    pause_ms: float = 0.0  # mean pause between bursts of data packets; 0 means a constant rate

    @property
    def held_us(self) -> float:
        """Delay of held packets. Half an interval avoids simultaneous arrivals."""
        return (self.held_packets + 0.5) * 1e6 / self.rate_pps if self.held_packets else 0.0

    def loss(self, direction: Direction, part: str) -> float:
        """Return the loss probability of a part of the path of a stream.

        The parts are upstream, end-to-end, three-quarters (upstream and the whole opposite
        direction), and round-trip.
        """
        up, down, back, home = self.losses
        if direction == Direction.TO_CLIENT:
            up, down, back, home = back, home, up, down
        segments = {
            "upstream": [up], "end-to-end": [up, down], "three-quarters": [up, back, home],
            "round-trip": [up, down, back, home],
        }[part]  # fmt: skip
        passed = 1.0
        for loss in segments:
            passed *= 1 - loss
        return 1 - passed


@dataclass(frozen=True)
class StreamResult:
    """Measurements and ground truth of one stream."""

    setting: Setting
    seed: int
    scheme: Scheme
    direction: Direction
    report: StreamReport
    truth: StreamTruth


@asynccontextmanager
async def network(
    setting: Setting, program: str, run: Run
) -> AsyncIterator[tuple[Network, fy.Switch, list[Connection]]]:
    """Build the path; yield it, the connection to the observer, and a connection per scheme."""
    topo = ObservedPath(setting.losses, setting.held, setting.held_us)
    with Network(
        topo, run, program=program, name=setting.name, switch_options=cpu_ports(topo)
    ) as net:
        watched = [make_connection(net, scheme) for scheme in Scheme]
        async with connections(net) as switches:
            for name, switch in switches.items():
                await switch.write([+entry for entry in forwarding_entries(net, name)])
            observer = switches[OBSERVER]
            await observer.write([+entry for each in watched for entry in each.entries()])
            yield net, observer, watched


async def find_capacity(rate_pps: int, program: str, run: Run) -> CapacityEstimate:
    """Return the capacity of the path on bmv2, from UDP flows with the rates of all endpoints."""
    rate_pps *= len(Scheme)
    ends = (CLIENT, SERVER), (SERVER, CLIENT)
    flows = [Flow(number, *pair, rate_pps, rate_pps) for number, pair in enumerate(ends)]
    async with network(Setting("probe", rate_pps, 1), program, run) as (net, _, _):
        return await probe(net, flows, run)


async def measure(
    setting: Setting, program: str, run: Run
) -> tuple[list[StreamResult], list[Check]]:
    """Run one connection per scheme over the path. Return all streams and the accounting."""
    async with network(setting, program, run) as (net, observer, watched):
        due_ns = send_times(setting, net.seed)
        running = [
            {
                direction: net.run_application(host, endpoint)
                for direction, host, endpoint in endpoints(each, due_ns)
            }
            for each in watched
        ]
        longest_ns = int(max(times[-1] for times in due_ns.values()))
        async with publishing(run.metrics, observer, watched):
            await run.clock.sleep_until(run.clock.now_ns() + longest_ns + DRAIN_NS)
        reports = await read_streams(observer, watched)
    reject_unfinished(setting, [app for pair in running for app in pair.values()])
    results = [
        StreamResult(
            setting, run.seed, connection.scheme, direction, reports[number][direction],
            read_truth(
                net.capture(OBSERVER, "s1" if direction == Direction.TO_SERVER else "s3", "in"),
                connection, direction, {each: app.result for each, app in pair.items()},
            ),
        )
        for number, (connection, pair) in enumerate(zip(watched, running, strict=True))
        for direction in Direction
    ]  # fmt: skip
    accounting = PacketAccounting.from_network(net, {})
    net.discard()  # captures of this network are no longer needed
    return results, accounting.checks("all runs")


def reject_unfinished(setting: Setting, running: Sequence[RunningApplication]) -> None:
    """Make the run inconclusive if an endpoint has not sent all data packets."""
    for application in running:
        sent = len(application.result.sent_ns)
        if sent < setting.count:
            note_invalid(f"{setting.name}: {application} sent {sent} of {setting.count} packets")


def make_connection(net: Network, scheme: Scheme) -> Connection:
    """Return the connection that uses a scheme."""
    number = scheme - 1
    return Connection(
        number, (net.host(CLIENT).IP(), CLIENT_PORT + number),
        (net.host(SERVER).IP(), SERVER_PORT + number), scheme,
    )  # fmt: skip


def send_times(setting: Setting, seed: int) -> dict[Direction, NDArray[np.int64]]:
    """Return the times of the data packets of both endpoints; all schemes use the same times."""
    rate_pps = setting.rate_pps
    pattern = OnOff(BURST / rate_pps, setting.pause_ms / 1e3) if setting.pause_ms else None
    found = {}
    for direction in Direction:
        flow = Flow(direction, CLIENT, SERVER, rate_pps, setting.count, pattern=pattern)
        constant_ns = np.arange(flow.count) * 1e9 / rate_pps
        due_ns = Schedule.from_flow(flow, seed).due_ns
        found[direction] = (constant_ns if due_ns is None else due_ns).astype(np.int64)
    found[Direction.TO_CLIENT] += round(SERVER_PHASE * 1e9 / rate_pps)
    return found


def endpoints(
    connection: Connection, due_ns: Mapping[Direction, NDArray[np.int64]]
) -> list[tuple[Direction, str, QuicEndpoint]]:
    """Return both endpoints, each with its host and the direction in which it sends."""
    scheme, client, server = connection.scheme, connection.client, connection.server
    return [
        (Direction.TO_CLIENT, SERVER,
         QuicEndpoint(scheme, due_ns[Direction.TO_CLIENT], server[1], client, is_client=False)),
        (Direction.TO_SERVER, CLIENT,
         QuicEndpoint(scheme, due_ns[Direction.TO_SERVER], client[1], server, is_client=True)),
    ]  # fmt: skip
