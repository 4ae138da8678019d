"""The programs in the kernel: their records of a stream equal exact values of this stream."""

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from statistics_models import find_classes, find_minima, find_registers, make_sketch
from streams import thrown_after

from ebpf.loader import load, run
from ebpf.statistics import exact, quantiles
from ebpf.statistics.flows import Fields, Flows, unpack_keys
from ebpf.statistics.frequent import Frequent
from ebpf.statistics.hashes import draw_factors, hash_keys
from ebpf.statistics.offer import UDP, load_stream, make_keys
from ebpf.statistics.program import Kept, Setting, Statistics, Window, load_statistics
from ebpf.statistics.totals import Totals

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="BPF needs root")

SEED = 9
SLOW = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
__u32 began, ended;
static long step(__u32 i, void *nothing) { return i > 1 << 24 || nothing; }
SEC("xdp") int slow(struct xdp_md *ctx __attribute__((unused)))
{
    began = 1;
    for (int i = 0; i < 4; i++)
        bpf_loop(1 << 23, step, 0, 0);
    ended = 1;
    return XDP_PASS;
}
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"""


@pytest.fixture(scope="module")
def whole(stream) -> Iterator[Window]:
    """Return a window with all kinds of statistics of the whole stream."""
    with (
        load_stream(stream.rows) as offer,
        load_statistics(Setting(Kept.ALL, seed=SEED)) as statistics,
    ):
        offer.through(statistics.at_xdp, len(stream.rows))
        yield statistics.flip()


def hashed(flows: Flows) -> NDArray[np.uint64]:
    return hash_keys(flows.keys, draw_factors(SEED))


def test_totals_are_those_of_the_packets(whole, stream) -> None:
    lengths = stream.rows["length"].astype(np.int64)
    found = whole.totals
    assert found == Totals(len(lengths), int(lengths.sum()), int((lengths**2).sum()), 0, 0)
    assert float(found.variance) == pytest.approx(exact.variance(lengths), rel=1e-12)


def test_counters_have_every_flow_with_its_fields_and_packets(whole, stream) -> None:
    packets = Flows.summed(make_keys(stream.rows), np.ones(len(stream.rows)))
    assert whole.counted.as_dict() == packets.as_dict()
    assert sorted(packets.counts) == sorted(exact.counts(stream.flows))
    fields = unpack_keys(whole.counted.keys)
    assert all(bytes(each["source"])[:12] == bytes(10) + b"\xff\xff" for each in fields)
    assert set(fields["protocol"]) == {UDP}


def test_the_histogram_is_that_of_the_lengths(whole, stream) -> None:
    lengths = stream.rows["length"].astype(np.int64)
    classes = np.bincount(find_classes(lengths), minlength=quantiles.CLASSES)
    assert (whole.lengths.counts == classes).all()


def test_sets_are_those_of_the_flows_hashes(whole) -> None:
    counts = whole.counted.counts
    minima = find_minima(hashed(whole.counted), counts)
    assert (whole.registers.ranks == find_registers(hashed(whole.counted)).ranks).all()
    assert (whole.minima.hashes == minima.hashes).all()
    assert (whole.minima.counts == minima.counts).all()
    sketch = make_sketch(hashed(whole.counted), counts)
    assert (whole.sketch.counters == sketch.counters).all()


def test_no_heavy_flow_has_more_than_it_had(whole) -> None:
    true, found = whole.counted.as_dict(), whole.heavy.as_dict()
    assert len(found) > 500
    assert all(count <= true[flow] for flow, count in found.items())


def test_the_sample_is_that_of_algorithm_r(stream) -> None:
    lengths = stream.rows["length"].tolist()
    with load_stream(stream.rows) as offer, load_statistics(Setting(Kept.SAMPLES)) as statistics:
        before = statistics.buffers.states.copy()
        offer.through(statistics.at_xdp, len(lengths))
        used = np.flatnonzero(statistics.buffers.states != before)[0]
        sample = statistics.flip().sample
    throws = (thrown_after(int(before[used]), len(lengths)) >> np.uint64(32)).tolist()
    expected = lengths[:512]
    for seen in range(512, len(lengths)):
        place = throws[seen] * (seen + 1) >> 32
        if place < 512:
            expected[place] = lengths[seen]
    assert sample.seen == len(lengths)
    assert sorted(sample.lengths) == sorted(expected)


def test_what_two_processors_counted_adds_up(whole, stream) -> None:
    if len(processors := sorted(os.sched_getaffinity(0))) < 2:
        pytest.skip("one processor")
    half = len(stream.rows) // 2
    with load_statistics(Setting(Kept.ALL, seed=SEED)) as statistics:
        try:
            for processor, part in zip(processors, (slice(half), slice(half, None)), strict=False):
                os.sched_setaffinity(0, {processor})
                with load_stream(stream.rows[part]) as offer:
                    offer.through(statistics.at_xdp, half)
        finally:
            os.sched_setaffinity(0, processors)
        both = statistics.flip()
    assert both.totals == whole.totals
    assert both.counted.as_dict() == whole.counted.as_dict()
    assert (both.registers.ranks == whole.registers.ranks).all()
    assert (both.minima.hashes == whole.minima.hashes).all()
    assert (both.minima.counts == whole.minima.counts).all()
    assert (both.sketch.counters == whole.sketch.counters).all()
    assert (both.lengths.counts == whole.lengths.counts).all()
    assert (both.sample.seen, len(both.sample.lengths)) == (len(stream.rows), 512)
    true = whole.counted.as_dict()
    assert all(count <= true[flow] for flow, count in both.heavy.as_dict().items())


def test_windows_add_up(whole, stream) -> None:
    part = len(stream.rows) // 4
    with load_statistics(Setting(Kept.ALL, seed=SEED)) as statistics:
        windows = []
        for start in range(0, len(stream.rows), part):
            with load_stream(stream.rows[start : start + part]) as offer:
                offer.through(statistics.at_xdp, part)
            windows.append(statistics.flip())
        empty = statistics.flip()
    summed = windows[0] + windows[1] + windows[2] + windows[3]
    assert summed.totals == whole.totals
    assert summed.counted.as_dict() == whole.counted.as_dict()
    assert (summed.minima.counts == whole.minima.counts).all()
    assert empty.totals == Totals(0, 0, 0, 0, 0)
    assert len(empty.counted) == len(empty.heavy) == empty.sample.seen == empty.minima.used == 0


def test_flips_under_load_lose_no_packet(stream) -> None:
    rounds, windows = 0, []
    with load_stream(stream.rows) as offer, load_statistics(Setting(Kept.COUNTERS)) as statistics:

        def run_rounds() -> None:
            nonlocal rounds
            # on a loaded machine, the first flips may be late
            while rounds < 10 or sum(bool(window.totals.packets) for window in windows) < 2:
                offer.through(statistics.at_xdp, len(stream.rows))
                rounds += 1

        thread = threading.Thread(target=run_rounds)
        thread.start()
        while thread.is_alive():
            windows.append(statistics.flip())
        thread.join()
        windows.append(statistics.flip())
    filled = [window for window in windows if window.totals.packets]
    assert len(filled) > 1
    assert sum(window.totals.packets for window in filled) == rounds * len(stream.rows)
    whole = filled[0].counted
    for window in filled[1:]:
        whole += window.counted
    assert sorted(whole.counts) == sorted(rounds * exact.counts(stream.flows))


def test_a_flip_waits_for_programs_that_run(tmp_path) -> None:
    """flip() returns only after all programs have ended that were running when it was called.

    Such a program may have read the number of the active buffer before flip() changed it. It could
    still write to this buffer while the buffer is read.
    """
    source = tmp_path / "slow.bpf.c"
    source.write_text(SLOW)
    with load(source) as loaded, load_statistics(Setting(Kept(0))) as statistics:
        state = loaded.maps[".bss"].mapped()
        for _ in range(10):  # this thread may be late, and call flip() after the program ended
            state["began"] = state["ended"] = 0
            thread = threading.Thread(target=run, args=(loaded.programs["slow"], bytes(60)))
            thread.start()
            while not state["began"][0]:
                pass
            was_running = not state["ended"][0]
            statistics.flip()
            has_ended = state["ended"][0]
            thread.join()
            assert has_ended
            if was_running:
                return
    pytest.fail("the program was over before each flip")


def test_flows_without_a_place_are_counted_and_in_the_bound(stream) -> None:
    with (
        load_stream(stream.rows) as offer,
        load_statistics(Setting(Kept.COUNTERS, groups=2)) as statistics,
    ):
        offer.through(statistics.at_xdp, len(stream.rows))
        window = statistics.flip()
    packets = int(window.counted.counts.sum())
    assert len(window.counted) == 16
    assert packets + window.totals.uncounted == len(stream.rows)
    frequent = Frequent(20, 1)
    frequent.add(window.counted, window.totals.uncounted)
    true = exact.counts(stream.flows)
    assert frequent.delta == window.totals.uncounted
    assert (true > 2 * frequent.delta).sum() <= len(frequent.reported())


def test_a_table_that_is_more_than_half_full_has_a_place_for_nearly_each_flow(stream) -> None:
    setting = Setting(Kept.COUNTERS, groups=512)
    with load_stream(stream.rows) as offer, load_statistics(setting) as statistics:
        offer.through(statistics.at_xdp, len(stream.rows))
        window = statistics.flip()
    distinct = len(exact.counts(stream.flows))
    assert distinct > 0.57 * 512 * 8
    assert distinct - len(window.counted) < 5  # 40 or more flows find their first group full


def test_a_key_has_the_selected_fields_alone(stream) -> None:
    setting = Setting(Kept.COUNTERS, Fields.SOURCE | Fields.DESTINATION_PORT)
    with load_stream(stream.rows) as offer, load_statistics(setting) as statistics:
        offer.through(statistics.at_xdp, len(stream.rows))
        fields = unpack_keys(statistics.flip().counted.keys)
    assert {bytes(each) for each in fields["destination"]} == {bytes(16)}
    assert not fields["source_port"].any()
    assert not fields["protocol"].any()
    assert set(fields["destination_port"]) == set(stream.rows["destination_port"])


def test_tc_counts_what_xdp_counts(stream) -> None:
    frames = [frame_of(row) for row in stream.rows[:300]]
    with load_statistics(Setting(Kept.ALL, seed=SEED)) as statistics:
        at_tc = counted_by(statistics, statistics.at_tc, frames)
        at_xdp = counted_by(statistics, statistics.at_xdp, frames)
    assert at_tc.totals == at_xdp.totals
    assert at_tc.totals.packets == len(frames)
    assert at_tc.counted.as_dict() == at_xdp.counted.as_dict()
    assert (at_tc.lengths.counts == at_xdp.lengths.counts).all()


def test_packets_of_any_bytes_are_counted_or_ignored() -> None:
    rng = np.random.default_rng(SEED)
    with load_statistics(Setting(Kept.ALL)) as statistics:
        for _ in range(2000):
            frame = bytearray(rng.bytes(int(rng.integers(14, 200))))
            frame[12:14] = [b"\x08\x00", b"\x86\xdd", b"\x81\x00", b"\x88\xa8"][rng.integers(4)]
            assert run(statistics.at_xdp, bytes(frame)).verdict == 2
        window = statistics.flip()
    assert window.totals.packets + window.totals.ignored == 2000
    assert window.totals.ignored > 100
    assert window.counted.counts.sum() == window.totals.packets


def frame_of(row: np.void) -> bytes:
    """Return the frame that a row of a stream describes."""
    length = int(row["length"])
    head = bytes(12) + b"\x08\x00\x45\x00" + (length - 14).to_bytes(2, "big") + bytes(4)
    head += b"\x40" + bytes([row["protocol"]]) + bytes(2)
    head += row.tobytes()[:12]  # addresses and ports
    return head + bytes(length - len(head))


def counted_by(statistics: Statistics, program, frames: list[bytes]) -> Window:
    for frame in frames:
        run(program, frame)
    return statistics.flip()
