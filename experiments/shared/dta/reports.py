"""Construction of many frames of DTA reports with numpy, and access to integers in frames."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from collectors.dta.packets import DTA
from experiments.shared.dta.translator_setup import COLLECTOR_ADDR, REPORTER_ADDR

REPORTER, SEQUENCE = 44, 46  # offsets in a frame


def filled(
    report: Packet, words: Sequence[ArrayLike], sequence: ArrayLike = 0, reporter: ArrayLike = 0
) -> list[bytes]:
    """Return frames that equal `report` except for the last words and the sequence number.

    `words`: columns of 32 bits, (n,), or one number. scapy builds one frame, and numpy copies and
    changes it. Sequence numbers must differ if the translator tracks them; otherwise they may be
    equal.
    """
    ether = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02")
    ip = IP(src=REPORTER_ADDR, dst=COLLECTOR_ADDR)
    one = bytes(ether / ip / UDP(sport=40041, chksum=0) / DTA() / report)
    ending = np.stack(np.broadcast_arrays(*words), axis=1).astype(">u4")
    octets = np.tile(np.frombuffer(one, np.uint8), (len(ending), 1))
    octets[:, len(one) - 4 * ending.shape[1] :] = to_octets(ending)
    octets[:, SEQUENCE : SEQUENCE + 4] = to_octets(_column(sequence, len(ending), ">u4"))
    octets[:, REPORTER : REPORTER + 2] = to_octets(_column(reporter, len(ending), ">u2"))
    return [row.tobytes() for row in octets]


def to_octets(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of each value in the order of memory; shape (n, number of bytes)."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)


def numbers_in(frames: NDArray[np.uint8], at: int, size: int) -> NDArray[np.int64]:
    """Return the big-endian number at an offset of each frame."""
    found = np.zeros(len(frames), np.int64)
    for byte in frames[:, at : at + size].T:
        found = found << 8 | byte
    return found


def _column(values: ArrayLike, count: int, kind: str) -> NDArray[np.generic]:
    return np.broadcast_to(np.asarray(values), count).astype(kind)[:, np.newaxis]
