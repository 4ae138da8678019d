"""Links and queues of a switch's ports: initial settings and changes at run time."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from minip4.errors import Minip4Error
from minip4.runtime.dataplane import Dataplane
from minip4.runtime.switch.options import LinkOptions, QueueOptions, SwitchOptions, link_fault

DEFAULT_DEPTH = 64  # packets, as in simple_switch


class PortSettings:
    """The settings of the ports.

    This class stores the settings, because each new pipeline has a new data plane.
    """

    def __init__(self, options: SwitchOptions, ports: Iterable[int]) -> None:
        """Initialize the settings of a switch with these ports. Raises Minip4Error."""
        self.priority_queues = options.priority_queues
        self._deflects_on_drop = options.deflect_on_drop
        self._cpu_port = options.cpu_port
        self._ports = set(ports)
        if options.cpu_port is not None:
            self._ports.add(options.cpu_port)
        self._seeds = {link.port: link.seed for link in options.links}
        # The depth of a queue is stored with the queue, not with the link.
        self._links = {link.port: replace(link, queue_packets=None) for link in options.links
                       if not link.is_seed_alone}  # fmt: skip
        self._queues: dict[tuple[int, int], QueueOptions] = {}
        for link in options.links:
            if link.queue_packets is not None:
                self._change_queue(QueueOptions(link.port, depth=link.queue_packets))
        for queue in options.queues:
            self._change_queue(queue)

    def apply(self, dataplane: Dataplane) -> None:
        """Apply all settings to a new data plane."""
        dataplane.set_priorities(self.priority_queues)
        dataplane.deflect_on_drop(is_on=self._deflects_on_drop)
        if self._cpu_port is not None:
            dataplane.set_cpu_port(self._cpu_port)
        for link in self._links.values():
            set_link(dataplane, link)
        for queue in self._queues.values():
            _set_queue(dataplane, queue)

    def reapply(self, dataplane: Dataplane, old: Dataplane) -> None:
        """Apply the settings to the data plane of another pipeline.

        Links that carried traffic get the next seed, because with the same seed, they would lose
        the same frames again.
        """
        for port, link in self._links.items():
            if old.port_counters(port)["link"]["sent_packets"]:
                self._links[port] = replace(link, seed=_next_seed(link.seed))
        self.apply(dataplane)

    def set_link(self, dataplane: Dataplane, port: int, changes: Mapping[str, Any]) -> None:
        """Change the given settings of a port's link, or add a link. Raises Minip4Error."""
        self._check_port(port)
        properties = {key: value for key, value in changes.items() if key != "queue_packets"}
        none = LinkOptions(port, seed=self._seeds.get(port, 0))
        link = replace(self._links.get(port, none), **properties)
        fault = link_fault(link)
        if fault:
            raise Minip4Error(f"link of port {port}: {fault}")
        self._links[port] = link
        set_link(dataplane, link)
        if "queue_packets" in changes:
            self.set_queue(dataplane, QueueOptions(port, depth=changes["queue_packets"]))

    def set_queue(self, dataplane: Dataplane, changes: QueueOptions) -> None:
        """Change those settings of a port's queues that are not None. Raises Minip4Error."""
        for queue in self._change_queue(changes):
            _set_queue(dataplane, queue)

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
            raise Minip4Error(f"the switch has no port {port} (its ports: {known})")


def _next_seed(seed: int) -> int:
    return int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:8], "big") >> 1


def set_link(dataplane: Dataplane, link: LinkOptions) -> None:
    """Add a link to a port.

    `queue_packets` is the depth of the port's queue.
    """
    dataplane.set_link(
        link.port,
        rate_bps=link.rate_bps,
        delay_ns=round(link.delay_us * 1000),
        jitter_ns=round(link.jitter_us * 1000),
        loss=link.loss_probability,
        reorder=link.reorder_probability,
        reorder_ns=round(link.reorder_us * 1000),
        seed=link.seed,
    )


def _set_queue(dataplane: Dataplane, queue: QueueOptions) -> None:
    assert queue.priority is not None
    dataplane.set_queue(
        queue.port,
        queue.priority,
        depth_packets=DEFAULT_DEPTH if queue.depth is None else queue.depth,
        depth_bytes=queue.bytes or 0,
        rate_pps=queue.rate_pps or 0,
        rate_bps=queue.rate_bps or 0,
    )
