"""Links and queues of a switch's ports: as it was started, and as they are changed at run time."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from minip4.engine.engine import Engine
from minip4.engine.shared import QueueConfig
from minip4.errors import Minip4Error
from minip4.runtime.switch import dataplane
from minip4.runtime.switch.options import LinkOptions, QueueOptions, SwitchOptions, link_fault

DEFAULT_DEPTH = 64  # packets, as in simple_switch


class PortSettings:
    """The settings, kept here because a new pipeline brings a new engine."""

    def __init__(self, options: SwitchOptions, ports: Iterable[int]) -> None:
        """For a switch with these ports, and the CPU port. Raises Minip4Error."""
        self.priority_queues = options.priority_queues
        self._ports = set(ports)
        if options.cpu_port is not None:
            self._ports.add(options.cpu_port)
        self._seeds = {link.port: link.seed for link in options.links}
        # Depths are kept with the queues.
        self._links = {link.port: replace(link, queue=None) for link in options.links
                       if not link.is_seed_alone}  # fmt: skip
        self._queues: dict[tuple[int, int], QueueOptions] = {}
        for link in options.links:
            if link.queue is not None:
                self._change_queue(QueueOptions(link.port, depth=link.queue))
        for queue in options.queues:
            self._change_queue(queue)

    def apply(self, engine: Engine) -> None:
        """Give an engine that is new all of the settings."""
        engine.library.engine_set_priorities(engine.handle, self.priority_queues)
        for link in self._links.values():
            dataplane.set_link(engine, link)
        for (port, priority), queue in self._queues.items():
            dataplane.set_queue(engine, port, priority, _config(queue))

    def apply_anew(self, engine: Engine, old: Engine) -> None:
        """Give them to the engine of another pipeline: links with traffic get dice of a next seed.

        The same dice from their beginning would lose what the links lost before, over again.
        """
        for port, link in self._links.items():
            if dataplane.port_counters(old, port)["link"]["sent_packets"]:
                self._links[port] = replace(link, seed=_next_seed(link.seed))
        self.apply(engine)

    def set_link(self, engine: Engine, port: int, changes: Mapping[str, Any]) -> None:
        """Change what is given of a port's link; a port without one gets it. Raises Minip4Error."""
        self._check_port(port)
        properties = {key: value for key, value in changes.items() if key != "queue"}
        none = LinkOptions(port, seed=self._seeds.get(port, 0))
        link = replace(self._links.get(port, none), **properties)
        fault = link_fault(link)
        if fault:
            raise Minip4Error(f"link of port {port}: {fault}")
        self._links[port] = link
        dataplane.set_link(engine, link)
        if "queue" in changes:
            self.set_queue(engine, QueueOptions(port, depth=changes["queue"]))

    def set_queue(self, engine: Engine, changes: QueueOptions) -> None:
        """Change what is given (not None) of one or of all queues of a port. Raises Minip4Error."""
        for queue in self._change_queue(changes):
            assert queue.priority is not None
            dataplane.set_queue(engine, queue.port, queue.priority, _config(queue))

    def _change_queue(self, changes: QueueOptions) -> list[QueueOptions]:
        port, priority = changes.port, changes.priority
        self._check_port(port)
        if priority is not None and priority >= self.priority_queues:
            raise Minip4Error(
                f"queue of port {port}: priority {priority}, but the switch has "
                f"{self.priority_queues} priority queues (--priority-queues)"
            )
        priorities = range(self.priority_queues) if priority is None else [priority]
        given = {k: v for k in ("depth", "bytes", "rate_pps", "rate_bps")
                 if (v := getattr(changes, k)) is not None}  # fmt: skip
        changed = []
        for number in priorities:
            old = self._queues.get((port, number), QueueOptions(port, number))
            self._queues[port, number] = replace(old, **given)
            changed.append(self._queues[port, number])
        return changed

    def _check_port(self, port: int) -> None:
        if port not in self._ports:
            known = ", ".join(map(str, sorted(self._ports))) or "none"
            raise Minip4Error(f"the switch has no port {port} (it has {known})")


def _next_seed(seed: int) -> int:
    return int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:8], "big") >> 1


def _config(queue: QueueOptions) -> QueueConfig:
    return QueueConfig(
        depth_packets=DEFAULT_DEPTH if queue.depth is None else queue.depth,
        depth_bytes=queue.bytes or 0,
        rate_pps=queue.rate_pps or 0,
        rate_bps=queue.rate_bps or 0,
    )
