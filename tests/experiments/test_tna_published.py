"""Published TNA programs: models, traces, and comparison with published numbers.

The published programs are not part of the repository. Tests that need them run if the environment
variable PUBLISHED_PROGRAMS names a folder with clones of their repositories.
"""

import os
import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scripts import module, run, samples
from virtual_networks import virtually

from experiments.shared.tna import conquest, fcm, rtt
from experiments.shared.tna.crc import crc16, crc32, crc32_mpeg2
from experiments.shared.tna.published_cases import (
    CONQUEST,
    FCM,
    FILES,
    REPAIRED,
    RTT,
    SOURCES,
    Finding,
    Setting,
    measure,
    settings,
)
from telemark.session.run import Run

FOLDER = os.environ.get("PUBLISHED_PROGRAMS", "")
CHECK_INPUT = np.frombuffer(b"123456789" * 2, np.uint8).reshape(2, 9)

needs_programs = pytest.mark.skipif(
    not FOLDER, reason=f"PUBLISHED_PROGRAMS is not set: needs a folder with {SOURCES}"
)


def measured(folder: Path, program: str, parameter: float, programs: str) -> dict[str, float]:
    setting = Setting(program, programs, parameter)

    async def main(run: Run) -> list[Finding]:
        return await measure(setting, run)

    return {each.metric: each.value for each in virtually(folder, main)}


@pytest.mark.parametrize("given", [(), ("--programs", ".")])
def test_a_missing_folder_or_file_is_reported_with_its_source(given: tuple[str, ...]) -> None:
    done = run("tna_published", *given)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("tna_published: error: argument --programs: ")
    assert fcm.SOURCE in line
    assert rtt.SOURCE in line


def test_crcs_of_many_messages() -> None:
    assert crc32(CHECK_INPUT).tolist() == 2 * [zlib.crc32(b"123456789")]
    assert crc16(CHECK_INPUT).tolist() == 2 * [0xBB3D]
    assert crc32_mpeg2(CHECK_INPUT).tolist() == 2 * [0x0376E6E7]


def test_leaves_are_those_of_the_published_control_plane() -> None:
    # values in fcm_p416/ptf/fcm_utils.py for 192.168.1.1
    found = fcm.leaves(np.array([0xC0A80101], np.uint32))
    assert [leaf.tolist() for leaf in found] == [[408_597], [465_664]]


@pytest.mark.parametrize("size", [1, 254, 255, 256, 65_788, 65_789, 65_790, 1_000_000])
def test_a_flow_is_counted_up_to_the_limit(size: int) -> None:
    address, sizes = np.array([7], np.uint32), np.array([size])
    state = fcm.model(address, sizes)
    assert state.estimates(address).tolist() == [min(size, fcm.LIMIT)]
    assert state.in_use == 2


def test_each_different_counter_is_counted() -> None:
    address, sizes = np.array([7], np.uint32), np.array([1])
    right, wrong = (fcm.model(address, sizes) for _ in range(2))
    wrong.trees[0][0][3] += 1
    wrong.trees[1][2][3] += 1
    assert right.differences(replace(wrong, in_use=3)) == 3
    assert right.differences(right) == 0


def test_the_trace_of_flows_has_their_sizes() -> None:
    addresses, sizes, packets = fcm.trace(1000, 1)
    assert np.bincount(packets).tolist() == sizes.tolist()
    assert sizes.sum() == 1000 * fcm.PACKETS_PER_FLOW
    assert len(set(addresses.tolist())) == len(sizes)


def test_the_number_of_flows_follows_theory() -> None:
    random = np.random.default_rng(1)
    addresses = random.choice(1 << 32, 50_000, replace=False).astype(np.uint32)
    found = fcm.model(addresses, np.ones(50_000, np.int64)).cardinality()
    assert abs(found / 50_000 - 1) < 4 * fcm.cardinality_deviation(50_000)


def test_count_min_is_never_too_small() -> None:
    sizes = np.arange(1, 50_001)
    found = fcm.count_min(sizes, np.random.default_rng(1))
    assert (found >= sizes).all()
    assert fcm.relative_error(found, sizes) > 0


def test_data_packets_and_acks_have_the_same_key() -> None:
    packets = rtt.trace(1e7, 1)
    keys: dict[int, bytes] = {}
    for number, is_ack, key in zip(
        packets.number.tolist(), packets.is_ack, packets.keys, strict=True
    ):
        if is_ack:
            assert keys.pop(number) == key.tobytes()  # the data packet was sent before
        else:
            keys[number] = key.tobytes()
    assert len(keys) < len(packets.data_times_ns)


def test_frames_carry_the_key() -> None:
    packets = rtt.trace(1e7, 1)
    for is_ack in (False, True):
        index = int(np.flatnonzero(packets.is_ack == is_ack)[5])
        frame, key = Ether(packets.frames[index]), packets.keys[index].tobytes()
        ip, tcp = frame[IP], frame[TCP]
        ends = [(ip.src, tcp.sport), (ip.dst, tcp.dport)]
        number = tcp.ack if is_ack else tcp.seq + ip.len - rtt.HEADERS_BYTES
        (source, sport), (destination, dport) = ends[::-1] if is_ack else ends
        packed = b"".join(bytes(map(int, end.split("."))) for end in (source, destination))
        assert key == packed + b"".join(
            value.to_bytes(size, "big") for value, size in ((sport, 2), (dport, 2), (number, 4))
        )


def packets_of(*rows: tuple[int, bool, int]) -> rtt.Trace:
    """Return packets as (time, is ACK, number); the number is also the key."""
    times, acks, numbers = (np.array(column) for column in zip(*rows, strict=True))
    keys = np.zeros((len(rows), 16), np.uint8)
    keys[:, 15] = numbers
    return rtt.Trace(times, acks, numbers, times, [], keys)


def test_an_ack_takes_its_data_packet_out_of_the_table() -> None:
    packets = packets_of((5, False, 1), (9, True, 1), (10, True, 1))
    state = rtt.model(packets)
    assert state.verdicts.tolist() == [rtt.STORED, rtt.SAMPLE, rtt.UNMATCHED]
    assert not state.tables.any()


def test_two_tables_store_a_key_twice_and_a_third_one_replaces_an_old_one() -> None:
    late = 5 + rtt.EXPIRY_NS
    state = rtt.model(packets_of((5, False, 1), (6, False, 1), (late, False, 1)))
    assert sorted(state.tables[..., 1].ravel().tolist())[-2:] == [5, 6]
    state = rtt.model(packets_of((5, False, 1), (6, False, 1), (late + 1, False, 1)))
    assert sorted(state.tables[..., 1].ravel().tolist())[-2:] == [6, late + 1]


def test_nearly_all_samples_of_a_light_load_are_captured() -> None:
    packets = rtt.trace(1e7, 1)
    captured, available = rtt.captured(packets, rtt.model(packets).verdicts)
    assert available > 100
    assert captured / available > 0.99


def conquest_trace(*rows: tuple[int, int, int]) -> conquest.Trace:
    """Return packets as (time, size of the frame, flow)."""
    times, sizes, flow = (np.array(column) for column in zip(*rows, strict=True))
    return conquest.Trace(times, sizes, flow, np.arange(10), np.arange(10))


def test_packets_leave_a_queue_one_after_the_other() -> None:
    packets = conquest_trace((5, 100, 1), (6, 1500, 1), (7, 100, 2), (500, 100, 1))
    assert packets.departures_ns().tolist() == [5, 9, 69, 500]


def burst(flows: int, start_ns: int = 0) -> list[tuple[int, int, int]]:
    """Return frames of 1,500 bytes that arrive together. Each waits 60 ns per earlier frame."""
    return [(start_ns, 1500, number % flows) for number in range(2000)]


@pytest.mark.parametrize(("flows", "first"), [(1, 1093), (2, 1093), (50, 2000)])
def test_a_packet_is_heavy_if_its_flow_has_many_bytes_in_a_long_queue(
    flows: int, first: int
) -> None:
    """A packet is heavy if it waits for 65,536 ns and its flow has 64 KiB in the queue.

    Packet 1,093 is the first one that waits for so long. With 50 flows, no flow has 64 KiB.
    """
    heavy = conquest.heavy(conquest_trace(*burst(flows)))
    assert np.flatnonzero(heavy).tolist() == list(range(first, 2000))


@pytest.mark.parametrize("columns", [1, 4])
def test_a_repaired_snapshot_has_the_bytes_of_its_window(columns: int) -> None:
    """A snapshot of the repaired program counts exactly the bytes that leave in its window.

    At most 547 packets leave in a window. The columns are cleaned before they count again.
    """
    packets = conquest_trace(*burst(1))
    hashed = np.full((conquest.ROWS, 2000), columns - 1)
    state = conquest.model(packets, hashed, columns, is_repaired=True)
    counted = np.bincount(packets.departures_ns() // conquest.WINDOW_NS) * 1486
    used = state.cells[:, 0, columns - 1]
    assert sorted(used[used > 0].tolist()) == sorted(counted.tolist())
    assert np.flatnonzero(state.marked).tolist() == list(range(1093, 2000))


def test_as_published_packets_are_counted_in_the_columns_for_cleaning() -> None:
    packets = conquest_trace(*burst(1)[:3])
    state = conquest.model(packets, np.zeros((2, 3), np.int64), 8, is_repaired=False)
    assert state.cells[-1, 0].tolist() == [1486, 1486, 1486, 0, 0, 0, 0, 0]
    assert not state.marked.any()


def test_each_different_cell_and_mark_is_counted() -> None:
    packets = conquest_trace(*burst(1)[:3])
    right, wrong = (conquest.model(packets, np.zeros((2, 3), np.int64), 8, is_repaired=True)
                    for _ in range(2))  # fmt: skip
    wrong.cells[3, 1, 2] += 1
    wrong.marked[1] = True
    assert right.differences(wrong) == 2


def test_the_trace_of_conquest_fits_its_windows() -> None:
    """The longest delay in the trace exceeds MIN_DELAY_NS, but not the windows that are read."""
    packets = conquest.trace(1)
    delays = packets.departures_ns() - packets.times_ns
    assert conquest.MIN_DELAY_NS < delays.max() < (conquest.SNAPSHOTS - 2) * conquest.WINDOW_NS
    assert packets.sources[packets.flow].dtype == np.int64
    frame = Ether(conquest.headers(packets)[7].tobytes())
    ends = frame[IP].src, frame[TCP].sport, frame[IP].len, frame[IP].tos
    flow = packets.flow[7]
    assert ends == (
        ".".join(map(str, int(packets.sources[flow]).to_bytes(4, "big"))),
        packets.ports[flow], packets.sizes[7] - 14, conquest.ECT,
    )  # fmt: skip


SEEDS = "3w5, hdr.a, 4w9, hdr.b, 3w0, hdr.c, 6w33, hdr.d"


def test_the_columns_of_a_flow_are_crcs_of_its_fields_and_of_the_seeds() -> None:
    packets = conquest_trace((0, 100, 7))
    text = "".join(f"hash_{row}_TCP.get({{ {SEEDS} }});" for row in range(conquest.ROWS))
    bits = f"101{7:032b}1001{conquest.NEXT_HOP:032b}000{7:016b}100001{443:016b}"
    message = int(bits, 2).to_bytes(14, "big")
    expected = zlib.crc32(message) % 64
    assert conquest.columns_of(text, packets, 64).tolist() == [[expected], [expected]]


def test_a_repair_exchanges_the_actions_that_select_an_index() -> None:
    text = "action snap_3_select_index_hash(){ a } action snap_3_select_index_cyclic(){ b } " \
           "{ snap_3_select_index_hash; }"  # fmt: skip
    assert conquest.repaired(text) == (
        "action snap_3_select_index_cyclic(){ a } action snap_3_select_index_hash(){ b } "
        "{ snap_3_select_index_hash; }"
    )


def findings(**other: float) -> list[Finding]:
    """Return invented findings; `other` replaces values of metrics."""
    of_fcm = {"different": 0, "error": 0.03, "Count-Min error": 0.1, "cardinality error": 0.001,
              "cardinality deviation": 0.001, "complete long flows": 0}  # fmt: skip
    of_rtt = {"different": 0, "captured": 0.99}
    of_conquest = {"different": 0, "recall": 0.0}
    of_repaired = {"different": 0, "recall": 0.99, "precision": 0.95}
    published = module("tna_published")
    return [
        Finding(program, parameter, 10, metric, other.get(metric.replace(" ", "_"), value))
        for program, parameters, metrics in (
            (FCM, (100, 200), of_fcm), (RTT, (1, published.LINK_GBPS), of_rtt),
            (CONQUEST, (4, 64), of_conquest), (REPAIRED, (4, 64), of_repaired),
        )
        for parameter in parameters for metric, value in metrics.items()
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("other", "failed"),
    [
        ({}, 0), ({"different": 1}, 8), ({"cardinality_error": 0.005}, 2),
        ({"complete_long_flows": 1}, 1),
    ],
)  # fmt: skip
def test_values_unlike_the_model_or_theory_are_found(other: dict[str, float], failed: int) -> None:
    checks = module("tna_published").make_checks(findings(**other))
    assert sum(not check.passed for check in checks) == failed


def test_the_figure_has_the_published_values() -> None:
    published = module("tna_published")
    _, reduced, captured, marks = published.draw(findings()).axes
    (measured_line,) = reduced.get_lines()
    assert measured_line.get_ydata() == pytest.approx([0.7, 0.7])
    drawn = {line.get_label(): (*line.get_xdata(), *line.get_ydata())
             for line in captured.get_lines()}  # fmt: skip
    assert drawn["published"] == (published.LINK_GBPS, published.CAPTURED)
    drawn = {line.get_label(): (*line.get_xdata(), *line.get_ydata()) for line in marks.get_lines()}
    assert drawn["published precision"] == (published.MEMORY_KIB, published.PRECISION)
    assert drawn["precision, repaired"] == (4, 64, 0.95, 0.95)


def test_each_program_has_settings() -> None:
    assert [(each.program, each.parameter) for each in settings("", (1, 2), (3.0,), (4,))] == [
        (FCM, 1), (FCM, 2), (RTT, 3.0), (CONQUEST, 4), (REPAIRED, 4)
    ]  # fmt: skip


@needs_programs
def test_the_state_and_the_published_numbers_are_reproduced(tmp_path: Path) -> None:
    done = run("tna_published", "--time", "virtual", "--quick", "--programs", FOLDER,
               "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr
    assert {row["program"] for row in samples(tmp_path)} == {
        FCM, RTT, CONQUEST, REPAIRED
    }  # fmt: skip
    assert (tmp_path / "tna_published.png").stat().st_size > 10_000


@needs_programs
@pytest.mark.parametrize(
    ("program", "file", "text", "other"),
    [
        (FCM, fcm.PROGRAM, "32w65789: fcm_action_l3_d1();", "32w65790: fcm_action_l3_d1();"),
        (FCM, fcm.PROGRAM, "#define ADD_LEVEL1 0x000000ff", "#define ADD_LEVEL1 0x000000fe"),
        (RTT, rtt.PROGRAM, "(50*1000*1000)", "(40*1000*1000)"),
        (RTT, rtt.PROGRAM, "if(ig_md.table_read==0){ //read failed at table 1",
         "if(ig_md.table_read==1){"),
        (REPAIRED, conquest.PROGRAM, "val = val + SKETCH_INC;", "val = val + SKETCH_INC + 1;"),
        (REPAIRED, conquest.PROGRAM, "{% for i in range(2,CQ_H) %}",
         "{% for i in range(3,CQ_H) %}"),
    ],
    ids=["level 3", "level 2", "expiry", "second table", "bytes", "snapshots"],
)  # fmt: skip
def test_another_program_is_found(
    program: str, file: str, text: str, other: str, tmp_path: Path
) -> None:
    for name in FILES:
        folder = (tmp_path / "programs" / name).parent
        shutil.copytree((Path(FOLDER) / name).parent, folder, dirs_exist_ok=True)
    source = tmp_path / "programs" / file
    assert source.read_text().count(text) == 1
    source.write_text(source.read_text().replace(text, other))
    parameter = {FCM: 50_000, RTT: 0.5, REPAIRED: 4}[program]
    found = measured(tmp_path / "run", program, parameter, str(tmp_path / "programs"))
    assert found["different"] > 0
