"""AM-PM on the page of --watch: loss per link and delay per flow, in each block."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from controllers.ampm.collector import BlockReport
from controllers.ampm.records import Point, mean_delay, pulse_delay
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Method
from experiments.shared.ampm.truth import Truth
from telemark.traffic.flows import Flow
from telemark.watch.display import Display, Series


class LiveBlocks:
    """Shows blocks of watched flows, and later their ground truth."""

    def __init__(
        self, display: Display, watched: Mapping[Flow, Method], path: Sequence[str],
        schedule: Schedule,
    ) -> None:  # fmt: skip
        self._display = display
        self._watched = watched
        self._schedule = schedule
        self._links = [(Point(a, "departures"), Point(b, "arrivals")) for a, b in pairwise(path)]
        self._ends = Point(path[0], "arrivals"), Point(path[-1], "departures")

    def show(self, report: BlockReport) -> None:
        """Show loss and delay of one block."""
        end_ns = self._end_ns(report.block)
        for flow, method in self._watched.items():
            records = report.records[flow.id]
            for link in self._links if _counts_blocks(method) else []:
                first, second = (records[point] for point in link)
                if first is not None and second is not None:
                    lost = first.packets - second.packets
                    self._display.add(_loss(flow, link), [(end_ns, lost)])
            first, second = (records[point] for point in self._ends)
            if first is not None and second is not None:
                found = (mean_delay if _counts_blocks(method) else pulse_delay)(first, second)
                if found.delay_us is not None:
                    self._display.add(_delay(flow, method), [(end_ns, found.delay_us)])

    def show_truth(self, truths: Mapping[int, Truth], blocks: range) -> None:
        """Show the ground truth of blocks, which captures contain."""
        times_ns = [self._end_ns(block) for block in blocks]
        for flow, method in self._watched.items():
            truth = truths[flow.id]
            for link in self._links if _counts_blocks(method) else []:
                lost = truth.lost(*link, blocks).tolist()
                self._display.add(_loss(flow, link), [], zip(times_ns, lost, strict=True))
            passed = truth.passed(self._ends[0]) & truth.passed(self._ends[1])
            if not _counts_blocks(method):
                passed &= truth.pulse
            delays_us = (truth.time_ns[self._ends[1]] - truth.time_ns[self._ends[0]]) / 1000
            delays = [
                (self._end_ns(block), float(np.mean(delays_us[passed & (truth.block == block)])))
                for block in blocks if np.any(passed & (truth.block == block))
            ]  # fmt: skip
            self._display.add(_delay(flow, method), [], delays)

    def _end_ns(self, block: int) -> int:
        return 1000 * self._schedule.start_us(block + 1)


def _counts_blocks(method: Method) -> bool:
    """Return False if only pulses are marked: then a block has no exact counts."""
    return method != Method.PULSE


def _loss(flow: Flow, link: tuple[Point, Point]) -> Series:
    where = f"{link[0].switch} to {link[1].switch}, flow {flow.id}"
    return Series("AM-PM", "loss per block", where, "packets")


def _delay(flow: Flow, method: Method) -> Series:
    quantity = "mean delay per block" if _counts_blocks(method) else "delay of a pulse"
    return Series("AM-PM", quantity, f"flow {flow.id}", "µs")
