"""Router with the structure of SAI and full tables: how fast is it?

A P4Runtime controller writes 10,000 routes and 500 ternary entries. Every packet passes two ACLs,
the LPM table, a group of 16 next hops (or none), and the tables of next hops, router interfaces and
neighbors. `p4/sai_router.p4` has this structure. With --program, the benchmark measures a copy of
the original SAI program (sonic-pins, sai_p4/instantiations/google/middleblock.p4) with its P4Info.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import asyncio
import json
import logging
import random
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import finsy as fy
from finsy.proto import p4i, p4r
from google.protobuf import text_format  # type: ignore[import-untyped]

from benchmarks.speed.shared.claims import AtLeast, AtMost, ratios
from benchmarks.speed.shared.pipeline import FRAMES, cost_ns, frame, keys
from benchmarks.speed.shared.sai_entries import (
    IN_GROUPS,
    NETWORK,
    NETWORK_LENGTH,
    OUT_PORT,
    entries,
)
from benchmarks.speed.shared.switch_chain import (
    MINIP4,
    ROUTER,
    SWITCH_CORE,
    TRAIN,
    Chain,
    Processes,
    compile_router,
    tool,
)
from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.engine.keys import Lpm
from minip4.runtime.service.pipeline import Pipeline, Turns
from minip4.runtime.status import StatusError
from minip4.runtime.switch import control
from telemark.errors import BusyMachineError, TestbedError, note_invalid
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

OWN = Path(__file__).parent / "p4" / "sai_router.p4"
SAI = "sai"
ADDRESS = "127.0.0.1:9559"
LEADS = ("nexthops", IN_GROUPS)
LOSSLESS_PPS = 100_000
ROUNDS, QUICK_ROUNDS = 5, 1
WRITE_CHUNK = 1000

Repeat = Callable[[int], object]

# hides finsy's warning that the switch has no gNMI
logging.getLogger("finsy").setLevel(logging.ERROR)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--program", type=Path, default=OWN, metavar="P4",
        help="a SAI program (default: benchmarks/speed/p4/sai_router.p4)",
    )  # fmt: skip
    parser.add_argument(
        "--p4info", type=Path, metavar="FILE",
        help="P4Info of the program as text (default: compiled by minip4)",
    )  # fmt: skip


@dataclass(frozen=True)
class Sample:
    measure: str
    unit: str
    value: float
    round: int


@dataclass(frozen=True)
class Flow:
    """Frames of a paced sender, and counters of the switch."""

    sent: int
    arrived: int
    counters: dict[str, Any]


class Benchmark:
    """Measurement of all pipelines and rates."""

    def __init__(self, options: argparse.Namespace, run: Run) -> None:
        self.run = run
        self.samples: list[Sample] = []
        self.flows: list[Flow] = []
        self._seed = options.seed
        self._rounds = QUICK_ROUNDS if options.quick else ROUNDS
        self._seconds = 0.1 if options.quick else 2.0
        compiled = compile_p4(options.program)
        self._program = compiled.bmv2_json
        self._p4info = compiled.p4info if options.p4info is None else read_p4info(options.p4info)
        self._blob = run.folder / f"{SAI}.json"
        self._blob.write_text(json.dumps(compiled.bmv2_json))
        self._control = run.folder / "sai.sock"

    def take(self) -> None:
        """Run all measurements."""
        compile_router(self.run.folder)
        tool("generate")  # compile before the measurement
        pipelines = {f"SAI, to {leads}": self._pipeline(leads) for leads in LEADS}
        pipelines["IPv4 router, 10,000 routes"] = self._router()
        for number in range(self._rounds):
            self.run.progress.update(f"round {number + 1} of {self._rounds}")
            for name, repeat in pipelines.items():
                cost = cost_ns(repeat, FRAMES, 20 if self._rounds == 1 else 100)
                self.samples.append(Sample(f"pipeline, {name}", "ns", cost, number))
            with self._chain(ROUTER) as chain:
                self._saturate("IPv4 router, 10 routes", chain, number)
            for leads in LEADS:
                with self._chain(SAI, "--control", str(self._control)) as chain:
                    asyncio.run(self._fill(leads))
                    kpps = self._pace(chain)
                    self.samples.append(
                        Sample(f"64 B, paced, SAI, to {leads}", "kpps", kpps, number)
                    )
                    self._saturate(f"SAI, to {leads}", chain, number)

    def _pipeline(self, leads: str) -> Repeat:
        """Return a function that forwards FRAMES frames in an engine with full tables."""
        engine = Engine(self._program)
        schema = fy.P4Schema(self._p4info)
        try:
            pipeline = Pipeline(p4r.ForwardingPipelineConfig(p4info=self._p4info), engine)
            updates = [(+e).encode_update(schema) for e in self._entries(leads)]
            turns = Turns(has_pauses=False)
            for error in filter(None, asyncio.run(pipeline.write(updates, 0, turns))):
                raise error
        except (StatusError, ValueError) as error:  # finsy raises this for unknown names
            raise TestbedError(
                f"the program does not have the structure of SAI: {error}"
            ) from error
        rng = random.Random(self._seed)
        frames = [frame(NETWORK | rng.getrandbits(32 - NETWORK_LENGTH)) for _ in range(FRAMES)]
        return repeat_forwarded(engine, frames)

    def _router(self) -> Repeat:
        """Return the baseline, benchmarks/speed/p4/ipv4_lpm.p4 with the same number of routes."""
        engine = Engine(compile_p4(OWN.parent / f"{ROUTER}.p4").bmv2_json)
        rng = random.Random(self._seed)
        routes = keys("lpm", 10_000, rng)
        for key, _ in routes:
            assert isinstance(key, Lpm)
            engine.table_add("LpmIngress.routes", [key], "LpmIngress.forward", [2, OUT_PORT])
        frames = [frame(rng.choice(routes)[1]) for _ in range(FRAMES)]
        return repeat_forwarded(engine, frames)

    def _entries(self, leads: str) -> list[fy.P4TableEntry]:
        types = self._p4info.type_info.new_types.values()
        translated = any(new_type.HasField("translated_type") for new_type in types)
        return entries(leads, translated=translated, seed=self._seed)

    async def _fill(self, leads: str) -> None:
        """Push the program and write its tables, as a controller does."""
        settings = fy.SwitchOptions(p4info=self._info_path(), p4blob=self._blob)
        async with fy.Switch("sai", ADDRESS, settings) as switch:
            updates = [+entry for entry in self._entries(leads)]
            for start in range(0, len(updates), WRITE_CHUNK):
                await switch.write(updates[start : start + WRITE_CHUNK])

    def _info_path(self) -> Path:
        path = self.run.folder / "sai.p4info.txtpb"
        path.write_text(str(self._p4info))
        return path

    def _saturate(self, measure: str, chain: Chain, number: int) -> None:
        for train, kind in ((TRAIN, "trains"), (1, "singles")):
            kpps = chain.delivered_pps(0, self._seconds, train) / 1e3
            self.samples.append(Sample(f"64 B, {kind}, {measure}", "kpps", kpps, number))

    def _pace(self, chain: Chain) -> float:
        """Send 100 kpps without loss; return the received rate in kpps."""
        before = received_and_sent(control.call(self._control, "counters"))
        sent, arrived, duration_ns = chain.deliver(LOSSLESS_PPS, self._seconds, 1)
        counters = control.call(self._control, "counters")
        dropped_by_kernel = sum(sum(port["kernel"].values()) for port in counters["ports"].values())
        if dropped_by_kernel:
            problem = f"the kernel dropped {dropped_by_kernel} packets"
            note_invalid(BusyMachineError(problem))
        now = received_and_sent(counters)
        if now[0] - before[0] != sent:
            problem = f"the switch received {now[0] - before[0]} of {sent} frames"
            note_invalid(BusyMachineError(problem))
        self.flows.append(Flow(sent, arrived, counters))
        return arrived * 1e6 / duration_ns

    @contextmanager
    def _chain(self, program: str, *options: str) -> Iterator[Chain]:
        with Processes(self.run.folder) as processes:
            given = ("--grpc-server-addr", ADDRESS, *options)
            chain = Chain(MINIP4, 1, SWITCH_CORE, processes, {}, program=program, options=given)
            try:
                yield chain
            finally:
                chain.remove()


def repeat_forwarded(engine: Engine, frames: list[bytes]) -> Repeat:
    """Return a function that processes the frames n times. Raises TestbedError on a drop."""
    for each in frames[:100]:
        if [port for port, _ in engine.process(1, each, 0)] != [OUT_PORT]:
            raise TestbedError(
                "the program does not have the structure of SAI: it does not forward"
            )
    return lambda rounds: engine.repeat(1, frames, rounds, 0)


def received_and_sent(counters: dict[str, Any]) -> tuple[int, int]:
    """Return the numbers of frames received by port 1 and sent by port 2."""
    ports = counters["ports"]
    return ports["1"]["received_packets"], ports["2"]["transmitted_packets"]


def accounting_mismatch(counters: dict[str, Any]) -> int:
    """Return the number of packets that the counters of the switch do not account for."""
    engine = dict(counters["engine"])
    taken_in = engine.pop("received") + engine.pop("replicas")
    return taken_in - sum(engine.values())


def read_p4info(path: Path) -> p4i.P4Info:
    """Read P4Info in protobuf text format. Raises TestbedError."""
    try:
        p4info: p4i.P4Info = text_format.Parse(path.read_text(), p4i.P4Info())
    except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
        raise TestbedError(
            f"--p4info {path}: the file is not P4Info in text format: {error}"
        ) from error
    return p4info


def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "real", "this benchmark measures real time")
    cli.require_minip4(options, "this benchmark measures minip4")
    benchmark = Benchmark(options, run)
    benchmark.take()
    return report(options.program.name, benchmark.samples, benchmark.flows)


def report(program: str, samples: list[Sample], flows: list[Flow]) -> Report:
    """Compare pipelines within rounds, and received packets with sent packets."""
    grouped: dict[tuple[str, str], list[float]] = {}
    for sample in samples:
        grouped.setdefault((sample.measure, sample.unit), []).append(sample.value)
    rows = [
        (measure, statistics.median(values), min(values), max(values), unit)
        for (measure, unit), values in grouped.items()
    ]
    return Report(
        samples=[asdict(sample) for sample in samples],
        checks=checks({measure: values for (measure, _), values in grouped.items()}, flows),
        metrics={measure: statistics.median(values) for (measure, _), values in grouped.items()},
        tables=[
            table(f"{program}: 10,000 routes, 500 ternary entries; 64 B with Ethernet header",
                  ("measure", "median", "min", "max", "unit"), rows),
        ],
    )  # fmt: skip


def checks(found: dict[str, list[float]], flows: list[Flow]) -> list[Check]:
    """Return the claims: no packet is lost, and ratios within rounds are within limits."""
    claims: list[Check] = []
    for leads in LEADS:
        claims += [
            AtMost.of_rounds(
                f"pipeline, SAI, to {leads}: times an IPv4 router with 10,000 routes, at most",
                ratios(found[f"pipeline, SAI, to {leads}"],
                       found["pipeline, IPv4 router, 10,000 routes"]), 15),
            AtLeast.of_rounds(
                f"64 B, singles, SAI, to {leads}: of an IPv4 router's rate, at least",
                ratios(found[f"64 B, singles, SAI, to {leads}"],
                       found["64 B, singles, IPv4 router, 10 routes"]), 0.4),
        ]  # fmt: skip
    return [
        *claims,
        Check("paced: packets lost", sum(flow.sent - flow.arrived for flow in flows), 0),
        Check("paced: packets not accounted for by the switch",
              sum(abs(accounting_mismatch(flow.counters)) for flow in flows), 0),
    ]  # fmt: skip


if __name__ == "__main__":
    cli.main(f"benchmark_{Path(__file__).name}", __doc__, experiment, add_options)
