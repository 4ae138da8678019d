"""Statistics program: loads the selected statistics, and reads them per window."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import IntFlag
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebpf.loader import Program, ProgramObject, load
from ebpf.statistics import hashes, heavykeeper
from ebpf.statistics.buffers import Buffers, possible_processors
from ebpf.statistics.distinct import Registers
from ebpf.statistics.flows import Fields, Flows
from ebpf.statistics.minwise import Minima
from ebpf.statistics.norms import Sketch
from ebpf.statistics.quantiles import Histogram
from ebpf.statistics.samples import Sample
from ebpf.statistics.totals import Totals

SOURCE = Path(__file__).parent / "statistics.bpf.c"
HEAVY_BYTES = 64 << 10


class Kept(IntFlag):
    """Statistics other than totals. The numbers are those in statistics.bpf.c."""

    COUNTERS = 1
    HEAVY_KEEPER = 2
    QUANTILES = 4
    SAMPLES = 8
    DISTINCT = 16
    MINIMA = 32
    NORMS = 64
    ALL = 127


@dataclass(frozen=True)
class Setting:
    """The selected statistics, the fields that define a flow, and the memory per buffer.

    Each CPU has two buffers.
    """

    kept: Kept
    fields: Fields = Fields.ALL
    # number of groups; a power of two. A group has eight exact counters and 448 bytes
    groups: int = 4096
    columns: int = heavykeeper.columns_in(HEAVY_BYTES)
    seed: int = 0

    def sizes(self, processors: int) -> dict[str, int]:
        """Return the number of entries of each map.

        A map that is not used has one entry per buffer.
        """
        groups = self.groups if self.kept & Kept.COUNTERS else 1
        buckets = heavykeeper.ROWS * self.columns if self.kept & Kept.HEAVY_KEEPER else 1
        maps = dict.fromkeys(("totals", "lengths", "sample", "ranks", "leasts", "sketches"), 1)
        each = {**maps, "counters": groups, "buckets": buckets}
        return {"rng_states": processors, **{name: 2 * processors * n for name, n in each.items()}}

    def constants(self) -> dict[str, Any]:
        """Return the constants of the program."""
        return {
            "selected": int(self.kept), "key_fields": int(self.fields), "groups": self.groups,
            "columns": self.columns, "hash_factors": hashes.draw_factors(self.seed),
            "decay": heavykeeper.decay_table(),
        }  # fmt: skip


@dataclass(frozen=True)
class Window:
    """Statistics of the packets in a window, on all CPUs.

    A statistic that was not selected is None.

    Windows that follow each other can be added, and also windows of several links. A sliding window
    is the sum of its basic windows.
    """

    totals: Totals
    counted: Flows | None = None
    heavy: Flows | None = None
    lengths: Histogram | None = None
    sample: Sample | None = None
    registers: Registers | None = None
    minima: Minima | None = None
    sketch: Sketch | None = None

    def __add__(self, other: Window) -> Window:
        names = [field.name for field in fields(self)]
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in names}
        sums: dict[str, Any] = {
            name: None if own is None else own + theirs for name, (own, theirs) in pairs.items()
        }
        return Window(**sums)


class Statistics:
    """Programs at_xdp and at_tc, and their results. Both programs count in the same windows."""

    def __init__(self, setting: Setting, loaded: ProgramObject) -> None:
        self.setting = setting
        self.at_xdp: Program = loaded.programs["at_xdp"]
        self.at_tc: Program = loaded.programs["at_tc"]
        self.buffers = Buffers(loaded, setting.sizes(possible_processors()), setting.seed)
        # generator of the random numbers that are used to merge samples
        self._rng = np.random.default_rng([setting.seed, 1])

    def flip(self) -> Window:
        """Return the statistics since the last call; see Buffers.flip()."""
        return self._window(self.buffers.flip())

    def _window(self, raw: dict[str, NDArray[Any]]) -> Window:
        kept = self.setting.kept
        single = {name: each[:, 0] for name, each in raw.items()}
        return Window(
            Totals.of(single["totals"]),
            heavykeeper.counted_flows(raw["counters"]) if kept & Kept.COUNTERS else None,
            heavykeeper.heavy_flows(raw["buckets"]) if kept & Kept.HEAVY_KEEPER else None,
            Histogram.of(single["lengths"]) if kept & Kept.QUANTILES else None,
            Sample.of(single["sample"], self._rng) if kept & Kept.SAMPLES else None,
            Registers.of(single["ranks"]) if kept & Kept.DISTINCT else None,
            Minima.of(single["leasts"]) if kept & Kept.MINIMA else None,
            Sketch.of(single["sketches"]) if kept & Kept.NORMS else None,
        )


@contextmanager
def load_statistics(setting: Setting) -> Iterator[Statistics]:
    """Load the statistics program. Raises LoadError.

    Attach at_xdp or at_tc inside the `with` block.
    """
    processors = possible_processors()
    with load(SOURCE, setting.constants(), setting.sizes(processors)) as loaded:
        yield Statistics(setting, loaded)
