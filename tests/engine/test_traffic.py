"""Queues, rates and links: times and depths that the program sees, drops, and their counters."""

import ctypes

import pytest
from small_programs import engine

from minip4.engine.engine import Engine

TYPES = """header h_t {
    bit<8> port; bit<8> priority; bit<32> enqueued; bit<32> waited; bit<24> depth_in;
    bit<24> depth_out; bit<48> arrived; bit<48> left; }"""
SIZE = 26
INGRESS = """std.egress_spec = (bit<9>) hdr.h.port; std.priority = hdr.h.priority[2:0];"""
EGRESS = """
    hdr.h.enqueued = std.enq_timestamp; hdr.h.waited = std.deq_timedelta;
    hdr.h.depth_in = (bit<24>) std.enq_qdepth; hdr.h.depth_out = (bit<24>) std.deq_qdepth;
    hdr.h.arrived = std.ingress_global_timestamp; hdr.h.left = std.egress_global_timestamp;"""
FRAME = 125  # 1000 bits
MBIT = 1_000_000


class LinkConfig(ctypes.Structure):
    """struct link_config of link.h."""

    _fields_ = [
        ("rate_bps", ctypes.c_uint64),
        ("delay_ns", ctypes.c_uint64),
        ("jitter_ns", ctypes.c_uint64),
        ("loss", ctypes.c_double),
        ("reorder", ctypes.c_double),
        ("reorder_ns", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
    ]


class Bench:
    """A switch whose frames are injected at given times, and taken when they have left."""

    def __init__(self) -> None:
        self.engine: Engine = engine(types=TYPES, ingress=INGRESS, egress=EGRESS)
        self.engine.process(1, bytes(SIZE), 0)
        self.engine._taken()

    def call(self, name: str, *arguments: object) -> int:
        function = getattr(self.engine.library, name)
        return int(function(self.engine.handle, *arguments) or 0)

    def link(self, port: int, **config: int) -> None:
        function = self.engine.library.engine_set_link
        function.argtypes = [ctypes.c_void_p, ctypes.c_uint16, ctypes.c_void_p]
        function(self.engine.handle, port, ctypes.byref(LinkConfig(**config)))

    def send(self, time_ns: int, port: int = 2, priority: int = 0, size: int = FRAME) -> None:
        frame = (bytes([port, priority]) + bytes(size))[:size]
        data = (ctypes.c_uint8 * size).from_buffer_copy(frame)
        assert self.call("engine_inject", 1, data, size, time_ns)

    def seen(self, until_ns: int = 10**12) -> list[dict[str, int]]:
        """What egress wrote into the frames that left by `until_ns`."""
        self.call("engine_advance", until_ns)
        frames = self.engine._taken()
        return [{"port": port, **decoded(frame)} for port, frame in frames]

    def queue_drops(self) -> int:
        values = (ctypes.c_uint64 * 9)()
        self.engine.library.engine_counters(self.engine.handle, values)
        return values[4]


def decoded(frame: bytes) -> dict[str, int]:
    widths = {"number": 1, "priority": 1, "enqueued": 4, "waited": 4, "depth_in": 3,
              "depth_out": 3, "arrived": 6, "left": 6}  # fmt: skip
    result, at = {}, 0
    for name, size in widths.items():
        result[name] = int.from_bytes(frame[at : at + size], "big")
        at += size
    return result


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_packet_that_nothing_holds_up_leaves_at_once(bench: Bench) -> None:
    bench.send(5_000_000)
    [seen] = bench.seen(5_000_000)
    assert (seen["enqueued"], seen["waited"], seen["depth_in"], seen["depth_out"]) == (
        5000,
        0,
        0,
        0,
    )
    assert (seen["arrived"], seen["left"]) == (5000, 5000)


def test_packets_wait_for_the_links_rate(bench: Bench) -> None:
    bench.link(2, rate_bps=MBIT)  # 1 ms a frame
    for _ in range(4):
        bench.send(10_000_000)
    assert bench.seen(10_000_000 - 1 + 1_000_000) == [], "the first bit is not the last"
    seen = bench.seen()
    assert [s["waited"] for s in seen] == [0, 1000, 2000, 3000]
    assert [s["depth_in"] for s in seen] == [0, 0, 1, 2]
    assert [s["depth_out"] for s in seen] == [0, 2, 1, 0]
    assert [s["left"] for s in seen] == [10_000, 11_000, 12_000, 13_000]


def test_rates_hold_however_late_the_driver_wakes(bench: Bench) -> None:
    bench.link(2, rate_bps=MBIT)
    for _ in range(10):
        bench.send(0)
    for time_ns in range(0, 30_000_000, 3_700_000):
        bench.call("engine_advance", time_ns)
    assert [s["left"] for s in bench.seen()] == [1000 * i for i in range(10)]


def test_a_full_queue_drops_the_tail(bench: Bench) -> None:
    bench.link(2, rate_bps=MBIT)
    bench.call("engine_set_queue_depth", 2, 3)
    for _ in range(10):
        bench.send(0)
    bench.send(0, port=3)
    seen = bench.seen()
    assert [s["port"] for s in seen].count(2) == 4, "one on the wire, three in the queue"
    assert [s["port"] for s in seen].count(3) == 1, "another port's queue is its own"
    assert bench.queue_drops() == 6


def test_a_higher_priority_is_served_first(bench: Bench) -> None:
    bench.call("engine_set_priorities", 8)
    bench.link(2, rate_bps=MBIT)
    for priority in (0, 0, 3, 7, 3):
        bench.send(0, priority=priority)
    assert [s["priority"] for s in bench.seen()] == [0, 7, 3, 3, 0]


def test_a_priority_that_the_switch_has_not_is_dropped(bench: Bench) -> None:
    bench.send(0, priority=1)
    assert bench.seen() == []
    assert bench.queue_drops() == 1


def test_a_queue_may_be_held_to_packets_a_second(bench: Bench) -> None:
    bench.call("engine_set_queue_rate", 2, 0, 1000)
    for _ in range(4):
        bench.send(0)
    bench.send(10_000_000)
    assert [s["left"] for s in bench.seen()] == [0, 1000, 2000, 3000, 10_000]


def test_the_clock_may_be_offset_and_drift(bench: Bench) -> None:
    bench.call("engine_set_clock", 250, 1000)  # 1000 ppb: 1 us a second
    bench.send(3_000_000_000)
    [seen] = bench.seen()
    assert seen["arrived"] == 3_000_000 + 250 + 3
    bench.call("engine_set_clock", -4_000_000, 0)
    bench.send(3_000_000_000)
    [seen] = bench.seen()
    assert seen["arrived"] == 2**48 - 1_000_000, "P4 time is 48 bits, modulo"


def test_what_the_link_loses_is_no_drop_of_the_switch(bench: Bench) -> None:
    config = LinkConfig(delay_ns=1000, loss=1.0)
    function = bench.engine.library.engine_set_link
    function.argtypes = [ctypes.c_void_p, ctypes.c_uint16, ctypes.c_void_p]
    function(bench.engine.handle, 2, ctypes.byref(config))
    bench.send(0)
    assert bench.seen() == []
    values = (ctypes.c_uint64 * 9)()
    bench.engine.library.engine_counters(bench.engine.handle, values)
    assert list(values[:2]) == [2, 2]
