"""Timers of the control plane of switches in virtual time: digest lists and idle timeouts."""

from collections.abc import Iterable

from minip4.runtime.service.stream import IDLE_TURNS, POLL_S
from minip4.runtime.virtual.channel import ControlPlane
from minip4.runtime.virtual.switch import VirtualSwitch

POLL_NS = round(POLL_S * 1e9)


class ControlTimers:
    """Schedule of polls of switches for digest lists and idle table entries.

    `minip4 switch` polls every POLL_S; here, only switches whose controller needs it are polled.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._seen_calls = -1
        self._polled: list[VirtualSwitch] = []
        self._turn = 0

    def next_ns(self, switches: Iterable[VirtualSwitch], now_ns: int) -> int | None:
        """Return the time of the next poll; None if no switch needs one."""
        if self._plane.calls != self._seen_calls:  # controllers may have changed their needs
            self._seen_calls = self._plane.calls
            self._polled = [switch for switch in switches if switch.wants_polls]
        return (now_ns // POLL_NS + 1) * POLL_NS if self._polled else None

    def poll(self) -> None:
        """Poll the switches."""
        self._turn += 1
        for switch in self._polled:
            switch.messages.collect()
            if self._turn % IDLE_TURNS == 0:
                switch.messages.collect_idle()
