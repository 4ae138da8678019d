"""CPU time of INT in a switch: how much per packet in each role, compared with a router and AM-PM?

The same 242-byte packets pass p4src/int/int.p4, p4src/routing/router.p4 and
p4src/ampm/ampm.p4, in one process on one core. Only ratios within the run are checked.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from benchmarks.speed.shared.claims import AtMost, claims_table, ratios
from benchmarks.speed.shared.pipeline import cost_ns
from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.engine.keys import Exact, Lpm, MatchKey, Ternary
from telemark.errors import TestbedError
from telemark.results.report import Report, table
from telemark.session import cli
from telemark.session.run import Run

P4SRC = Path(__file__).parents[2] / "p4src"
IN, OUT, TO_COLLECTOR = 1, 2, 3
HOST, NODE = 0x020000000002, 1
FRAMES = 1024
INSTRUCTIONS = 0xF000  # instruction bits: node id, ports, latency, queue (4 words)
HOPS = (1, 2, 5)  # numbers of earlier hops on the INT stack of packets in transit
SESSION = 500
ROUNDS, QUICK_ROUNDS = 7, 1
ANY = Ternary(0, 0)
ARRIVAL, DEPARTURE = "IntIngress.arrival", "IntEgress.departure"
ROUTER, AMPM = "router", "AM-PM switch"
UNWATCHED, SOURCE, SINK, REPORTING = (
    "INT, unwatched flow", "INT, source", "INT, sink", "INT, sink with a report per packet"
)  # fmt: skip

Repeat = Callable[[int], object]


@dataclass(frozen=True)
class Sample:
    measure: str
    ns: float
    round: int


def transit(hops: int) -> str:
    """Return the name of the transit measurement with `hops` earlier hops on the INT stack."""
    return f"INT, transit, {hops} hop{'s' * (hops > 1)} before"


class IntSwitch:
    """Engine with the INT program. It forwards from port 1 to port 2."""

    def __init__(self, engine: Engine, *, inside: bool) -> None:
        self.engine = engine
        forward = f"{ARRIVAL}.forward"
        self.add(f"{forward}.forwarding", [Exact(HOST)], f"{forward}.forward", [OUT])
        engine.table_set_default(f"{ARRIVAL}.watch.node", f"{ARRIVAL}.watch.set_node",
                                 [NODE, 0, 0, 0])  # fmt: skip
        packet = f"{DEPARTURE}.packet"
        action, values = ("stay_inside", [9000, 0]) if inside else ("leave_domain", [0])
        self.add(f"{packet}.ports", [Exact(OUT)], f"{packet}.{action}", values)

    def add(
        self, name: str, key: Sequence[MatchKey], action: str, values: Sequence[int],
        priority: int = 0,
    ) -> None:  # fmt: skip
        self.engine.table_add(name, key, action, values, priority)

    def watch(self, dst_port: int) -> "IntSwitch":
        """Make the switch the INT-MD source for packets to this UDP port."""
        watch = f"{ARRIVAL}.watch"
        self.add(f"{watch}.int_list", [*[ANY] * 4, Ternary(dst_port, 0xFFFF)],
                 f"{watch}.embed_data", [INSTRUCTIONS, 255, 0, 0xFFFFFFFF], 1)  # fmt: skip
        return self

    def report(self) -> "IntSwitch":
        """Send a report for each packet with INT."""
        reports = f"{DEPARTURE}.packet.flow_reports"
        self.engine.table_set_default(f"{reports}.flow_reports", f"{reports}.report_all", [])
        self.engine.mirror_set(SESSION, [(TO_COLLECTOR, 0)])
        return self

    def passed(self, frames: Sequence[bytes]) -> list[bytes]:
        """Return the frames that the switch forwards."""
        return [out for frame in frames for port, out in self.engine.process(IN, frame, 0)
                if port == OUT]  # fmt: skip


def int_roles(frames: list[bytes]) -> dict[str, Repeat]:
    """Return the INT switches, one per role."""
    engine = Engine(compile_p4(P4SRC / "int" / "int.p4").bmv2_json)

    def switch(*, inside: bool = True) -> IntSwitch:
        return IntSwitch(engine.another(), inside=inside)

    source = switch().watch(5000)
    found = {UNWATCHED: repeat(switch().watch(4999).engine, frames, len(frames[0])),
             SOURCE: repeat(source.engine, frames, len(frames[0]) + 16 + 16)}  # fmt: skip
    inside = source.passed(frames)
    for hops in range(1, max(HOPS) + 1):
        if hops in HOPS:
            found[transit(hops)] = repeat(switch().engine, inside, len(inside[0]) + 16)
        last = inside
        inside = switch().passed(inside)
    sink = switch(inside=False)
    assert sink.passed(last[:10]) == frames[:10]
    found[SINK] = repeat(sink.engine, last, len(frames[0]))
    found[REPORTING] = repeat(switch(inside=False).report().engine, last, len(frames[0]))
    return found


def others(frames: list[bytes]) -> dict[str, Repeat]:
    """Return switches that forward the same packets without INT."""
    router = Engine(compile_p4(P4SRC / "routing" / "router.p4").bmv2_json)
    router.table_add("RouterIngress.routing.routes", [Lpm(0x0A000000, 8)],
                     "RouterIngress.routing.send", [HOST, OUT])  # fmt: skip
    ampm = Engine(compile_p4(P4SRC / "ampm" / "ampm.p4").bmv2_json)
    forward = "AmpmIngress.forwarding"
    ampm.table_add(f"{forward}.forwarding", [Exact(HOST)], f"{forward}.forward", [OUT])
    size = len(frames[0])
    return {ROUTER: repeat(router, frames, size), AMPM: repeat(ampm, frames, size)}


def repeat(engine: Engine, frames: list[bytes], expected_bytes: int) -> Repeat:
    """Return a function that processes frames; it raises TestbedError on unexpected lengths."""
    for frame in frames[:100]:
        lengths = [len(out) for port, out in engine.process(IN, frame, 0) if port == OUT]
        if lengths != [expected_bytes]:
            raise TestbedError(f"output frames have {lengths} bytes instead of {expected_bytes}")
    return lambda rounds: engine.repeat(IN, frames, rounds, 0)


def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_minip4(options, "this benchmark measures minip4")
    frames = [
        bytes(Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
              / IP(src="10.0.0.1", dst="10.0.0.2", id=number)
              / UDP(sport=1024 + number, dport=5000) / bytes(200))
        for number in range(FRAMES)
    ]  # fmt: skip
    repeats = {**others(frames), **int_roles(frames)}
    samples = []
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    for number in range(rounds):
        run.progress.update(f"round {number + 1} of {rounds}")
        for name, each in repeats.items():
            cost = cost_ns(each, FRAMES, 50 if options.quick else 400)
            samples.append(Sample(name, cost, number))
    return report(samples)


def report(samples: list[Sample]) -> Report:
    """Return the report. Ratios are computed within rounds."""
    grouped: dict[str, list[float]] = {}
    for sample in samples:
        grouped.setdefault(sample.measure, []).append(sample.ns)
    medians = {name: statistics.median(values) for name, values in grouped.items()}
    rows = [(name, medians[name], min(values), max(values)) for name, values in grouped.items()]
    claims = [
        AtMost.of_rounds(
            f"{name}: normalized to the router, at most",
            ratios(grouped[name], grouped[ROUTER]),
            limit,
        )
        for name, limit in LIMITS.items()
    ]
    return Report(
        samples=[asdict(sample) for sample in samples],
        checks=list(claims),
        metrics=medians,
        tables=[
            table("CPU time per packet of 242 bytes (ns)", ("switch", "median", "min", "max"),
                  rows),
            claims_table(claims),
        ],
    )  # fmt: skip


LIMITS = {UNWATCHED: 2.2, SOURCE: 3.1, transit(5): 2.9, SINK: 2.8, REPORTING: 7.0}


if __name__ == "__main__":
    cli.main(f"benchmark_{Path(__file__).name}", __doc__, experiment)
