"""Queues, rates and links: times and depths that programs read, drops, and counters."""

import ctypes
from typing import Any

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


class Bench:
    """A switch that receives frames at given times. It returns the frames that it sends."""

    def __init__(self) -> None:
        self.engine: Engine = engine(types=TYPES, ingress=INGRESS, egress=EGRESS)
        self.engine.process(1, bytes(SIZE), 0)
        self.engine._taken()

    def call(self, name: str, *arguments: object) -> int:
        function = getattr(self.engine.library, name)
        return int(function(self.engine.handle, *arguments) or 0)

    def link(self, port: int, **config: Any) -> None:
        self.engine.clock = lambda: 0
        self.engine.set_link(port, **config)

    def queue(self, port: int, priority: int = 0, now_ns: int = 0, **config: int) -> None:
        self.engine.clock = lambda: now_ns
        self.engine.set_queue(port, priority, **{"depth_packets": 64, **config})

    def drops(self, port: int) -> dict[str, int]:
        """Return the drops of a port, by reason.

        Assert that the drops of all ports add up to the total of the engine.
        """
        reasons = self.engine.drops()
        total = sum(sum(of.values()) for of in reasons.values())
        counters = self.engine.counters()
        assert total == sum(v for k, v in counters.items() if k.endswith("drops"))
        return {name: count for name, count in reasons.get(str(port), {}).items() if count}

    def send(self, time_ns: int, port: int = 2, priority: int = 0, size: int = FRAME) -> None:
        frame = (bytes([port, priority]) + bytes(size))[:size]
        data = (ctypes.c_uint8 * size).from_buffer_copy(frame)
        assert self.call("engine_inject", 1, data, size, time_ns)

    def seen(self, until_ns: int = 10**12) -> list[dict[str, int]]:
        """Return the values that egress wrote into all frames that are sent until `until_ns`."""
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
    bench.link(2, rate_bps=MBIT)  # 1 ms per frame
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
    bench.queue(2, depth_packets=3)
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
    bench.queue(2, rate_pps=1000)
    for _ in range(4):
        bench.send(0)
    bench.send(10_000_000)
    assert [s["left"] for s in bench.seen()] == [0, 1000, 2000, 3000, 10_000]


def test_the_clock_may_be_offset_and_drift(bench: Bench) -> None:
    bench.call("engine_set_clock", 250, 1000, 0)  # 1000 ppb: 1 us per second
    bench.send(3_000_000_000)
    [seen] = bench.seen()
    assert seen["arrived"] == 3_000_000 + 250 + 3
    bench.call("engine_set_clock", -4_000_000, 0, 0)
    bench.send(3_000_000_000)
    [seen] = bench.seen()
    assert seen["arrived"] == 2**48 - 1_000_000, "P4 time is 48 bits, modulo"


@pytest.mark.parametrize("drift_ppb", [10**8, 50_000, -50_000, -(10**8)])
def test_the_clock_drifts_since_its_start_and_not_since_the_machines(
    bench: Bench, drift_ppb: int
) -> None:
    boot_ns = 30 * 86_400 * 10**9
    for offset_us in (0, -(boot_ns // 1000) - 10):  # with the second, the 48-bit clock wraps
        for ran_s in (0, 1, 3600):
            bench.call("engine_set_clock", offset_us, drift_ppb, boot_ns)
            bench.send(boot_ns + ran_s * 10**9)
            us = boot_ns // 1000 + offset_us + ran_s * (10**6 + drift_ppb // 1000)
            assert bench.seen()[-1]["arrived"] == us % 2**48
        boot_ns += 86_400 * 10**9


def test_link_loss_is_not_counted_as_a_switch_drop(bench: Bench) -> None:
    bench.link(2, delay_ns=1000, loss=1.0)
    bench.send(0)
    assert bench.seen() == []
    values = (ctypes.c_uint64 * 9)()
    bench.engine.library.engine_counters(bench.engine.handle, values)
    assert list(values[:2]) == [2, 2]


def test_port_counters_remain_when_a_link_is_removed(bench: Bench) -> None:
    before = bench.engine.counters()
    bench.send(0)
    bench.link(2, rate_bps=MBIT)
    for _ in range(3):
        bench.send(0)
    bench.seen()
    bench.call("engine_set_link", 2, None)
    bench.send(10**12, size=2 * FRAME)
    port, after = bench.engine.port_counters(2), bench.engine.counters()
    assert (port["transmitted_packets"], port["transmitted_bytes"]) == (5, 6 * FRAME)
    assert (port["link"]["sent_packets"], port["link"]["sent_bytes"]) == (3, 3 * FRAME)
    assert [after[name] - before[name] for name in ("received", "transmitted")] == [5, 5]
    bench.link(2)
    bench.send(2 * 10**12)
    assert bench.engine.port_counters(2)["transmitted_packets"] == 6
    assert bench.engine.port_counters(1)["received_packets"] == 7, "and Bench's own"


def test_a_port_that_was_down_sends_again(bench: Bench) -> None:
    for time_ns, is_up, sent in ((0, True, 1), (1000, False, 0), (2000, True, 1)):
        bench.call("engine_set_port", 2, is_up)
        bench.send(time_ns)
        assert len(bench.seen(time_ns)) == sent
    assert bench.drops(2) == {"no_port": 1}


def test_a_queue_may_be_held_to_bits_a_second(bench: Bench) -> None:
    bench.queue(2, rate_bps=MBIT)  # 1 ms per frame of 1000 bits
    for size in (125, 250, 125, 125):
        bench.send(7_000_000, size=size)
    seen = bench.seen()
    assert [s["left"] for s in seen] == [7_000, 8_000, 10_000, 11_000]
    assert [s["waited"] for s in seen] == [0, 1000, 3000, 4000]
    assert [s["depth_in"] for s in seen] == [0, 0, 1, 2]
    assert [s["depth_out"] for s in seen] == [0, 2, 1, 0]


def test_a_rate_that_divides_no_second_is_kept_exactly(bench: Bench) -> None:
    bench.queue(2, rate_pps=7_000_000, depth_packets=100)  # 142.857 ns
    for _ in range(71):
        bench.send(0)
    assert [s["left"] for s in bench.seen()][-1] == 10, "70 packets later"


def test_the_rounding_remainder_of_a_rate_ends_with_idle_time(bench: Bench) -> None:
    """At 3 packets/s, a third of a ns remains after a packet. Idle time must end this remainder.

    Otherwise, the last packet of the test would be late.
    """
    bench.queue(2, rate_pps=3)
    for time_ns in (0, 999_999_333, 999_999_333, 999_999_333):
        bench.send(time_ns)
    assert [s["left"] for s in bench.seen()] == [0, 999_999, 1_333_332, 1_666_665]


@pytest.mark.parametrize("is_link", [False, True], ids=["queue", "link"])
def test_a_paced_burst_through_a_slow_queue(bench: Bench, is_link: bool) -> None:
    """Frame k of 1000 bits arrives at 0.4 k ms, and leaves at k ms, because the rate is 1 Mbit/s.

    The expected waiting times and queue depths follow from these times.
    """
    if is_link:
        bench.link(2, rate_bps=MBIT)
    else:
        bench.queue(2, rate_bps=MBIT)
    for k in range(6):
        bench.send(400_000 * k)
    seen = bench.seen()
    assert [s["left"] for s in seen] == [1000 * k for k in range(6)]
    assert [(s["waited"], s["depth_in"], s["depth_out"]) for s in seen] == [
        (0, 0, 0),
        (600, 0, 1),  # frame 2 arrived at 0.8 ms
        # Frame 1 waited when frame 2 arrived. At 2 ms frame 2 leaves, 3 and 4 wait, and 5 arrives.
        (1200, 1, 2),
        (1800, 1, 2),
        (2400, 2, 1),
        (3000, 2, 0),
    ]


def test_a_queue_with_a_byte_limit_drops_packets_that_do_not_fit(bench: Bench) -> None:
    bench.queue(2, rate_pps=1000, depth_bytes=300)
    for size in (125, 125, 100, 100, 75, 76):
        bench.send(
            0, size=size
        )  # the first leaves; 125 and 100 bytes wait, then 75, too; 100 and 76 bytes do not fit
    assert bench.engine.queues(2, 1) == {"0": {"packets": 3, "bytes": 300, "drops": 2}}
    assert len(bench.seen()) == 4
    assert bench.drops(2) == {"queue": 2}
    assert bench.engine.queues(2, 1) == {"0": {"packets": 0, "bytes": 0, "drops": 2}}


def test_each_priority_has_a_rate_and_a_depth_of_its_own(bench: Bench) -> None:
    bench.call("engine_set_priorities", 2)
    bench.queue(2, 0, rate_pps=500, depth_packets=2)
    bench.queue(2, 1, rate_pps=1000)
    for priority in (0, 0, 0, 0, 1, 1, 1):
        bench.send(0, priority=priority)
    left = [(s["priority"], s["left"]) for s in bench.seen()]
    assert sorted(left) == [(0, 0), (0, 2000), (0, 4000), (1, 0), (1, 1000), (1, 2000)]
    assert left[2:4] == [(1, 1000), (1, 2000)], "of two that may go the higher goes"
    assert bench.drops(2) == {"queue": 1}


def test_a_new_rate_holds_for_queued_packets(bench: Bench) -> None:
    bench.queue(2, rate_pps=1)
    for _ in range(4):
        bench.send(0)
    bench.queue(2, now_ns=5_000_000, rate_pps=1000)
    assert [s["left"] for s in bench.seen()] == [0, 5000, 6000, 7000]


def test_every_drop_has_a_reason_and_a_port(bench: Bench) -> None:
    bench.call("engine_set_port", 9, False)
    for port, priority in ((9, 0), (9, 0), (2, 1)):
        bench.send(0, port=port, priority=priority)
    bench.seen()
    assert bench.drops(9) == {"no_port": 2}
    assert bench.drops(2) == {"no_queue": 1}
