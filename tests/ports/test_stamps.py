"""Arrival and departure times of the real-time driver, compared with other clocks."""

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import wire
from small_programs import engine
from wire import frame, pcap_records

from minip4.engine.engine import Engine
from minip4.ports.driver import Driver

SENT, STALL_S = 30, 0.03
TYPES = "header h_t { bit<112> ethernet; bit<32> number; bit<48> arrived; bit<48> left; }"
EGRESS = """hdr.h.arrived = std.ingress_global_timestamp;
    hdr.h.left = std.egress_global_timestamp;"""
US = 1000


@pytest.fixture
def namespace() -> Iterator[None]:
    with wire.namespace():
        for number in (1, 2, 3):
            wire.veth(f"s{number}", f"h{number}")
        yield


@pytest.fixture
def switch() -> Engine:
    """Return a switch that forwards frames to port 2, with the times that its program sees."""
    return engine(types=TYPES, ingress="std.egress_spec = 2;", egress=EGRESS)


@contextmanager
def packets_waiting(switch: Engine) -> Iterator[None]:
    """Let frames wait: the data plane waits for the lock (lock.h), and so receives none."""
    switch.library.engine_lock_dataplane(switch.handle)
    try:
        yield
    finally:
        switch.library.engine_unlock_dataplane(switch.handle)


def test_a_frame_arrived_while_it_was_sent_however_late_the_switch_takes_it(
    namespace: None, switch: Engine, tmp_path: Path
) -> None:
    driver = Driver(
        switch, {1: "s1", 2: "s2"}, capture_folder=tmp_path, stamp_folder=tmp_path
    )  # fmt: skip
    driver.start()
    calls, seen = [], []
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        with packets_waiting(switch):
            for number in range(SENT):
                before_ns = time.monotonic_ns()
                sender.send(frame(64, number))
                calls.append((before_ns, time.monotonic_ns()))
                time.sleep(0.0003)
            time.sleep(STALL_S)
            stalled_until_ns = time.monotonic_ns()
        for _ in calls:
            data = receiver.recv(100)
            seen.append(tuple(int.from_bytes(data[at : at + 6], "big") for at in (18, 24)))
    driver.stop()
    arrived, taken = ([ns for ns, _, _ in pcap_records(tmp_path / f"s1_{what}.pcap")]
                      for what in ("in", "taken"))  # fmt: skip
    assert len(arrived) == SENT
    for (before_ns, after_ns), came_ns, (came_us, left_us) in zip(
        calls, arrived, seen, strict=True
    ):
        assert before_ns <= came_ns <= after_ns
        assert came_us == came_ns // US
        assert left_us >= stalled_until_ns // US
    assert min(taken) >= stalled_until_ns


def test_how_long_one_frame_waited_is_not_taken_for_the_next_ones_wait(
    namespace: None, switch: Engine
) -> None:
    """A controller's frame arrives when the driver reads it, even if another frame waited long."""
    driver = Driver(switch, {1: "s1", 2: "s2"}, cpu_port=510)
    driver.start()
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        with packets_waiting(switch):
            sender.send(frame(64, 0))
            time.sleep(STALL_S)
        receiver.recv(100)
        before_us = time.monotonic_ns() // US
        assert driver.cpu_send(frame(64, 1))
        arrived_us = int.from_bytes(receiver.recv(100)[18:24], "big")
    driver.stop()
    assert before_us <= arrived_us <= time.monotonic_ns() // US


def test_the_call_that_hands_frames_over_encloses_their_arrival(
    namespace: None, switch: Engine, tmp_path: Path
) -> None:
    """A frame arrives at the next switch between the start and the end of the call that sends it.

    The next switch records the arrival, and this switch the start and the end.
    """
    driver = Driver(switch, {1: "s1", 2: "s2"}, capture_folder=tmp_path, stamp_folder=tmp_path)
    behind = Driver(engine(types=TYPES), {1: "h2"}, capture_folder=tmp_path)
    driver.start()
    behind.start()
    with wire.end("h1") as sender:
        for number in range(SENT):
            if number % 5 == 0:
                time.sleep(0.001)
            sender.send(frame(64, number))
        wire.await_true(lambda: len(pcap_records(tmp_path / "h2_in.pcap")) == SENT)
    driver.stop()
    behind.stop()
    left, began, ended = (
        [ns for ns, _, _ in pcap_records(tmp_path / f"s2_{what}.pcap")]
        for what in ("out", "sending", "sent")
    )
    came = [ns for ns, _, _ in pcap_records(tmp_path / "h2_in.pcap")]
    assert len(left) == len(began) == SENT
    for times in zip(left, began, came, ended, strict=True):
        assert list(times) == sorted(times)


def test_ports_take_turns_in_order_of_arrival(
    namespace: None, switch: Engine, tmp_path: Path
) -> None:
    driver = Driver(switch, {1: "s1", 2: "s2", 3: "s3"}, capture_folder=tmp_path)
    driver.start()
    with wire.end("h1") as one, wire.end("h3") as three, wire.end("h2") as receiver:
        with packets_waiting(switch):
            for number in range(SENT):
                (three if number % 4 == 0 else one).send(frame(64, number))
        numbers = [int.from_bytes(receiver.recv(100)[14:18], "big") for _ in range(SENT)]
    driver.stop()
    assert numbers == list(range(SENT))


def test_a_flood_at_one_port_keeps_another_waiting_for_a_batch_at_most(
    namespace: None, switch: Engine
) -> None:
    flood, batch = 200, 64  # BATCH in ports.c
    driver = Driver(switch, {1: "s1", 2: "s2", 3: "s3"})
    driver.start()
    with wire.end("h1") as one, wire.end("h3") as three, wire.end("h2") as receiver:
        with packets_waiting(switch):
            for number in range(flood):
                one.send(frame(64, number))
            three.send(frame(64, flood))
        numbers = [int.from_bytes(receiver.recv(100)[14:18], "big") for _ in range(flood + 1)]
    driver.stop()
    assert numbers == [*range(batch), flood, *range(batch, flood)]


class WallClock(ctypes.Structure):
    """struct wall_clock of clock.h."""

    _fields_ = [
        ("min_ns", ctypes.c_int64),
        ("max_ns", ctypes.c_int64),
        ("read_ns", ctypes.c_uint64),
    ]


class Wall:
    """A wall clock that is ahead of the common clock by `ahead_ns`. clock.c converts its times."""

    def __init__(self, switch: Engine) -> None:
        self.ahead_ns = 1_790_000_000 * 10**9 + 123_456_789
        self._clock = WallClock()
        self._library = switch.library
        self._library.wall_clock_arrival.restype = ctypes.c_uint64

    def read(self, before_ns: int, at_ns: int, after_ns: int) -> None:
        values = map(ctypes.c_uint64, (before_ns, at_ns + self.ahead_ns, after_ns))
        self._library.wall_clock_take(ctypes.byref(self._clock), *values)

    def arrival_ns(self, time_ns: int, ahead_ns: int = 0, now_ns: int = 2**63) -> int:
        values = map(ctypes.c_uint64, (time_ns + self.ahead_ns, ahead_ns, now_ns))
        return int(self._library.wall_clock_arrival(ctypes.byref(self._clock), *values))

    def error_ns(self, time_ns: int) -> int:
        return abs(self.arrival_ns(time_ns) - time_ns)


def test_stamps_are_carried_over_also_when_the_wall_clock_was_set(switch: Engine) -> None:
    """The offset of the wall clock is known to 25 ns, also after this clock was set.

    A reading of the clocks that was interrupted does no harm.
    """
    wall, now_ns = Wall(switch), 5 * 10**9
    # this reading took 5 ms, because another program used the core in between
    wall.read(now_ns, now_ns + 90_000, now_ns + 5_000_000)
    assert wall.error_ns(now_ns) <= 2_500_000
    for late_ns in (0, 1_000_000, 2_000_000, 3_000_000):
        wall.read(now_ns + late_ns, now_ns + late_ns + 20, now_ns + late_ns + 50)
    assert wall.error_ns(now_ns) <= 15
    wall.read(now_ns, now_ns + 4_900_000, now_ns + 5_000_000)
    assert wall.error_ns(now_ns) <= 15
    for step_ns in (10**9, -(10**10), 200):
        wall.ahead_ns += step_ns
        now_ns += 10**6
        wall.read(now_ns, now_ns + 25, now_ns + 50)
        assert wall.error_ns(now_ns) <= 25


@pytest.mark.parametrize("set_ns", [0, 10**9, -(10**9)])
def test_no_arrival_is_later_than_now_or_before_that_of_the_frame_ahead(
    switch: Engine, set_ns: int
) -> None:
    """Arrival times are in order and not in the future, even if the wall clock was set by 1 s.

    The wall clock is set after it was read, and before the kernel uses it for timestamps.
    """
    wall, start_ns = Wall(switch), 5 * 10**9
    wall.read(start_ns, start_ns + 25, start_ns + 50)
    wall.ahead_ns += set_ns
    ahead_ns = 0
    # the third timestamp, of another core, is before the second one
    for stamp_ns, now_ns in ((100, 105), (900, 905), (500, 910), (1500, 1505)):
        arrived_ns = wall.arrival_ns(start_ns + stamp_ns, ahead_ns, start_ns + now_ns)
        assert ahead_ns <= arrived_ns <= start_ns + now_ns
        ahead_ns = arrived_ns
