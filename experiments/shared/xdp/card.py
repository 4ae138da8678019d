"""What stands for a card: a flood comes through its ring at a pace, and others' frames with it.

A thread polls it, as the kernel does under load, and never sleeps: live frames that are due arrive
(card.bpf.c). A ring that is full loses who comes, of the flood or not.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from ebpf.loader import Program, Sent, attach_tc, chain, live, load
from experiments.shared.xdp.frames import flows
from experiments.shared.xdp.veth_setup import OUT, VethPair

SOURCE = "ebpf/datapath/card.bpf.c"
RING = 4096  # frames
BATCH = 16  # frames that arrive before others' have their turn; with 64 these wait for 40 us
CHUNK = 50_000  # frames that the kernel is asked for at once, due or not: each costs it 20 us


class Flood(NamedTuple):
    """Frames that arrived, those that found the ring full, and others' that did."""

    arrived: int = 0
    lost: int = 0
    others_lost: int = 0


class Card:
    """A card of one host, to which another one's device leads."""

    def __init__(self, stack: ExitStack, sender: VethPair, device: str) -> None:
        """`device` is the sender's. Raises LoadError."""
        with sender.entered():
            constants = {"ring": RING, "nowhere": socket.if_nametoindex(OUT)}
            self._whole = stack.enter_context(load(SOURCE, constants))
            stack.enter_context(attach_tc(self._whole.programs["is_sent"], device, "egress"))
        self._state = self._whole.maps[".bss"].mapped()[0]

    @contextmanager
    def polled(self, program: Program, device: str) -> Iterator[Callable[[int, float], Flood]]:
        """A function that has a flood arrive at a device, for a program: so many packets a second,
        for so long. In this thread, which is in the device's namespace. Raises LoadError."""
        arrives = self._whole.programs["arrives"]
        chain.enter(arrives, program)
        try:
            with live(arrives, flows(), ingress=device, held_at=OUT, batch=BATCH) as arrive:
                yield lambda pps, seconds: self._flood(arrive, pps, seconds)
        finally:
            chain.leave(arrives)

    def _flood(self, arrive: Callable[[int], Sent], pps: int, seconds: float) -> Flood:
        state = self._state
        for name in ("began_ns", "arrived", "lost", "others_lost", "has_ended"):
            state[name] = 0
        state["interval_ps"] = state["due_ps"] = 10**12 // pps
        state["length_ns"] = int(seconds * 1e9)
        while not state["has_ended"]:
            arrive(CHUNK)
        return Flood(*(int(state[name]) for name in Flood._fields))
