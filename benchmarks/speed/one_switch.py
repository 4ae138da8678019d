"""CPU time of one switch in virtual time, for the same number of packets as in the P4sim artifact.

One switch connects two hosts over links of 10 Gbit/s. The CPU time includes source and receiver.
The authors of P4sim (bmv2 inside ns-3) published 1,743 s, but for a debug build. So the two times
are not directly comparable.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import statistics
import time

from mininet.topo import Topo

from controllers.connection import connections
from controllers.routing import routing_entries
from telemark.network import Network
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic

ROUTER = "p4src/routing/router.p4"
PACKETS, QUICK_PACKETS = 3_750_000, 100_000
FRAME_BYTES, RATE_BPS = 1000, 10**10
ROUNDS = 5


class OneSwitch(Topo):
    """Network h1 - s1 - h2."""

    def build(self) -> None:
        switch = self.addSwitch("s1")
        for host in ("h1", "h2"):
            self.addLink(self.addHost(host), switch, rate_bps=RATE_BPS)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "virtual", "this benchmark measures virtual time")
    packets = QUICK_PACKETS if options.quick else PACKETS
    samples = [await measure(number, packets, run) for number in range(ROUNDS)]
    took_s = [float(sample["cpu_s"]) for sample in samples]
    rows = [(packets, statistics.median(took_s), min(took_s), max(took_s))]
    return Report(
        samples=samples,
        checks=[Check(f"round {sample['round']}: packets lost", packets - sample["received"], 0)
                for sample in samples],
        metrics={"median CPU time, s": statistics.median(took_s)},
        tables=[table("Through one switch", ("packets", "CPU s, median", "min", "max"), rows)],
    )  # fmt: skip


async def measure(number: int, packets: int, run: Run) -> dict[str, int | float]:
    """Return a sample: the CPU time after the network was set up."""
    with Network(OneSwitch(), run, program=ROUTER, name=f"round-{number}", capture=False) as net:
        async with connections(net) as switches:
            await switches["s1"].write([+entry for entry in routing_entries(net, "s1", [])])
            before_s = time.process_time()
            rate_pps = RATE_BPS / 8 / FRAME_BYTES
            async with Traffic(net, [Flow(1, "h1", "h2", rate_pps, packets, FRAME_BYTES)]) as sent:
                records = await sent.finish()
            took_s = time.process_time() - before_s
    return {"round": number, "received": len(records[1].received), "cpu_s": took_s}


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment)
