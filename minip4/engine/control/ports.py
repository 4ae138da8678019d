"""Ports: links, queues, and the counters of packets and drops."""

from __future__ import annotations

import ctypes
from typing import Any

from minip4.engine.control.core import Core
from minip4.engine.errors import EngineError
from minip4.engine.shared import (
    DROP_REASONS,
    MAX_PORTS,
    EngineCounters,
    PortCounters,
    QueueConfig,
    QueueState,
)
from minip4.wire.shared import LinkConfig


class PortControl(Core):
    def set_port(self, port: int, is_up: bool) -> None:
        """Set a port up or down.

        Frames sent to a port that is down are dropped with reason no_port.
        """
        with self.locked():
            self.library.engine_set_port(self.handle, port, is_up)

    def set_link(
        self, port: int, *, rate_bps: int = 0, delay_ns: int = 0, jitter_ns: int = 0,
        loss: float = 0.0, reorder: float = 0.0, reorder_ns: int = 0, seed: int = 0,
    ) -> None:  # fmt: skip
        """Set or replace the link of a port, see link.h."""
        config = LinkConfig(rate_bps, delay_ns, jitter_ns, loss, reorder, reorder_ns, seed)
        with self.locked():
            # first process the work that was due with the old link
            self.library.engine_catch_up(self.handle, self.clock())
            if not self.library.engine_set_link(self.handle, port, ctypes.byref(config)):
                raise EngineError(f"link of port {port}: out of memory")

    def set_priorities(self, count: int) -> None:
        """Set the number of queues per port."""
        self.library.engine_set_priorities(self.handle, count)

    def deflect_on_drop(self, *, is_on: bool) -> None:
        """Set whether packets dropped by a full queue are processed in egress.

        Egress may clone them.
        """
        self.library.engine_deflect_on_drop(self.handle, is_on)

    def set_cpu_port(self, port: int) -> None:
        """Set the port to which TNA programs send copies with copy_to_cpu (at first, 64)."""
        self.library.engine_set_cpu_port(self.handle, port)

    def set_queue(
        self, port: int, priority: int, *, depth_packets: int, depth_bytes: int = 0,
        rate_pps: int = 0, rate_bps: int = 0,
    ) -> None:  # fmt: skip
        """Set the depth and rates of one queue of a port.

        A value of 0 means no limit, except for the depth in packets.
        """
        config = QueueConfig(depth_packets, depth_bytes, rate_pps, rate_bps)
        with self.locked():
            self.library.engine_set_queue(
                self.handle, port, priority, ctypes.byref(config), self.clock()
            )

    def set_clock(self, offset_us: int, drift_ppb: int, since_ns: int) -> None:
        """Set offset and drift of the program's timestamps relative to the driver's clock."""
        self.library.engine_set_clock(self.handle, offset_us, drift_ppb, since_ns)

    def queues(self, port: int, count: int) -> dict[str, dict[str, int]]:
        """Return the current length and the drops of each queue of a port, by priority."""
        result = {}
        state = QueueState()
        with self.locked():
            for priority in range(count):
                self.library.engine_queue_state(self.handle, port, priority, ctypes.byref(state))
                result[str(priority)] = {
                    "packets": state.packets, "bytes": state.bytes, "drops": state.drops
                }  # fmt: skip
        return result

    def drops(self) -> dict[str, dict[str, int]]:
        """Return the number of drops by port and reason; MAX_PORTS stands for invalid port numbers.

        Ports without drops are omitted.
        """
        result: dict[str, dict[str, int]] = {}
        if not any(n for name, n in self.counters().items() if name.endswith("_drops")):
            # usually there are no drops; the early return matters in a network of a thousand
            # switches
            return result
        counts = (ctypes.c_uint64 * len(DROP_REASONS))()
        with self.locked():
            for port in range(MAX_PORTS + 1):
                self.library.engine_drops(self.handle, port, counts)
                if any(counts):
                    result[str(port)] = dict(zip(DROP_REASONS, counts, strict=True))
        return result

    def counters(self) -> dict[str, Any]:
        """Return the fields of struct engine_counters."""
        counters = EngineCounters()
        with self.locked():
            self.library.engine_counters(self.handle, ctypes.byref(counters))
        return _fields(counters)

    def port_counters(self, port: int) -> dict[str, Any]:
        """Return the fields of struct engine_port_counters; "link" is a nested dict."""
        counters = PortCounters()
        with self.locked():
            self.library.engine_port_counters(self.handle, port, ctypes.byref(counters))
        return _fields(counters)


def _fields(structure: ctypes.Structure) -> dict[str, Any]:
    values = ((field[0], getattr(structure, field[0])) for field in structure._fields_)
    return {k: _fields(v) if isinstance(v, ctypes.Structure) else v for k, v in values}
