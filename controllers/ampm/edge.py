"""Edge program on the host at one end of a flow's path. A collector uses it like a switch.

The edge program has only one measuring point, so its arrival record and its departure record are
equal.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controllers.ampm.records import SAMPLES, Record
from controllers.ampm.schedule import Schedule
from controllers.ampm.session import COUNTERS, Cells, ClockError, Reading
from controllers.ampm.watch import Bounds, Watch
from controllers.readout import RESOLUTION_US, Readout
from ebpf.edge.ampm import MarkingEdge
from ebpf.edge.watch_list import MAX_FLOWS, Key
from telemark.errors import TestbedError
from telemark.session.clock import Clock

FIELDS = {
    Record.BLOCK: ("block_us", "packets", "sum_us", "first_us"),
    Record.PULSE: ("block_us", "pulses", "pulse_us", "packets"),
    Record.SAMPLE: ("block_us", "samples", "sample_us", "hash"),
}
"""Field names of each structure in ebpf/edge/records.h, in the order of a switch's registers."""


@dataclass(frozen=True)
class EdgeHop:
    """Edge program on a host. It is the first or the last measuring point of paths.

    At the start of a path, it marks the packets that leave the host. At the end of a path, it
    removes the marks from the packets that arrive. For `sampling_shift`, see
    watch.schedule_entries().
    """

    name: str
    edge: MarkingEdge
    sampling_shift: int = 6

    def session(
        self, schedule: Schedule, watches: Sequence[Watch], cells: tuple[Cells, Cells]
    ) -> "EdgeSession":
        """Open a session. Raises TestbedError for flows that an edge program does not support."""
        return EdgeSession(self, schedule, watches, cells)


class EdgeSession:
    """Session with an edge program: the watched flows, and the cells of each colour."""

    clock_error_us = 0.0  # the switches use the same clock, CLOCK_MONOTONIC
    ahead_us: tuple[float, float] | None = None
    read_bytes = 0  # the maps belong to this process, so no messages are needed

    def __init__(
        self, hop: EdgeHop, schedule: Schedule, watches: Sequence[Watch],
        cells: tuple[Cells, Cells],
    ) -> None:  # fmt: skip
        self.name = hop.name
        self._hop, self._edge, self._schedule, self._cells = hop, hop.edge, schedule, cells
        self._observed = dict(_entry(hop, watch) for watch in watches if not watch.is_first)
        self._marked = dict(_entry(hop, watch) for watch in watches if watch.is_first)
        self._marks = False

    async def open(self) -> None:
        """Do nothing, because the eBPF maps belong to this process."""

    async def close(self) -> None:
        """Do nothing, because the owner of the edge program closes it."""

    async def fill(self, *, marking: bool) -> None:
        """Set the schedule and the watch list.

        With `marking`, also set the flows that this edge program marks.
        """
        self._marks |= marking
        self._edge.set_schedule(0, self._schedule.block_shift, self._hop.sampling_shift)
        self._edge.watch(self._observed | (self._marked if self._marks else {}))

    async def set_clock(self, clock: Clock, bounds: Bounds | None) -> None:
        """Check the error of the clock against the bounds (None: no bounds). Raises ClockError."""
        if bounds is not None:
            await self.check_clock(clock, bounds)

    async def check_clock(self, clock: Clock, bounds: Bounds) -> None:
        """Raise ClockError if the error of the host's clock exceeds the bound."""
        before_ns, here_ns, after_ns = clock.now_ns(), time.monotonic_ns(), clock.now_ns()
        self.ahead_us = (here_ns - after_ns) / 1000, (here_ns - before_ns) / 1000
        found_us = max(self.ahead_us[0], -self.ahead_us[1])
        if found_us > bounds.clock_error_us + RESOLUTION_US:
            raise ClockError(
                f"host's edge {self.name}: its clock error is at least {found_us:.0f} us, which "
                f"exceeds the bound of {bounds.clock_error_us:.0f} us"
            )

    async def read(self, colour: int) -> Reading:
        """Read the records of one colour."""
        reading = Reading({}, {})
        cells = self._cells[colour]
        held = {cell: self._edge.read(cell // 2)["cells"][colour] for cell in cells.counters}
        for cell, values in held.items():
            for name in COUNTERS:
                reading.counts[name, cell] = int(values["packets"]), int(values["bytes"])
        for record, index in cells.places:
            cell, sample = divmod(index, SAMPLES) if record is Record.SAMPLE else (index, 0)
            reading.registers[record, index] = _readout(held[cell], record, sample)
        return reading


def _readout(cell: Any, record: Record, sample: int) -> Readout:
    """Return a record in the format of a switch's registers, equal for arrival and departure."""
    held = cell["samples"][sample] if record is Record.SAMPLE else cell[record.name.lower()]
    a, b, c, d = (int(held[name]) for name in FIELDS[record])
    return Readout(0, (a, b, c, d), (a, b, c, d))  # time 0 means that no clock was read


def _entry(hop: EdgeHop, watch: Watch) -> tuple[Key, Mapping[str, int]]:
    flow = watch.flow
    problem = ""
    if not watch.is_first and not watch.is_last:
        problem = "must be the first or the last point of a path"
    elif flow.tunnel is not None:
        problem = (
            "does not support tunnels; let switches mark this flow, or let the host insert "
            "the option"
        )
    elif flow.flow_mon_id is None and flow.networks[0].version == 6:
        problem = "marks IPv6 packets only in the AltMark option; set flow_mon_id"
    elif not 0 <= flow.number < MAX_FLOWS:
        problem = f"supports only flows 0 to {MAX_FLOWS - 1}"
    if problem:
        raise TestbedError(f"flow {flow.number}: host's edge {hop.name} {problem}")
    key = Key(*flow.networks, flow.protocol, flow.src_port, flow.dst_port, flow.flow_mon_id)
    return key, {
        "flow": flow.number, "priority": flow.priority, "methods": int(flow.methods),
        "dscp": flow.dscp, "is_first": int(watch.is_first),
    }  # fmt: skip
