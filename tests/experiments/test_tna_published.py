"""Published TNA programs: models, traces, and comparison with published numbers.

The published programs are not part of the repository. Tests that need them run if the environment
variable PUBLISHED_PROGRAMS names a folder with clones of their repositories.
"""

import argparse
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

from experiments.shared.tna import fcm, rtt
from experiments.shared.tna.crc import crc16, crc32, crc32_mpeg2
from experiments.shared.tna.published_cases import (
    FCM,
    FILES,
    RTT,
    SOURCES,
    Finding,
    Setting,
    measure,
    settings,
)
from telemark.errors import TestbedError
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


def test_real_time_is_refused(tmp_path: Path) -> None:
    experiment = module("tna_published").experiment
    with pytest.raises(TestbedError, match="use --time virtual"):
        virtually(tmp_path, lambda run: experiment(argparse.Namespace(time="real"), run))


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


def findings(**other: float) -> list[Finding]:
    """Return invented findings; `other` replaces values of metrics."""
    of_fcm = {"different": 0, "error": 0.03, "Count-Min error": 0.1, "cardinality error": 0.001,
              "cardinality deviation": 0.001, "complete long flows": 0}  # fmt: skip
    of_rtt = {"different": 0, "captured": 0.99}
    published = module("tna_published")
    return [
        Finding(program, parameter, 10, metric, other.get(metric.replace(" ", "_"), value))
        for program, parameters, metrics in (
            (FCM, (100, 200), of_fcm), (RTT, (1, published.LINK_GBPS), of_rtt)
        )
        for parameter in parameters for metric, value in metrics.items()
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("other", "failed"),
    [
        ({}, 0), ({"different": 1}, 4), ({"cardinality_error": 0.005}, 2),
        ({"complete_long_flows": 1}, 1),
    ],
)  # fmt: skip
def test_values_unlike_the_model_or_theory_are_found(other: dict[str, float], failed: int) -> None:
    checks = module("tna_published").make_checks(findings(**other))
    assert sum(not check.passed for check in checks) == failed


def test_the_figure_has_the_published_values() -> None:
    published = module("tna_published")
    _, reduced, captured = published.draw(findings()).axes
    (measured_line,) = reduced.get_lines()
    assert measured_line.get_ydata() == pytest.approx([0.7, 0.7])
    drawn = {line.get_label(): (*line.get_xdata(), *line.get_ydata())
             for line in captured.get_lines()}  # fmt: skip
    assert drawn["published"] == (published.LINK_GBPS, published.CAPTURED)


def test_each_program_has_settings() -> None:
    assert [(each.program, each.parameter) for each in settings("", (1, 2), (3.0,))] == [
        (FCM, 1), (FCM, 2), (RTT, 3.0)
    ]  # fmt: skip


@needs_programs
def test_the_state_and_the_published_numbers_are_reproduced(tmp_path: Path) -> None:
    done = run("tna_published", "--time", "virtual", "--quick", "--programs", FOLDER,
               "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr
    assert {row["program"] for row in samples(tmp_path)} == {FCM, RTT}
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
    ],
    ids=["level 3", "level 2", "expiry", "second table"],
)  # fmt: skip
def test_another_program_is_found(
    program: str, file: str, text: str, other: str, tmp_path: Path
) -> None:
    for name in FILES:
        folder = (tmp_path / "programs" / name).parent
        shutil.copytree((Path(FOLDER) / name).parent, folder)
    source = tmp_path / "programs" / file
    assert source.read_text().count(text) == 1
    source.write_text(source.read_text().replace(text, other))
    parameter = {FCM: 50_000, RTT: 0.5}[program]
    found = measured(tmp_path / "run", program, parameter, str(tmp_path / "programs"))
    assert found["different"] > 0
