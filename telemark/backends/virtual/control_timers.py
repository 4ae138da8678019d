"""When switches in virtual time are asked for what is due to their controllers."""

from collections.abc import Iterable

from minip4.runtime.service.stream import IDLE_TURNS, POLL_S
from minip4.runtime.virtual.channel import ControlPlane
from minip4.runtime.virtual.switch import VirtualSwitch

POLL_NS = round(POLL_S * 1e9)


class ControlTimers:
    """When switches are to be asked for digest lists that are due, and for idle entries.

    `minip4 switch` asks every POLL_S; here, only those are asked that a controller wants it of.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._seen_calls = -1
        self._polled: list[VirtualSwitch] = []
        self._turn = 0

    def next_ns(self, switches: Iterable[VirtualSwitch], now_ns: int) -> int | None:
        """When to poll next; None: nobody is to be polled."""
        if self._plane.calls != self._seen_calls:  # else nobody wants anything new
            self._seen_calls = self._plane.calls
            self._polled = [switch for switch in switches if switch.wants_control_timers]
        return (now_ns // POLL_NS + 1) * POLL_NS if self._polled else None

    def poll(self) -> None:
        self._turn += 1
        for switch in self._polled:
            switch.messages.collect()
            if self._turn % IDLE_TURNS == 0:
                switch.messages.collect_idle()
