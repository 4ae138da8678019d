"""Cases in which published TNA programs process a generated trace.

A case compares all counters of the program with a model, and computes a published metric.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.shared.tna import fcm, rtt
from telemark.session.run import Run

FCM, RTT = "FCM-Sketch", "RTT"
FILES = (fcm.PROGRAM, rtt.PROGRAM)
SOURCES = f"clones of {fcm.SOURCE} and {rtt.SOURCE}"
GBPS = 1e9


@dataclass(frozen=True)
class Finding:
    """Value of a metric at one parameter of a program: number of flows, or load in Gb/s."""

    program: str
    parameter: float
    packets: int
    metric: str
    value: float


@dataclass(frozen=True)
class Setting:
    """What one run measures."""

    program: str
    folder: str  # with the published programs
    parameter: float

    def findings(self, packets: int, values: dict[str, float]) -> list[Finding]:
        """Return the values of metrics as findings."""
        return [Finding(self.program, self.parameter, packets, metric, float(f"{value:.12g}"))
                for metric, value in values.items()]  # fmt: skip


async def measure(setting: Setting, run: Run) -> list[Finding]:
    """Run one case."""
    return CASES[setting.program](setting, run)


def _flow_sizes(setting: Setting, run: Run) -> list[Finding]:
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


def _samples(setting: Setting, run: Run) -> list[Finding]:
    """RTT: captured samples."""
    packets = rtt.trace(setting.parameter * GBPS, run.seed)
    state = rtt.run_program(Path(setting.folder), packets, run)
    captured, available = rtt.captured(packets, state.verdicts)
    return setting.findings(len(packets.frames), {
        "different": state.differences(rtt.model(packets)),
        "captured": captured / available,
    })  # fmt: skip


CASES = {FCM: _flow_sizes, RTT: _samples}


def settings(folder: str, flows: Sequence[int], loads: Sequence[float]) -> list[Setting]:
    """Return the settings of all cases."""
    return [*(Setting(FCM, folder, count) for count in flows),
            *(Setting(RTT, folder, load) for load in loads)]  # fmt: skip
