"""Emulated NIC with a receive ring, for a flood at a given rate and for other frames.

A thread polls the ring without sleeping, as the kernel does under load. card.bpf.c
accepts live frames that are due. If the ring is full, all arriving frames are lost, whether they
belong to the flood or not.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from ebpf.loader import Program, Sent, attach_tc, chain, live, load
from experiments.shared.xdp.frames import flows
from experiments.shared.xdp.veth_setup import OUT, VethPair

SOURCE = "ebpf/datapath/card.bpf.c"
RING = 4096  # size of the ring in frames
BATCH = 16  # flood frames between two other frames; with 64, other frames would wait for 40 us
# frames per call of the kernel, including frames that are not due; a call takes 20 us
CHUNK = 50_000


class Flood(NamedTuple):
    """Numbers of flood frames that arrived, and of frames (any) that were lost at a full ring."""

    arrived: int = 0
    lost: int = 0
    others_lost: int = 0


class EmulatedNic:
    """Emulated NIC of one host, connected to the device of another host."""

    def __init__(self, stack: ExitStack, sender: VethPair, device: str) -> None:
        """Load the programs; `device` is the device of the sender. Raises LoadError."""
        with sender.entered():
            constants = {"ring": RING, "nowhere": socket.if_nametoindex(OUT)}
            self._whole = stack.enter_context(load(SOURCE, constants))
            stack.enter_context(attach_tc(self._whole.programs["is_sent"], device, "egress"))
        self._state = self._whole.maps[".bss"].mapped()[0]

    @contextmanager
    def polled(self, program: Program, device: str) -> Iterator[Callable[[int, float], Flood]]:
        """Yield a function that floods a device with a program: flood(packets/s, seconds).

        The function runs in this thread, which is in the namespace of the device. Raises LoadError.
        """
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
