"""Send patterns of flows, and sets of flows whose sizes are heavy-tailed.

Each flow has its own seeded pseudo-random generator. So the send times of a flow are the same in
real and virtual time, and do not depend on other flows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemark.errors import TestbedError
from telemark.traffic.flows import Flow
from telemark.traffic.tcp import TcpFlow


@dataclass(frozen=True)
class Poisson:
    """Poisson process: the gaps are exponentially distributed, with mean 1 / rate_pps."""

    def due_ns(self, flow: Flow, rng: np.random.Generator) -> NDArray[np.uint64]:
        """Return the send times relative to the flow's start, ascending; shape (count,)."""
        return _rounded(np.cumsum(rng.exponential(1e9 / flow.rate_pps, flow.count)))


@dataclass(frozen=True)
class OnOff:
    """Bursts with rate rate_pps, which alternate with silences.

    Durations of bursts and of silences are exponentially distributed, with the means `on_s` and
    `off_s`.
    """

    on_s: float
    off_s: float

    def __post_init__(self) -> None:
        if not (self.on_s > 0 and self.off_s >= 0):
            raise TestbedError("OnOff: expected on_s > 0 and off_s >= 0")

    def due_ns(self, flow: Flow, rng: np.random.Generator) -> NDArray[np.uint64]:
        """Return the send times relative to the flow's start, ascending; shape (count,)."""
        # Datagrams have equal gaps on a clock that stops during silences.
        own_ns = np.arange(flow.count) * (1e9 / flow.rate_pps)
        switched_off_ns = np.zeros(0)
        while not len(switched_off_ns) or switched_off_ns[-1] < own_ns[-1]:
            more = rng.exponential(1e9 * self.on_s, 1024)
            start_ns = switched_off_ns[-1] if len(switched_off_ns) else 0.0
            switched_off_ns = np.append(switched_off_ns, start_ns + np.cumsum(more))
        silences_ns = rng.exponential(1e9 * self.off_s, len(switched_off_ns))
        before = np.searchsorted(switched_off_ns, own_ns, side="left")
        passed_ns = np.concatenate([[0.0], np.cumsum(silences_ns)])
        return _rounded(own_ns + passed_ns[before])


def heavy_tailed(
    pairs: Sequence[tuple[str, str]], *, flows_per_s: float, mean_count: float, rate_pps: float,
    seed: int, shape: float = 1.2, size: int = 64, first_id: int = 0,
) -> list[Flow]:  # fmt: skip
    """Create one flow per pair (source, destination). A few large flows have most of the load.

    Flows arrive as a Poisson process. The number of datagrams of a flow is Pareto distributed and
    at least 1. The distribution has the given shape (below 2, the variance is infinite) and
    approximately the given mean.
    """
    if not mean_count >= 1:
        raise TestbedError(f"heavy_tailed: mean_count {mean_count}: expected at least 1")
    after_s, counts = _heavy_tailed(len(pairs), flows_per_s, mean_count, shape, seed)
    return [
        Flow(first_id + i, *pair, rate_pps, int(counts[i]), size, after_s=float(after_s[i]))
        for i, pair in enumerate(pairs)
    ]


def heavy_tailed_tcp(
    pairs: Sequence[tuple[str, str]], *, flows_per_s: float, mean_bytes: float, seed: int,
    shape: float = 1.2, first_id: int = 0, congestion: str = "cubic", ecn: bool = False,
) -> list[TcpFlow]:  # fmt: skip
    """Create one TCP flow per pair, with heavy-tailed sizes; see heavy_tailed()."""
    after_s, sizes = _heavy_tailed(len(pairs), flows_per_s, mean_bytes, shape, seed)
    return [
        TcpFlow(first_id + i, *pair, size_bytes=int(sizes[i]), after_s=float(after_s[i]),
                congestion=congestion, ecn=ecn)
        for i, pair in enumerate(pairs)
    ]  # fmt: skip


def _heavy_tailed(
    count: int, flows_per_s: float, mean: float, shape: float, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the start times (s) and the integer sizes of flows. Raises TestbedError."""
    if not shape > 1:
        raise TestbedError(f"heavy_tailed: shape {shape}: expected above 1 (finite mean)")
    if not flows_per_s > 0:
        raise TestbedError(f"heavy_tailed: flows_per_s {flows_per_s}: expected above 0")
    # Times and sizes come from separate generators. So the first flows do not change if a flow is
    # added.
    times, sizes = (np.random.default_rng([seed, which]) for which in range(2))
    after_s = np.cumsum(times.exponential(1 / flows_per_s, count))
    smallest = mean * (shape - 1) / shape
    return after_s, np.ceil(smallest * (1 + sizes.pareto(shape, count)))


def _rounded(times_ns: NDArray[np.float64]) -> NDArray[np.uint64]:
    return np.rint(times_ns).astype(np.uint64)
