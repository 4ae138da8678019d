"""Are the checksums right of TCP segments in a capture? Of both, IPv4's and TCP's."""

import numpy as np
from numpy.typing import NDArray

from telemark.accounting.pcap import Frames

ETHERNET_BYTES, IPV4_WORDS = 14, 10  # words of 16 bits
PROTOCOL, TCP = 23, 6


def tcp_segments(frames: Frames) -> Frames:
    """Those of TCP over IPv4 without options."""
    starts = frames.bytes[:, [12, 13, 14, PROTOCOL]]
    ours = (starts == np.array([0x08, 0x00, 0x45, TCP], np.uint8)).all(1)
    return Frames(*(array[ours] for array in (frames.time_ns, frames.length, frames.bytes)))


def count_wrong_checksums(frames: Frames) -> int:
    """How many of such segments have one that is wrong. They are read whole, and none is padded:
    raises ValueError else."""
    words = np.ascontiguousarray(frames.bytes[:, ETHERNET_BYTES:]).view(">u2").astype(np.uint16)
    in_ip = frames.length - ETHERNET_BYTES
    if (words[:, 1] != in_ip).any() or (frames.length > frames.bytes.shape[1]).any():
        raise ValueError("frames are cut, or padded: their checksums cannot be told")
    header = words[:, :IPV4_WORDS]
    length = (in_ip - 2 * IPV4_WORDS).astype(np.uint16)
    # What TCP's covers of IP (RFC 9293, 3.1): addresses, protocol and length.
    pseudo = np.column_stack([words[:, 6:IPV4_WORDS], np.full_like(length, TCP), length])
    covered = np.concatenate([pseudo, words[:, IPV4_WORDS:]], 1)
    return int(((_sums(header) != 0xFFFF) | (_sums(covered) != 0xFFFF)).sum())


def _sums(words: NDArray[np.uint16]) -> NDArray[np.uint32]:
    """Of each row, as RFC 1071 adds them up: 0xFFFF where the row has its own checksum in it."""
    total = words.sum(1, dtype=np.uint32)
    for _ in range(2):
        total = (total & 0xFFFF) + (total >> 16)
    return total
