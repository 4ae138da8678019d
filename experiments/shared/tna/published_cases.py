"""Cases in which published TNA programs process a generated trace.

A case compares all counters of the program with a model, and computes a published metric.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.shared.tna import conquest, fcm, rtt
from telemark.session.run import Run

FCM, RTT, CONQUEST, REPAIRED = "FCM-Sketch", "RTT", "ConQuest", "ConQuest, repaired"
FILES = (fcm.PROGRAM, rtt.PROGRAM, conquest.PROGRAM, conquest.GENERATOR)
SOURCES = f"clones of {fcm.SOURCE} and {rtt.SOURCE}"
GBPS = 1e9


@dataclass(frozen=True)
class Finding:
    """Value of a metric at one parameter of a program.

    The parameter is the number of flows, the load in Gb/s, or the memory in KiB.
    """

    program: str
    parameter: float
    packets: int
    metric: str
    value: float


@dataclass(frozen=True)
class Setting:
    """What one run measures."""

    program: str
    folder: str  # folder with the published programs
    parameter: float

    def findings(self, packets: int, values: dict[str, float]) -> list[Finding]:
        """Return the values of metrics as findings."""
        return [Finding(self.program, self.parameter, packets, metric, float(f"{value:.12g}"))
                for metric, value in values.items()]  # fmt: skip


async def measure(setting: Setting, run: Run) -> list[Finding]:
    """Run one case."""
    return await CASES[setting.program](setting, run)


async def _flow_sizes(setting: Setting, run: Run) -> list[Finding]:
    """FCM-Sketch: relative error of the size of a flow, here and in a Count-Min sketch."""
    addresses, sizes, packets = fcm.trace(int(setting.parameter), run.seed)
    state = fcm.run_program(Path(setting.folder), addresses, packets, run)
    estimates = state.estimates(addresses)
    count_min = fcm.count_min(sizes, np.random.default_rng(run.seed))
    too_long = sizes > fcm.LIMIT
    return setting.findings(len(packets), {
        "different": state.differences(fcm.model(addresses, sizes)),
        "error": fcm.relative_error(estimates, sizes),
        "Count-Min error": fcm.relative_error(count_min, sizes),
        "cardinality error": state.cardinality() / len(sizes) - 1,
        "cardinality deviation": fcm.cardinality_deviation(len(sizes)),
        "long flows": int(too_long.sum()),
        "complete long flows": int((estimates[too_long] >= sizes[too_long]).sum()),
    })  # fmt: skip


async def _samples(setting: Setting, run: Run) -> list[Finding]:
    """RTT: captured samples."""
    packets = rtt.trace(setting.parameter * GBPS, run.seed)
    state = rtt.run_program(Path(setting.folder), packets, run)
    captured, available = rtt.captured(packets, state.verdicts)
    return setting.findings(len(packets.frames), {
        "different": state.differences(rtt.model(packets)),
        "captured": captured / available,
    })  # fmt: skip


async def _marks(setting: Setting, run: Run) -> list[Finding]:
    """ConQuest: marked packets of flows that have many bytes in the queue."""
    is_repaired = setting.program == REPAIRED
    columns = round(setting.parameter * 1024 / conquest.COLUMN_BYTES)
    packets = conquest.trace(run.seed)
    program = conquest.generate(Path(setting.folder), run.folder, columns, is_repaired=is_repaired)
    hashed = conquest.columns_of(program.read_text(), packets, columns)
    state = await conquest.run_program(program, packets, run)
    heavy = conquest.heavy(packets)
    right, marked = int((state.marked & heavy).sum()), int(state.marked.sum())
    model = conquest.model(packets, hashed, columns, is_repaired=is_repaired)
    return setting.findings(len(packets.times_ns), {
        "different": state.differences(model),
        "recall": right / int(heavy.sum()),
        **({"precision": right / marked} if marked else {}),
    })  # fmt: skip


CASES = {FCM: _flow_sizes, RTT: _samples, CONQUEST: _marks, REPAIRED: _marks}


def settings(
    folder: str, flows: Sequence[int], loads: Sequence[float], memories: Sequence[float]
) -> list[Setting]:  # fmt: skip
    """Return the settings of all cases."""
    return [*(Setting(FCM, folder, count) for count in flows),
            *(Setting(RTT, folder, load) for load in loads),
            *(Setting(program, folder, memory) for program in (CONQUEST, REPAIRED)
              for memory in memories)]  # fmt: skip
