"""A collector of reports on a host, by the same class in real and virtual time.

    python docs/examples/collector.py --time virtual
    sudo python docs/examples/collector.py

h1 sends 1,000 reports/s to h2, over a link that loses one frame in twenty.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import numpy as np

from controllers.connection import connection
from controllers.routing import routing_entries
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.application import Application
from telemark.network import Network
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.topology.routes import Route
from topologies.basic import Line

PORT = 5555
REPORTS = 2000
INTERVAL_NS = 1_000_000


class Reporter(Application):
    """Sends numbered reports, one per millisecond."""

    def __init__(self, collector: str) -> None:
        self.collector = collector  # IPv4 address
        self.number = 0

    def start(self, host) -> None:
        self.host = host
        self.udp = host.udp(PORT)
        self.start_ns = host.now_ns() + INTERVAL_NS
        host.call_at(self.start_ns, self.report)

    def report(self) -> None:
        self.udp.send(self.number.to_bytes(8, "big"), self.collector, PORT)
        self.number += 1
        if self.number < REPORTS:
            self.host.call_at(self.start_ns + self.number * INTERVAL_NS, self.report)


class Collector(Application):
    """Stores the numbers of all reports and their times of arrival."""

    def __init__(self) -> None:
        self.numbers: list[np.ndarray] = []
        self.times_ns: list[np.ndarray] = []

    def start(self, host) -> None:
        host.udp(PORT, self.on_reports, hold_us=10_000)

    def on_reports(self, reports) -> None:
        self.numbers.append(reports.rows(8).copy().view(">u8")[:, 0])
        self.times_ns.append(reports.time_ns)

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        return np.concatenate(self.numbers), np.concatenate(self.times_ns)


async def experiment(options, run):
    topo = Line(switches=2, loss_probability=0.05)
    with Network(topo, run, program="p4src/routing/router.p4") as net:
        for name, far, near in (("s1", "h2", "s2"), ("s2", "h1", "s1")):
            route = Route(f"{net.host(far).IP()}/32", (near,))
            async with connection(net, name) as controller:
                await controller.write([+e for e in routing_entries(net, name, [route])])
        collector = net.run_application("h2", Collector())
        net.run_application("h1", Reporter(net.host("h2").IP()))
        await run.clock.sleep_until(run.clock.now_ns() + REPORTS * INTERVAL_NS + 10**9)
    numbers, times_ns = collector.result
    lost = pcap.read(net.capture("s1", "s2", "lost"), width=50).bytes[:, 42:50]
    link_lost = lost.copy().view(">u8")[:, 0]
    return Report(
        samples=[{"number": n, "time_ns": t} for n, t in zip(numbers, times_ns, strict=True)],
        checks=[
            *PacketAccounting.from_network(net, {}).checks(),
            Check("reports lost", REPORTS - len(numbers), len(link_lost)),
            Check("reports both received and lost", len({*numbers} & {*link_lost}), 0),
        ],
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment)
