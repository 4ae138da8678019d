"""The hash algorithms of BMv2, computed bit by bit."""

from __future__ import annotations


def words(data: bytes, size: int) -> list[int]:
    data += bytes(-len(data) % size)
    return [int.from_bytes(data[i : i + size], "big") for i in range(0, len(data), size)]


def csum16(data: bytes) -> int:
    total = sum(words(data, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def xor16(data: bytes) -> int:
    result = 0
    for word in words(data, 2):
        result ^= word
    return result


def reflected_crc(data: bytes, polynomial: int, initial: int) -> int:
    crc = initial
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (polynomial if crc & 1 else 0)
    return crc


ALGORITHMS = {
    "csum16": csum16,
    "xor16": xor16,
    "identity": lambda data: int.from_bytes(data[:8], "big"),
    "crc16": lambda data: reflected_crc(data, 0xA001, 0),
    "crc32": lambda data: reflected_crc(data, 0xEDB88320, 0xFFFFFFFF) ^ 0xFFFFFFFF,
}
