"""Verification of the IPv4 and TCP checksums of segments in a capture."""

import numpy as np
from numpy.typing import NDArray

from telemark.accounting.pcap import Frames

ETHERNET_BYTES, IPV4_WORDS = 14, 10  # header lengths: Ethernet in bytes, IPv4 in 16-bit words
PROTOCOL, TCP = 23, 6


def tcp_segments(frames: Frames) -> Frames:
    """Select the frames that carry TCP over IPv4 without options."""
    starts = frames.bytes[:, [12, 13, 14, PROTOCOL]]
    ours = (starts == np.array([0x08, 0x00, 0x45, TCP], np.uint8)).all(1)
    return Frames(*(array[ours] for array in (frames.time_ns, frames.length, frames.bytes)))


def count_wrong_checksums(frames: Frames) -> int:
    """Count the segments whose IPv4 or TCP checksum is wrong.

    Raises ValueError for truncated frames and for padded frames.
    """
    words = np.ascontiguousarray(frames.bytes[:, ETHERNET_BYTES:]).view(">u2").astype(np.uint16)
    in_ip = frames.length - ETHERNET_BYTES
    if (words[:, 1] != in_ip).any() or (frames.length > frames.bytes.shape[1]).any():
        raise ValueError("frames are truncated or padded: cannot verify checksums; read them whole")
    header = words[:, :IPV4_WORDS]
    length = (in_ip - 2 * IPV4_WORDS).astype(np.uint16)
    # Fields of the TCP pseudo-header (RFC 9293, 3.1): addresses, protocol and length.
    pseudo = np.column_stack([words[:, 6:IPV4_WORDS], np.full_like(length, TCP), length])
    covered = np.concatenate([pseudo, words[:, IPV4_WORDS:]], 1)
    return int(((_sums(header) != 0xFFFF) | (_sums(covered) != 0xFFFF)).sum())


def _sums(words: NDArray[np.uint16]) -> NDArray[np.uint32]:
    """Return the one's complement sum of each row (RFC 1071). It is 0xFFFF for a right checksum."""
    total = words.sum(1, dtype=np.uint32)
    for _ in range(2):
        total = (total & 0xFFFF) + (total >> 16)
    return total
