"""Which switch delays a flow, and does the INT collector see the same path as the topology?

    python docs/examples/int_collector.py --time virtual
    sudo python docs/examples/int_collector.py

Five switches embed their node id and hop latency into each packet of a flow (INT-MD). The last one
reports them to a collector at another host.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

from collectors.int.application import Collector, Encoding
from controllers.connection import connections, cpu_ports
from controllers.int.domain import Domain, configure
from controllers.int.watch import Instruction, WatchedFlow
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import ParkingLot

# Marks of packets with INT, and units of time, of Telemark's switches.
ENCODING = Encoding(
    port=32767, dscp=0x04, dscp_mask=0x3C, timestamp_unit_ns=1000, latency_unit_ns=1000
)
METADATA = Instruction.NODE_ID | Instruction.LATENCY | Instruction.QUEUE


async def experiment(options, run):
    topo = ParkingLot(switches=5, rate_bps=10_000_000, delay_us=1000)
    flows = [
        Flow(1, "h1", "h2", rate_pps=500, count=500, size=200),
        Flow(2, "x3", "x4", rate_pps=1000, count=1000, size=1200),  # fills the link from s3 to s4
    ]
    with Network(topo, run, program="p4src/int/int.p4", switch_options=cpu_ports(topo)) as net:
        collector = net.run_application("collector", Collector(ENCODING))
        watched = WatchedFlow(net.host("h1").IP(), net.host("h2").IP(), instructions=METADATA)
        async with connections(net) as switches:
            await configure(net, switches, Domain("collector", [watched]))
            async with Traffic(net, flows) as traffic:
                records = await traffic.finish()
    findings = collector.result
    path = findings.flows[0]["path"][: findings.flows[0]["hops"]]
    samples = [
        {"node": hop["node"], "packets": hop["latency_ns"]["count"],
         "mean_latency_us": hop["latency_ns"]["sum"] / hop["latency_ns"]["count"] / 1000}
        for hop in path
    ]  # fmt: skip
    slowest = max(samples, key=lambda sample: sample["mean_latency_us"])
    return Report(
        samples=samples,
        checks=[
            *PacketAccounting.from_network(net, records).checks(),
            Check("switches on the path", [*path["node"]] == [1, 2, 3, 4, 5], True),
            Check("reports", findings.reports, len(records[1].received)),
            Check("switch with the longest delay", slowest["node"], 3),
        ],
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, cli.add_metrics_option)
