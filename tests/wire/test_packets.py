"""The packet pool: its limit, and larger packets for programs with larger parsed packets."""

import ctypes
from collections.abc import Iterator

import packets
import pytest
from packets import Packet

from minip4.native.build import Generated, shared_object
from minip4.wire import C_FOLDER

LIMIT = 128


class Pool:
    def __init__(self, phv_size: int) -> None:
        with shared_object([C_FOLDER / "packet.c"], [Generated(packets.CHECKS)],
                           include=[C_FOLDER]) as path:  # fmt: skip
            self.library = ctypes.CDLL(str(path))
        packets.declare(self.library)
        self.pool = ctypes.c_void_p(self.library.packet_pool_create(phv_size))
        self.library.packet_pool_set_limit(self.pool, LIMIT)

    def take(self) -> Packet | None:
        """Take a packet, and write all bytes of its phv. Return None if no packet is free."""
        taken = self.library.packet_take(self.pool)
        if not taken:
            return None
        ctypes.memset(taken.contents.phv, 0xA5, taken.contents.phv_size)
        return taken.contents

    def give(self, packet: Packet) -> None:
        self.library.packet_give(self.pool, ctypes.byref(packet))

    def take_all(self) -> list[Packet]:
        taken = []
        while (packet := self.take()) is not None:
            taken.append(packet)
        return taken


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(100)
    yield made
    made.library.packet_pool_destroy(made.pool)


def addresses(some: list[Packet]) -> set[int]:
    return {ctypes.addressof(packet) for packet in some}


def test_there_are_65536_packets_at_first(pool: Pool) -> None:
    library = pool.library
    made = library.packet_pool_create(0)
    taken = 0
    while library.packet_take(made):
        taken += 1
    assert taken == 65_536
    library.packet_pool_destroy(made)


def test_there_are_no_more_packets_than_the_limit(pool: Pool) -> None:
    taken = pool.take_all()
    assert len(taken) == len(addresses(taken)) == LIMIT
    assert {packet.phv_size for packet in taken} == {100}
    pool.give(taken[7])
    assert addresses(pool.take_all()) == addresses([taken[7]])


def test_packets_get_a_wider_phv_and_narrow_ones_go_out_of_use(pool: Pool) -> None:
    kept, *others = [pool.take() for _ in range(30)]  # fewer packets than the first slab has
    for packet in others:
        pool.give(packet)
    pool.library.packet_pool_widen(pool.pool, 5000)
    pool.give(kept)
    taken = pool.take_all()
    assert {packet.phv_size for packet in taken} == {5000}
    assert not addresses(taken) & addresses([kept, *others])
    assert len(taken) == LIMIT, "those that went out of use do not count"


def test_a_narrow_packet_that_is_still_in_use_counts(pool: Pool) -> None:
    kept = pool.take()
    pool.library.packet_pool_widen(pool.pool, 5000)
    assert len(pool.take_all()) == LIMIT - 64, "a slab less"
    pool.give(kept)
    assert len(pool.take_all()) == 64


def test_rooms_double_once_there_are_packets(pool: Pool) -> None:
    """Once the pool has packets, a larger phv is at least twice as large as before.

    Otherwise, a controller could force many reallocations by programs that need one more byte each.
    """
    pool.library.packet_pool_widen(pool.pool, 101)
    first = pool.take()
    assert first.phv_size == 101, "exactly, as long as there are none"
    pool.library.packet_pool_widen(pool.pool, 102)
    second = pool.take()
    assert second.phv_size == 202
    for size in (100, 202):
        pool.library.packet_pool_widen(pool.pool, size)
    assert pool.take().phv_size == 202
    pool.give(second)
    assert addresses([pool.take()]) == addresses([second])


def test_an_exchanged_packet_is_the_same_frame(pool: Pool) -> None:
    old = pool.take()
    where = ctypes.addressof(old.data.contents) + 3  # as if a header had been removed
    old.data = ctypes.cast(where, type(old.data))
    old.length, old.source, old.hops, old.time_ns = 9210, 5, 6, 7
    frame = bytes(i % 251 for i in range(old.length))
    ctypes.memmove(old.data, frame, old.length)
    offset = where - ctypes.addressof(old)
    pool.library.packet_pool_widen(pool.pool, 60_000)
    new = pool.library.packet_exchange(pool.pool, ctypes.byref(old)).contents
    assert (new.length, new.source, new.hops, new.time_ns) == (9210, 5, 6, 7)
    assert ctypes.string_at(new.data, new.length) == frame
    assert ctypes.addressof(new.data.contents) - ctypes.addressof(new) == offset
    assert new.phv_size == 60_000
    ctypes.memset(new.phv, 1, new.phv_size)


def test_without_memory_an_exchange_leaves_the_packet_as_it_was(pool: Pool) -> None:
    old = pool.take_all()[0]
    old.length = 3
    short = ctypes.c_bool()
    pool.library.packet_pool_tell(pool.pool, ctypes.byref(short))
    pool.library.packet_pool_widen(pool.pool, 200)
    assert not pool.library.packet_exchange(pool.pool, ctypes.byref(old))
    assert short.value
    assert old.length == 3
    pool.give(old)
