"""Queues of egress ports: what P4Runtime has no words for is asked of the switch itself."""

from collections.abc import Sequence
from typing import Any

from importers.switch_cli.commands import Answer, command


class Queues:
    """The egress queues of one switch with these ports (see telemark.network.Network.switch)."""

    def __init__(self, node: Any, ports: Sequence[int]) -> None:
        self._node = node
        self._ports = ports

    @command("set_queue_rate")
    async def set_rate(
        self, rate_pps: int, port: int | None = None, priority: int | None = None
    ) -> Answer:
        """Packets of a second that leave one queue, those of a port, or all."""
        return self._set(port, priority, rate_pps=rate_pps)

    @command("set_queue_depth")
    async def set_depth(
        self, packets: int, port: int | None = None, priority: int | None = None
    ) -> Answer:
        """Packets that one queue holds, those of a port, or all."""
        return self._set(port, priority, depth=packets)

    def _set(self, port: int | None, priority: int | None, **changes: int) -> Answer:
        if priority is not None:
            changes["priority"] = priority
        for each in self._ports if port is None else [port]:
            self._node.set_queue(each, **changes)
        return []
