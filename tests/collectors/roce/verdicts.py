"""Valid and invalid RoCE packets, and the required reaction of a responder.

Tests use the same list for all responders. The verdicts are those of the InfiniBand Architecture
Specification (volume 1, chapter 9, and its annexes A16 and A17). Where the specification is
ambiguous, the verdicts are those of Linux's rdma_rxe. A case is a queue pair and a few packets.
`reason` is the counter of the software endpoint for a rejected packet; other responders have none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from requester import Answer, Request

from collectors.roce.endpoint import WRITE_AND_ATOMIC, Access, Completion, Transport

RC, UC = Transport.RC, Transport.UC
LENGTH = 8192  # bytes of the region
PATH_MTU = 1024
ATOMICS = 16  # number of stored responses per queue pair (max_dest_rd_atomic)
BEFORE = bytes((7 * i + 3) & 0xFF for i in range(LENGTH))  # initial content of the region
ALL = ("v1", "v2", "v2_ipv6")
V2 = ("v2",)


class Step(NamedTuple):
    """A packet, the expected response, and the reason if the packet is rejected."""

    request: Request
    answer: Answer | None
    reason: str = ""


@dataclass(frozen=True)
class Case:
    """Packets of a queue pair, in order."""

    name: str
    steps: tuple[Step, ...]
    memory: Mapping[int, bytes] = field(default_factory=dict)  # changed content, by offset
    completions: tuple[tuple[int, int], ...] = ()  # immediate value and length
    transport: Transport = RC
    psn: int = 1000
    access: Access = WRITE_AND_ATOMIC  # rights of the queue pair
    region_access: Access = WRITE_AND_ATOMIC
    receives: int = 4  # maximum number of waiting completions
    versions: tuple[str, ...] = ALL
    rxe: str = ""  # why rdma_rxe differs, if it does

    def after(self) -> bytes:
        """Return the final content of the region."""
        memory = bytearray(BEFORE)
        for at, changed in self.memory.items():
            memory[at : at + len(changed)] = changed
        return bytes(memory)

    def completed(self, qpn: int) -> list[Completion]:
        """Return the completions, in order."""
        return [Completion(qpn, *each) for each in self.completions]


def alike(answers: list[Answer], expected: Answer | None) -> bool:
    """Return whether responses are as expected; RNR timers and credits may have any value."""
    if expected is None or len(answers) != 1:
        return not answers and expected is None
    found = answers[0]
    is_free = 0x1F if expected.syndrome >> 5 == 1 else 0
    return (found.psn, found.before, found.syndrome & ~is_free) == (
        expected.psn, expected.before, expected.syndrome & ~is_free
    ) and expected.msn in (None, found.msn)  # fmt: skip


def ack(psn: int, msn: int | None = None) -> Answer:
    """Return a plain ACK."""
    return Answer(psn, msn=msn)


def nak(psn: int, syndrome: int, msn: int | None = None) -> Answer:
    """Return a NAK."""
    return Answer(psn, syndrome, msn)


def refused(name: str, request: Request, syndrome: int, reason: str, **more: object) -> Case:
    """Return a case with a packet that ends the connection, and another packet that is ignored."""
    steps = (
        Step(request, nak(0, syndrome, msn=0), reason),
        Step(request, None, "BROKEN"),
    )
    return Case(name, steps, **more)  # type: ignore[arg-type]


def ignored(name: str, request: Request, reason: str, good: Step, memory: Mapping[int, bytes],
            **more: object) -> Case:  # fmt: skip
    """Return a case with an ignored packet, and a valid one that is processed normally."""
    return Case(name, (Step(request, None, reason), good), memory, **more)  # type: ignore[arg-type]
