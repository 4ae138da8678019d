"""Deflection on drop: a packet that a full queue drops passes egress, which may clone it."""

import ctypes

import pytest
from small_programs import engine

from minip4.engine.engine import Engine

TYPES = """header h_t {
    bit<8> way; bit<8> number; bit<8> kept; bit<8> kind; bit<8> port; bit<8> queue; bit<8> before;
    bit<8> behind; bit<16> waited; bit<32> enqueued; bit<32> left; bit<32> arrived; }"""
INGRESS = """
    meta.kept = hdr.h.number + 100;
    std.priority = 2;
    std.egress_spec = 2;
    if (hdr.h.way == 1) { std.mcast_grp = 7; }
    if (hdr.h.way >= 2) { std.egress_spec = 3; }
    if (hdr.h.way == 3) { clone(CloneType.I2E, 5); }
"""
# Egress writes values of a packet into its header. Egress does not change a clone, which therefore
# has the values and the length of its packet.
EGRESS = """
    if (std.instance_type != 2) {
        hdr.h.kept = meta.kept; hdr.h.kind = (bit<8>)std.instance_type;
        hdr.h.port = (bit<8>)std.egress_port; hdr.h.queue = (bit<8>)std.priority;
        hdr.h.before = (bit<8>)std.enq_qdepth; hdr.h.behind = (bit<8>)std.deq_qdepth;
        hdr.h.waited = (bit<16>)std.deq_timedelta; hdr.h.enqueued = std.enq_timestamp;
        hdr.h.left = (bit<32>)std.egress_global_timestamp;
        hdr.h.arrived = (bit<32>)std.ingress_global_timestamp;
    }
    if (std.instance_type == 7 || (std.instance_type == 0 && hdr.h.way == 2)) {
        clone(CloneType.E2E, 5);
    }
"""
SIZE = 22
OUT, ELSEWHERE, REPORTS = 2, 3, 9
DEFLECTED = 7


class Bench:
    """A switch whose port 2 sends a packet per millisecond; the queue has room for two packets.

    Clones leave by port 9.
    """

    def __init__(self, *, is_on: bool = True) -> None:
        self.engine: Engine = engine(
            types=TYPES, metadata="bit<8> kept;", ingress=INGRESS, egress=EGRESS
        )
        self.engine.set_priorities(4)
        self.engine.process(1, bytes(SIZE), 0)  # sets the ports up
        self.engine._taken()
        self.engine.clock = lambda: 0
        self.queue(OUT, depth_packets=2, rate_pps=1000)
        self.engine.mirror_set(5, [(REPORTS, 0)])
        self.engine.multicast_set(7, [(OUT, 1), (ELSEWHERE, 2)])
        self.engine.deflect_on_drop(is_on=is_on)

    def queue(self, port: int, **config: int) -> None:
        self.engine.set_queue(port, 2, **config)

    def send(self, number: int, time_us: int, way: int = 0) -> None:
        data = (ctypes.c_uint8 * SIZE)(way, number)
        assert self.engine.library.engine_inject(self.engine.handle, 1, data, SIZE, 1000 * time_us)

    def left(self) -> list[tuple[int, dict[str, int]]]:
        """Return all sent frames: the port, and the values that egress wrote into the frame."""
        self.engine.library.engine_advance(self.engine.handle, 10**12)
        return [(port, decoded(frame)) for port, frame in self.engine._taken()]

    def reported(self) -> list[int]:
        return [seen["number"] for port, seen in self.left() if port == REPORTS]

    def accounting(self) -> dict[str, int]:
        """Return the counters of the engine. Assert that the counters account for every packet."""
        counts = self.engine.counters()
        drops = sum(n for name, n in counts.items() if name.endswith("_drops"))
        assert counts["received"] + counts["replicas"] == counts["transmitted"] + drops
        assert counts["in_queues"] == 0
        return counts


def decoded(frame: bytes) -> dict[str, int]:
    sizes = {"way": 1, "number": 1, "kept": 1, "kind": 1, "port": 1, "queue": 1, "before": 1,
             "behind": 1, "waited": 2, "enqueued": 4, "left": 4, "arrived": 4}  # fmt: skip
    result, at = {}, 0
    for name, size in sizes.items():
        result[name] = int.from_bytes(frame[at : at + size], "big")
        at += size
    return result


def test_egress_sees_which_queue_was_full_and_when() -> None:
    bench = Bench()
    for number in range(4):
        bench.send(number, 5000 + number)
    [seen] = [seen for port, seen in bench.left() if port == REPORTS]
    assert seen == {
        "way": 0, "number": 3, "kept": 103, "kind": DEFLECTED, "port": OUT, "queue": 2, "before": 2,
        "behind": 2, "waited": 0, "enqueued": 5003, "left": 5003, "arrived": 5003,
    }  # fmt: skip


def test_each_drop_is_reported_and_counted_once() -> None:
    bench = Bench()
    for number in range(50):
        bench.send(number, 10 * number)
    left = bench.left()
    passed = [seen["number"] for port, seen in left if port == OUT]
    told = [seen["number"] for port, seen in left if port == REPORTS]
    assert sorted(passed + told) == list(range(50))
    assert (len(passed), len(told)) == (3, 47)
    assert bench.accounting()["queue_drops"] == 47
    assert bench.engine.drops()[str(OUT)]["queue"] == 47


def test_no_drop_is_reported_by_default() -> None:
    bench = Bench(is_on=False)
    for number in range(10):
        bench.send(number, 10)
    assert bench.reported() == []
    assert bench.accounting()["queue_drops"] == 7


def test_drops_of_clones_are_not_reported() -> None:
    """A clone that the queue of port 9 drops is not deflected.

    Otherwise, egress would clone the clone. The new clone would be dropped and cloned, too, without
    end.
    """
    bench = Bench()
    bench.queue(REPORTS, depth_packets=1, rate_pps=1)
    for number in range(10):
        bench.send(number, 10)
    assert bench.reported() == [3, 4]
    assert bench.engine.drops()[str(REPORTS)]["queue"] == 5


@pytest.mark.parametrize("way", [2, 3], ids=["E2E", "I2E"])
def test_nor_is_any_other_clone(way: int) -> None:
    bench = Bench()
    bench.engine.set_queue(REPORTS, 0, depth_packets=1, rate_pps=1)
    bench.queue(REPORTS, depth_packets=1, rate_pps=1)
    for number in range(10):
        bench.send(number, 10, way=way)
    assert bench.reported() == [0, 1]
    assert bench.accounting()["queue_drops"] == 8


def test_other_copies_of_a_dropped_packet_are_as_they_would_have_been() -> None:
    bench = Bench()
    for number in range(3):
        bench.send(number, 0)
    bench.send(9, 0, way=1)
    seen = {port: seen for port, seen in bench.left() if seen["number"] == 9}
    assert seen.keys() == {REPORTS, ELSEWHERE}
    assert (seen[REPORTS]["kind"], seen[REPORTS]["port"]) == (DEFLECTED, OUT)
    assert (seen[ELSEWHERE]["kind"], seen[ELSEWHERE]["kept"]) == (5, 109)
    bench.accounting()


@pytest.mark.parametrize("depth_bytes", [2 * SIZE, 3 * SIZE - 1])
def test_a_queue_may_be_full_of_bytes(depth_bytes: int) -> None:
    bench = Bench()
    bench.queue(OUT, depth_packets=64, depth_bytes=depth_bytes, rate_pps=1000)
    for number in range(4):
        bench.send(number, 0)
    assert bench.reported() == [3]
