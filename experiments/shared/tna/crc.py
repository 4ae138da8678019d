"""CRCs of many messages at once, independent of the code of the switch."""

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def crc32(messages: Bytes) -> NDArray[np.uint32]:
    """Return the CRC32 of each row, as zlib.crc32()."""
    return ~_reflected(messages, 0xEDB88320, 0xFFFFFFFF)


def crc16(messages: Bytes) -> NDArray[np.uint32]:
    """Return the CRC-16/ARC of each row."""
    return _reflected(messages, 0xA001, 0)


def crc32_mpeg2(messages: Bytes) -> NDArray[np.uint32]:
    """Return the CRC-32/MPEG-2 of each row."""
    value = np.full(len(messages), 0xFFFFFFFF, np.uint32)
    for column in messages.T:
        value ^= column.astype(np.uint32) << np.uint32(24)
        for _ in range(8):
            value = (value << np.uint32(1)) ^ (value >> np.uint32(31)) * np.uint32(0x04C11DB7)
    return value


def _reflected(messages: Bytes, polynomial: int, start: int) -> NDArray[np.uint32]:
    value = np.full(len(messages), start, np.uint32)
    for column in messages.T:
        value ^= column
        for _ in range(8):
            value = (value >> np.uint32(1)) ^ (value & np.uint32(1)) * np.uint32(polynomial)
    return value
