"""The hashes of DTA: they equal the published MurmurHash3, and their uses are independent."""

import numpy as np
import pytest
from numpy.typing import NDArray

from collectors.dta.hashes import (
    BLANK,
    CHECKSUM_SEED,
    COPY_SEEDS,
    HOP_SEED,
    VALUE_SEED,
    WRITTEN,
    checksums,
    hop_checksums,
    key_words,
    murmur3,
    slots,
    value_codes,
)

# MurmurHash3_x86_32 in tests of several implementations: key, seed, hash
PUBLISHED = [
    (b"", 0, 0x00000000), (b"", 1, 0x514E28B7), (b"", 0xFFFFFFFF, 0x81F16F39),
    (b"\xff\xff\xff\xff", 0, 0x76293B50), (b"!Ce\x87", 0, 0xF55B516B),
    (b"!Ce\x87", 0x5082EDEE, 0x2362F9DE), (b"\0\0\0\0", 0, 0x2362F9DE),
    (b"aaaa", 0x9747B28C, 0x5A97808A), (b"abcd", 0x9747B28C, 0xF0478627),
    (256 * b"a", 0x9747B28C, 0x37405BDC),
]  # fmt: skip
SMHASHER = 0xB0F57EE3  # result of the author's own test suite for MurmurHash3_x86_32


def scalar(data: bytes, seed: int) -> int:
    """Return MurmurHash3_x86_32 of bytes; SMHASHER verifies this function."""

    def rotated(number: int, bits: int) -> int:
        return (number << bits | number >> (32 - bits)) & 0xFFFFFFFF

    def mixed(block: bytes) -> int:
        first = int.from_bytes(block, "little") * 0xCC9E2D51 & 0xFFFFFFFF
        return rotated(first, 15) * 0x1B873593 & 0xFFFFFFFF

    state, whole = seed, len(data) // 4 * 4
    for at in range(0, whole, 4):
        state = rotated(state ^ mixed(data[at : at + 4]), 13) * 5 + 0xE6546B64 & 0xFFFFFFFF
    state ^= mixed(data[whole:]) ^ len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    state = (state ^ state >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return state ^ state >> 16


def random_keys(count: int, seed: int) -> NDArray[np.uint32]:
    return np.random.default_rng(seed).integers(1 << 32, size=(count, 4), dtype=np.uint32)


@pytest.mark.parametrize(("data", "seed", "expected"), PUBLISHED)
def test_murmur3_is_as_published(data: bytes, seed: int, expected: int) -> None:
    words = np.frombuffer(data, "<u4").astype(np.uint32)
    assert murmur3(words[np.newaxis], seed).tolist() == [expected]


def test_murmur3_of_many_keys_is_that_which_passes_its_authors_test() -> None:
    hashes = b"".join(scalar(bytes(range(n)), 256 - n).to_bytes(4, "little") for n in range(256))
    assert scalar(hashes, 0) == SMHASHER
    keys = random_keys(50, 1)
    for seed in (0, 1, 0xFFFFFFFF, *COPY_SEEDS.tolist()):
        assert murmur3(keys, seed).tolist() == [
            scalar(key.astype("<u4").tobytes(), seed) for key in keys
        ]


def test_each_use_has_the_seed_of_the_contract() -> None:
    keys = random_keys(3, 2)
    key = keys[1].astype("<u4").tobytes()
    for n in range(8):
        hashed = scalar(key, 0x9E3779B1 * (n + 1) % 2**32)
        assert slots(keys, 8, 1 << 12)[n, 1] == hashed % (1 << 12)
    assert checksums(keys, 8)[1] == scalar(key, 0x7FEB352D) % 256 + 0x80000000
    assert checksums(keys, 31)[1] == scalar(key, 0x7FEB352D) | 0x80000000
    assert hop_checksums(keys)[:, 1].tolist() == [scalar(key, 0x2C1B3C6D + hop) for hop in range(5)]
    value = bytes(12) + keys[1, 3].astype("<u4").tobytes()
    assert value_codes(keys[:, 3])[1] == scalar(value, 0x846CA68B)


def test_a_key_is_its_words_the_most_significant_first() -> None:
    assert key_words([1 << 96 | 2 << 64 | 3 << 32 | 4, 5]).tolist() == [[1, 2, 3, 4], [0, 0, 0, 5]]
    with pytest.raises(OverflowError):
        key_words([1 << 128])


def test_keys_with_one_common_slot_have_different_other_slots() -> None:
    """Two keys with one common slot have different slots for their other copies.

    The slots do not come from CRCs, which are affine: all copies of such keys would collide.
    """
    places = slots(random_keys(20_000, 3), 2, 1 << 8)
    meet = places[:, :-1] == places[:, 1:]
    both = np.sum(meet[0] & meet[1])
    assert np.sum(meet[0]) > 40  # 78 keys with a common slot are expected
    assert both <= 4  # 0.3 keys with two common slots are expected


def test_keys_with_the_same_slot_have_different_checksums() -> None:
    """Keys with the same slot rarely have the same checksum.

    If slot and checksum were bits of one CRC, 1 of 2^(31 - slot bits) checksums would be equal.
    """
    keys = random_keys(1 << 18, 4)
    places, sums = slots(keys, 1, 1 << 16)[0], checksums(keys, 16)
    order = np.argsort(places, kind="stable")
    meet = np.diff(places[order]) == 0
    same = np.sum(meet & (sums[order][1:] == sums[order][:-1]))
    assert np.sum(meet) > 190_000
    assert same <= 15  # 3 are expected


def test_sequential_keys_are_spread_like_random_ones() -> None:
    keys = np.zeros((1 << 12, 4), np.uint32)
    keys[:, 3] = np.arange(1 << 12)
    hit = len(np.unique(slots(keys, 1, 1 << 12)))
    expected = (1 << 12) * (1 - np.exp(-1))
    assert abs(hit - expected) < 5 * np.sqrt((1 << 12) * np.exp(-1) * (1 - 2 * np.exp(-1)))


def test_memory_of_zeros_is_no_keys() -> None:
    keys = random_keys(1000, 5)
    assert np.all(checksums(keys, 8) & np.uint32(WRITTEN))
    seeds = [*COPY_SEEDS.tolist(), CHECKSUM_SEED, VALUE_SEED, *range(HOP_SEED, HOP_SEED + 5)]
    assert len(set(seeds)) == 15
    assert BLANK not in value_codes(np.arange(1 << 16, dtype=np.uint32)).tolist()


def test_no_bit_of_a_hop_checksum_is_constant() -> None:
    """Each bit of a hop checksum is 1 about as often as 0.

    With one of the published polynomials, eight bits of each word are constant.
    """
    keys = np.random.default_rng(1).integers(1 << 32, size=(1000, 4), dtype=np.uint32)
    shares = np.unpackbits(hop_checksums(keys).view(np.uint8), axis=1).reshape(5, 1000, 32)
    assert (abs(shares.mean(axis=1) - 0.5) < 0.1).all()  # 6 standard deviations
