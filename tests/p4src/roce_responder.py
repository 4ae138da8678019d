"""A queue pair of a collector for RoCEv2: the peer of a switch, written from the specification.

InfiniBand Architecture Specification 1, 9.7.5 and 9.9.3: requests in sequence are executed, and
duplicates are acknowledged again. A NAK follows the first request with a later PSN.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from roce_path import FLOW, answer

from collectors.roce.packets import UC, Nak, Op, icrc

HALF = 1 << 23
BTH, PSN, BEHIND_BTH = 42, 51, 54  # offsets in a frame
ACK = answer(0)


def answered(psn: int, syndrome: int = 0x1F) -> bytes:
    """Return the same response as roce_path.answer(), but faster."""
    frame = bytearray(ACK)
    frame[PSN:BEHIND_BTH] = psn.to_bytes(3, "big")
    frame[BEHIND_BTH] = syndrome
    frame[-4:] = icrc(bytes(frame[14:-4]))
    return bytes(frame)


@dataclass
class Responder:
    """The queue pair.

    `written` are the addresses of its writes, in order. `data` are the records.
    """

    psn: int = 0
    written: list[int] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    not_ready: int = 0  # number of further requests that find no receive request
    is_naked: bool = False

    def take(self, frame: bytes) -> Iterator[bytes]:
        """Process a request, and yield its responses."""
        assert frame[-4:] == icrc(frame[14:-4])
        psn, ack_request = int.from_bytes(frame[PSN:BEHIND_BTH], "big"), frame[PSN - 1] >> 7
        ahead = (psn - self.psn) % (2 * HALF)
        if frame[BTH] & UC:
            self._carry_out(frame)
        elif ahead >= HALF:
            yield answered((self.psn - 1) % (2 * HALF))
        elif ahead:
            if not self.is_naked:
                self.is_naked = True
                yield answered(self.psn, Nak.SEQUENCE)
        elif self.not_ready:
            self.not_ready -= 1
            yield answered(psn, Nak.RNR)
        else:
            self.is_naked = False
            self._carry_out(frame)
            self.psn = (self.psn + 1) % (2 * HALF)
            if ack_request:
                yield answered(psn)

    def _carry_out(self, frame: bytes) -> None:
        assert frame[BTH] & 0x1F in (Op.WRITE_ONLY, Op.WRITE_ONLY_IMMEDIATE)
        address, length = frame[BEHIND_BTH:62], frame[66:70]
        if int.from_bytes(length, "big"):
            self.written.append(int.from_bytes(address, "big"))
            self.data.append(frame[-4 - FLOW : -4])
