"""Links, queues and the clock of an engine: their settings, and the counters of its ports."""

import ctypes

import pytest
from harness import compiled

from minip4.engine.engine import Engine

FRAME = bytes.fromhex("020000000002 020000000001 1234") + bytes(46)
OUT = 2


@pytest.fixture
def engine() -> Engine:
    """Return an engine that sends all frames to port 2."""
    engine = Engine(compiled().bmv2_json)
    engine.table_set_default("MyIngress.switching", "MyIngress.forward", [OUT])
    return engine


def test_a_link_loses_and_counts(engine: Engine) -> None:
    engine.set_link(OUT, loss=1.0)
    assert engine.process(1, FRAME, 1000) == []
    counters = engine.port_counters(OUT)
    assert counters["transmitted_packets"] == 1
    assert counters["link"]["lost_packets"] == 1
    assert engine.counters()["transmitted"] == 1


def test_a_queue_before_a_slow_link_drops(engine: Engine) -> None:
    engine.set_link(OUT, rate_bps=8)
    engine.set_queue(OUT, 0, depth_packets=1)
    engine.process(1, b"", 0)  # sets the ports up
    data = FRAME
    with engine.locked():
        for _ in range(4):
            buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
            engine.library.engine_inject(engine.handle, 1, buffer, len(data), 1000)
    assert engine.port_counters(OUT)["queue_drops"] == 2


def test_the_clock_is_shifted(engine: Engine) -> None:
    engine.set_clock(5_000_000, 0, 0)
    engine.process(1, FRAME, 2_000_000)
    assert engine.register_read("MyIngress.last_seen", 0) == 5_002_000


def test_a_counter_holds_all_fields_of_the_structs(engine: Engine) -> None:
    engine.process(1, FRAME, 1000)
    received = engine.port_counters(1)
    assert (received["received_packets"], received["received_bytes"]) == (1, len(FRAME))
    counters = engine.counters()
    assert (counters["received"], counters["transmitted"], counters["in_queues"]) == (1, 1, 0)
