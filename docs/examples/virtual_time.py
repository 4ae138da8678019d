"""A link that fails for a second: which packets are lost?

    python docs/examples/virtual_time.py --time virtual

The script stops the network, reads counters and changes the link. With --time real (as root) the
machine determines the times, so they are not exact to the nanosecond.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import Ether

from controllers.connection import connection
from controllers.routing import routing_entries
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.traffic.flows import Flow, Traffic
from telemark.traffic.patterns import Poisson, heavy_tailed
from topologies.basic import Line

SECOND = 10**9
ICMP_PROTOCOL = 1


async def experiment(options, run):
    topo = Line(switches=1)
    # s1's clock is 70 us ahead, and gains 50 us per second.
    clock = {"s1": ["--clock-offset-us", "70", "--clock-drift-ppb", "50000"]}
    with Network(topo, run, program="p4src/routing/router.p4", switch_options=clock) as net:
        async with connection(net, "s1") as controller:
            await controller.write([+entry for entry in routing_entries(net, "s1", [])])
        s1, port, start_ns = net.switch("s1"), net.port("s1", "h2"), run.clock.now_ns() + SECOND
        flows = [
            Flow(1, "h1", "h2", rate_pps=1000, count=3000),
            Flow(2, "h1", "h2", rate_pps=500, count=1500, size=1000, pattern=Poisson()),
            *heavy_tailed([("h2", "h1")] * 20, flows_per_s=10, mean_count=20, rate_pps=200,
                          seed=run.seed, first_id=10),
        ]  # fmt: skip
        ping = Ether(src=net.host("h1").MAC(), dst=net.host("h2").MAC()) / IP(
            src=net.host("h1").IP(), dst=net.host("h2").IP()
        )
        # With identifier 0 and sequence 0, the reply would be all zeros and its checksum ambiguous.
        net.send_frames("h1", [start_ns], [bytes(ping / ICMP(id=1))])
        async with Traffic(net, flows, start_ns) as traffic:
            await run.clock.sleep_until(start_ns + 1 * SECOND)
            before = s1.read_counters()["ports"][str(port)]["link"]
            s1.set_link(port, loss_probability=1.0)
            s1.set_queue(port, depth=1000)
            await run.clock.sleep_until(run.clock.now_ns() + 1 * SECOND)
            s1.set_link(port, loss_probability=0.0)
            records = await traffic.finish()
    lost = pcap.read_flow(net.capture("s1", "h2", "lost"), flows[0])
    answers = pcap.read(net.capture("s1", "h1", "out"))
    return Report(
        samples=[{"sequence": s, "time_s": (t - start_ns) / SECOND}
                 for s, t in zip(lost.sequence, lost.time_ns, strict=True)],
        checks=[
            *PacketAccounting.from_network(net, records).checks(),
            Check("lost in the first second", before["lost_packets"], 0),
            Check("lost in the second", len(lost.sequence),
                  1000 if options.time == "virtual" else len(records[1].lost_sequences)),
            Check("lost elsewhere", len({*records[1].lost_sequences} - {*lost.sequence}), 0),
            Check("frames answered by h2", int(sum(answers.bytes[:, 23] == ICMP_PROTOCOL)), 1),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment)
