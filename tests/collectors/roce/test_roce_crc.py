"""The CRC of the responder, compared with a bit-by-bit CRC and with zlib.

The responder computes the CRC by carry-less products or by tables.
"""

import ctypes
import random
import zlib
from collections.abc import Callable, Iterator

import pytest

from collectors.roce import C_FOLDER
from minip4.native import build

Add = Callable[[int, bytes, bytes], int]
WAYS = {"as the CPU can": ("-march=native",), "tables": ("-U__PCLMUL__",)}
MASK, MASK_ROOM = 64, 80
LENGTHS = [*range(130), 1024, 4096 + 60]


@pytest.fixture(scope="module", params=WAYS)
def add(request: pytest.FixtureRequest) -> Iterator[Add]:
    """Return a function that calls crc_add() with the CRC so far, bytes and a mask."""
    with build.shared_object([C_FOLDER / "crc.c"], flags=WAYS[request.param]) as built:
        function = ctypes.CDLL(str(built)).crc_add
        function.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p]
        function.restype = ctypes.c_uint32
        yield lambda crc, content, mask: function(
            crc, content, len(content), mask.ljust(MASK_ROOM, b"\0")
        )


def by_bits(crc: int, content: bytes) -> int:
    """Compute CRC-32 bit by bit."""
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc


def test_it_is_the_remainder_of_the_polynomial(add: Add) -> None:
    rng = random.Random(1)
    for length in range(70):
        start, content = rng.getrandbits(32), rng.randbytes(length)
        assert add(start, content, b"") == by_bits(start, content)


def test_it_is_that_of_zlib_and_masked_bits_count_as_ones(add: Add) -> None:
    rng = random.Random(2)
    for length in LENGTHS:
        start, content, mask = rng.getrandbits(32), rng.randbytes(length), rng.randbytes(MASK)
        ones = bytes(a | b for a, b in zip(content, mask.ljust(length, b"\0"), strict=False))
        assert len(ones) == length
        assert ~add(start, content, mask) & 0xFFFFFFFF == zlib.crc32(ones, ~start & 0xFFFFFFFF)
