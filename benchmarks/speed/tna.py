"""CPU time of the same IPv4 router in v1model and in TNA: in the pipeline alone and in a network.

Both programs have the same table, parser states and checksums. TNA parses each packet a second
time, in the egress parser. The network is a fabric in virtual time; its cost is the CPU time per
switch-hop. Rounds alternate between the two programs, and ratios are within a round.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median

import finsy as fy

from benchmarks.speed.shared.claims import AtMost, claims_table, ratios
from benchmarks.speed.shared.pipeline import ACTION, FRAMES, PROGRAMS, TABLE, cost_ns, frame, keys
from controllers.connection import connection
from controllers.routing import ANY_MAC
from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from topologies.leaf_spine import LeafSpine

ARCHITECTURES = {"v1model": "ipv4_lpm.p4", "TNA": "ipv4_lpm_tna.p4"}
ROUTES = (10, 10_000)
ROUNDS, QUICK_ROUNDS, REPEATS = 5, 3, 100
MAX_RATIO = 1.3
NETWORK = "network"
FABRIC = {"pods": 2, "leaves": 4, "spines": 2, "cores": 1, "rate_bps": 10**11, "delay_us": 5}
# packets per flow (full run, --quick), and rate of a flow
PACKETS, QUICK_PACKETS, RATE_PPS = 20_000, 1000, 100_000


@dataclass(frozen=True)
class Sample:
    setting: str
    architecture: str
    round: int
    cpu_ns: float  # CPU time per packet in the pipeline, or per switch-hop in the network


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "virtual", "this benchmark measures virtual time")
    samples, checks = [], []
    rounds = range(QUICK_ROUNDS if options.quick else ROUNDS)
    for routes in ROUTES:
        setting = f"{routes:,} routes"
        run.progress.say(setting)
        repeats, different = routers(routes, options.seed)
        checks.append(Check(f"{setting}: frames that differ", different, 0))
        samples += [
            Sample(setting, name, number, cost_ns(repeat, FRAMES, REPEATS))
            for number in rounds
            for name, repeat in repeats.items()
        ]
    packets = QUICK_PACKETS if options.quick else PACKETS
    for number in rounds:
        for name in ARCHITECTURES:
            run.progress.say(f"{NETWORK}, {name}, round {number + 1}")
            cpu_ns, found = await cross_fabric(name, number, packets, run)
            samples.append(Sample(NETWORK, name, number, cpu_ns))
            checks += found
    settings = [*dict.fromkeys(sample.setting for sample in samples)]
    claims = [
        AtMost.of_rounds(
            f"{setting}: CPU time of TNA / v1model",
            ratios(costs(samples, setting, "TNA"), costs(samples, setting, "v1model")),
            MAX_RATIO,
        )
        for setting in settings
    ]
    rows = []
    for setting in settings:
        for name in ARCHITECTURES:
            ns = median(costs(samples, setting, name))
            rows.append((setting, name, ns, round(1e9 / ns)))
    columns = ("setting", "architecture", "ns", "packets or switch-hops/s")
    return Report(
        samples=[asdict(sample) for sample in samples],
        checks=[*checks, *claims],
        tables=[
            table("CPU time per packet or switch-hop (median)", columns, rows),
            claims_table(claims),
        ],
    )


def costs(samples: list[Sample], setting: str, architecture: str) -> list[float]:
    wanted = (setting, architecture)
    return [s.cpu_ns for s in samples if (s.setting, s.architecture) == wanted]


async def cross_fabric(
    architecture: str, number: int, packets: int, run: Run
) -> tuple[float, list[Check]]:
    """Send a flow from each host through a fabric.

    Returns the CPU time per switch-hop, and the checks of lost packets.
    """
    topo, program = LeafSpine(**FABRIC), PROGRAMS / ARCHITECTURES[architecture]
    name = f"{architecture}, round {number + 1}"
    with Network(topo, run, program=program, name=f"{architecture}-{number}", capture=False) as net:
        for switch in topo.switches():
            async with connection(net, switch) as controller:
                await controller.write([+entry for entry in entries(net, topo, switch)])
        hosts = topo.hosts()
        flows = [
            Flow(i, host, hosts[(i + 3) % len(hosts)], RATE_PPS, packets)
            for i, host in enumerate(hosts)
        ]
        start_ns = run.clock.now_ns()
        async with Traffic(net, flows, start_ns) as traffic:
            began_s = time.process_time()
            await run.clock.sleep_until(start_ns + round(1e9 * packets / RATE_PPS) + 10**8)
            took_s = time.process_time() - began_s
            records = await traffic.finish()
    hops = sum(counters["engine"]["received"] for counters in net.counters.values())
    accounting = PacketAccounting.from_network(net, records)
    lost = Check(f"{name}: packets lost", accounting.sent - accounting.received, 0)
    return 1e9 * took_s / hops, [*(c for c in accounting.checks(name) if not c.passed), lost]


def entries(net: Network, topo: LeafSpine, switch: str) -> list[fy.P4TableEntry]:
    """Return the routes of a switch: to its hosts, and through the first next hop to others."""
    hosts = [name for name in net.neighbours(switch) if not topo.isSwitch(name)]
    hops = [(f"{net.host(name).IP()}/32", name, net.host(name).MAC()) for name in hosts]
    hops += [(route.prefix, route.next_hops[0], ANY_MAC) for route in topo.routes(switch)]
    return [
        fy.P4TableEntry(
            TABLE,
            # P4Runtime leaves out a prefix of length 0
            match=fy.Match({} if prefix == "0.0.0.0/0" else {"hdr.ipv4.dst_addr": prefix}),
            action=fy.Action(ACTION, mac_addr=mac, port=net.port(switch, neighbour)),
        )
        for prefix, neighbour, mac in hops
    ]


def routers(routes: int, seed: int) -> tuple[dict[str, Callable[[int], object]], int]:
    """Return the function that repeats the frames, by architecture.

    Also return the number of frames that the two programs forward differently.
    """
    rng = random.Random(seed)
    entries = keys("lpm", routes, rng)
    frames = [frame(rng.choice(entries)[1]) for _ in range(FRAMES)]
    engines = {}
    for name, program in ARCHITECTURES.items():
        engine = engines[name] = Engine(compile_p4(PROGRAMS / program).bmv2_json)
        for key, _ in entries:
            engine.table_add(TABLE, [key], ACTION, [2, 2])
    outputs = [[e.process(1, each, 0) for e in engines.values()] for each in frames]
    different = sum(not one or one != other for one, other in outputs)

    def repeat(engine: Engine) -> Callable[[int], object]:
        return lambda rounds: engine.repeat(1, frames, rounds, 0)

    return {name: repeat(engine) for name, engine in engines.items()}, different


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment)
