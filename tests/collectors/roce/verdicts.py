"""RoCE packets, good and bad, and what a responder has to make of them.

One list for every responder. The verdicts are those of the InfiniBand Architecture Specification
(volume 1, chapter 9, and its annexes A16 and A17); where it leaves something open, those of Linux's
rdma_rxe. A case is a queue pair and a few packets; `reason` is what the software endpoint counts
for one that is refused, and means nothing to others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from requester import Answer, Request

from collectors.roce.endpoint import WRITE_AND_ATOMIC, Access, Completion, Transport

RC, UC = Transport.RC, Transport.UC
LENGTH = 8192  # bytes of the region
PATH_MTU = 1024
ATOMICS = 16  # that a queue pair keeps the answers of (max_dest_rd_atomic)
BEFORE = bytes((7 * i + 3) & 0xFF for i in range(LENGTH))  # what the region holds at first
ALL = ("v1", "v2", "v2_ipv6")
V2 = ("v2",)


class Step(NamedTuple):
    """A packet, what is answered to it, and the reason for which it is refused."""

    request: Request
    answer: Answer | None
    reason: str = ""


@dataclass(frozen=True)
class Case:
    """What a queue pair does, from its first packet on."""

    name: str
    steps: tuple[Step, ...]
    memory: Mapping[int, bytes] = field(default_factory=dict)  # what changes, by offset
    completions: tuple[tuple[int, int], ...] = ()  # immediate value and length
    transport: Transport = RC
    psn: int = 1000
    access: Access = WRITE_AND_ATOMIC  # of the queue pair
    region_access: Access = WRITE_AND_ATOMIC
    receives: int = 4  # completions that may wait
    versions: tuple[str, ...] = ALL
    rxe: str = ""  # why rdma_rxe does something else, where it does

    def after(self) -> bytes:
        """What the region holds in the end."""
        memory = bytearray(BEFORE)
        for at, changed in self.memory.items():
            memory[at : at + len(changed)] = changed
        return bytes(memory)

    def completed(self, qpn: int) -> list[Completion]:
        """The completions, in order."""
        return [Completion(qpn, *each) for each in self.completions]


def alike(answers: list[Answer], expected: Answer | None) -> bool:
    """The answers, as expected; how long an RNR NAK asks to wait, and credits, are free."""
    if expected is None or len(answers) != 1:
        return not answers and expected is None
    found = answers[0]
    is_free = 0x1F if expected.syndrome >> 5 == 1 else 0
    return (found.psn, found.before, found.syndrome & ~is_free) == (
        expected.psn, expected.before, expected.syndrome & ~is_free
    ) and expected.msn in (None, found.msn)  # fmt: skip


def ack(psn: int, msn: int | None = None) -> Answer:
    """A plain ACK."""
    return Answer(psn, msn=msn)


def nak(psn: int, syndrome: int, msn: int | None = None) -> Answer:
    """A NAK."""
    return Answer(psn, syndrome, msn)


def refused(name: str, request: Request, syndrome: int, reason: str, **more: object) -> Case:
    """A single packet that ends the connection, and another one that is not heard any more."""
    steps = (
        Step(request, nak(0, syndrome, msn=0), reason),
        Step(request, None, "BROKEN"),
    )
    return Case(name, steps, **more)  # type: ignore[arg-type]


def ignored(name: str, request: Request, reason: str, good: Step, memory: Mapping[int, bytes],
            **more: object) -> Case:  # fmt: skip
    """A packet of which nobody hears, and a good one after it, as if it had not been."""
    return Case(name, (Step(request, None, reason), good), memory, **more)  # type: ignore[arg-type]
