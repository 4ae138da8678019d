"""CPU time of the same IPv4 router in v1model and in TNA, in the pipeline without I/O.

Both programs have the same table, parser states and checksums. TNA parses each packet a second
time, in the egress parser. Rounds alternate between the two, and ratios are within a round.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks.speed.shared.claims import AtMost, claims_table, ratios
from benchmarks.speed.shared.pipeline import ACTION, FRAMES, PROGRAMS, TABLE, cost_ns, frame, keys
from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

ARCHITECTURES = {"v1model": "ipv4_lpm.p4", "TNA": "ipv4_lpm_tna.p4"}
ROUTES = (10, 10_000)
ROUNDS, QUICK_ROUNDS, REPEATS = 5, 3, 100
MAX_RATIO = 1.3


@dataclass(frozen=True)
class Sample:
    routes: int
    architecture: str
    round: int
    cpu_ns: float  # per packet


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    samples, checks, claims = [], [], []
    for routes in ROUTES:
        run.progress.say(f"{routes} routes")
        repeats, different = routers(routes, options.seed)
        checks.append(Check(f"{routes} routes: frames that differ", different, 0))
        found = [
            Sample(routes, name, number, cost_ns(repeat, FRAMES, REPEATS))
            for number in range(QUICK_ROUNDS if options.quick else ROUNDS)
            for name, repeat in repeats.items()
        ]
        samples += found
        costs = {name: [s.cpu_ns for s in found if s.architecture == name] for name in repeats}
        name = f"{routes} routes: CPU time of TNA / v1model"
        claims.append(
            AtMost.of_rounds(name, ratios(costs["TNA"], costs["v1model"]), MAX_RATIO)
        )  # fmt: skip
    rows = [
        (
            routes,
            name,
            median(s.cpu_ns for s in samples if (s.routes, s.architecture) == (routes, name)),
        )
        for routes in ROUTES
        for name in ARCHITECTURES
    ]
    return Report(
        samples=[asdict(sample) for sample in samples],
        checks=[*checks, *claims],
        tables=[
            table("CPU time per packet (ns, median)", ("routes", "architecture", "ns"), rows),
            claims_table(claims),
        ],
    )


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
