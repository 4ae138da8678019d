"""The experiment ampm_quic: its formulas, and runs of the command with and without faults."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scripts import failed_checks, faulty_program, module, run, samples

from controllers.explicit import (
    Connection,
    DelaySamples,
    Direction,
    LossCounts,
    SquareCounts,
    StreamReport,
    TripCounts,
)
from experiments.shared.explicit import truth
from experiments.shared.explicit.path import Setting, StreamResult
from experiments.shared.explicit.truth import Square, StreamTruth, square_truth
from telemark.apps.explicit_bits import BLOCK, SPIN, THRESHOLD, Scheme, SquareBlocks
from telemark.apps.quic import QuicRecord
from telemark.errors import TestbedError

quic = module("ampm_quic")
SHORT = ("--quick", "--time", "virtual", "--duration", "1.6")


def test_every_exact_count_agrees_and_reordering_is_visible(tmp_path: Path) -> None:
    done = run("ampm_quic", *SHORT, "--seed", "7", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    assert len(rows) == 4 * 3 * 2
    lossy = [row for row in rows if row["case"] == "all" and row["scheme"] == "SQL"]
    assert all(row["square_lost"] == row["true_square_lost"] != "0" for row in lossy)
    late = [row for row in rows if row["case"] == "overtaken-by-24" and row["scheme"] == "SQL"
            and row["direction"] == "to_server"]  # fmt: skip
    assert all(int(row["square_lost"]) > 0 == int(row["true_square_lost"]) for row in late)
    assert (tmp_path / "ampm_quic.png").stat().st_size > 10_000


@pytest.mark.parametrize(("file", "right", "wrong", "failed"), [
    ("loss.p4", "here + 1 : here", "here + 2 : here", "Q, in order: streams with wrong counts"),
    ("loss.p4", "number_marked + (bit<64>)stream.bit_2", "number_marked + 1",
     "L: streams whose marks differ from reported losses"),
    ("delay.p4", "rtt_us = now_us + 1 - last", "rtt_us = now_us + 9000 - last",
     "delay bit: streams with an RTT out of bounds"),
    ("delay.p4", "sample_us = now_us - last_us", "sample_us = now_us + 2 - last_us",
     "spin bit, in order: streams whose RTTs are not path RTT + idle time"),
])  # fmt: skip
def test_a_fault_of_the_observer_is_found(
    tmp_path: Path, file: str, right: str, wrong: str, failed: str
) -> None:
    program = faulty_program(tmp_path, file, right, wrong, "explicit/explicit.p4")
    out = tmp_path / "out"
    done = run("ampm_quic", *SHORT, "--program", program, "--out", str(out))
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed in failed_checks(out)


def test_ground_truth_has_the_blocks_that_an_observer_completes() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        count = rng.integers(1, 12 * BLOCK)
        value = np.arange(count) // BLOCK % 2 == 1
        arrived = rng.random(count) > 0.1
        blocks = SquareBlocks(THRESHOLD)
        sizes = [blocks.receive(bool(each)) for each in value[arrived]]
        complete = [size for size in sizes if size is not None][1:]
        found = square_truth(value, np.flatnonzero(arrived), THRESHOLD, BLOCK)
        assert found == Square(len(complete), sum(complete), is_exact=True)


@pytest.mark.parametrize(("late", "is_exact"), [(0, True), (THRESHOLD, True),
                                                (THRESHOLD + 1, False)])  # fmt: skip
def test_ground_truth_is_exact_up_to_the_threshold(late: int, is_exact: bool) -> None:
    """Ground truth is exact if no packet is later than the threshold.

    Here, the last packet of the second block arrives after `late` packets of the third block.
    """
    value = np.arange(4 * BLOCK) // BLOCK % 2 == 1
    numbers = [*range(4 * BLOCK)]
    numbers.insert(2 * BLOCK - 1 + late, numbers.pop(2 * BLOCK - 1))
    found = square_truth(value, np.array(numbers), THRESHOLD, BLOCK)
    assert found == Square(2, 2 * BLOCK, is_exact)


def test_ground_truth_is_not_exact_if_a_block_was_lost() -> None:
    value = np.arange(5 * BLOCK) // BLOCK % 2 == 1
    numbers = np.delete(np.arange(5 * BLOCK), np.s_[2 * BLOCK : 3 * BLOCK - THRESHOLD])
    assert not square_truth(value, numbers, THRESHOLD, BLOCK).is_exact


def test_loss_of_each_part_is_that_of_its_links() -> None:
    setting = Setting("", 1000, 1, (0.1, 0.2, 0.3, 0.4))
    passed = {
        Direction.TO_SERVER: {"upstream": 0.9, "end-to-end": 0.9 * 0.8,
                              "three-quarters": 0.9 * 0.7 * 0.6},
        Direction.TO_CLIENT: {"upstream": 0.7, "end-to-end": 0.7 * 0.6,
                              "three-quarters": 0.7 * 0.9 * 0.8},
    }  # fmt: skip
    for direction, parts in passed.items():
        for part, expected in parts.items():
            assert 1 - setting.loss(direction, part) == pytest.approx(expected)
        assert 1 - setting.loss(direction, "round-trip") == pytest.approx(0.9 * 0.8 * 0.7 * 0.6)


@pytest.mark.parametrize("packets", [THRESHOLD // 2, THRESHOLD + 1, 2 * THRESHOLD, 3 * THRESHOLD])
def test_the_law_of_cut_blocks_is_what_a_receiver_counts(packets: int) -> None:
    """Late packets cut as many blocks of a square wave as cut_probability() predicts.

    1 % of the packets are held back until `packets` others have overtaken them.
    """
    held, count = 0.01, 2000 * BLOCK
    rng = np.random.default_rng(packets)
    at = np.arange(count) + np.where(rng.random(count) < held, packets + 0.5, 0)
    blocks = SquareBlocks(THRESHOLD)
    sizes = [blocks.receive(bool(number // BLOCK % 2)) for number in np.argsort(at)]
    cut = (len([size for size in sizes if size is not None]) - count // BLOCK) / 2
    chance = quic.cut_probability(Setting("", 1000, 1, held=held, held_packets=packets))
    error = 4 * np.sqrt(count / BLOCK * chance * (1 - chance))
    assert cut == pytest.approx(count / BLOCK * chance, abs=error + 1)


@pytest.mark.parametrize(("packets", "rate", "expected"), [
    (0, 1, True), (2, 1000, True), (2, 500, False), (3, 1000, False),
])  # fmt: skip
def test_late_packets_are_in_time_up_to_both_thresholds(
    packets: int, rate: int, expected: bool
) -> None:
    setting = Setting("", rate, 1, held=0.01, held_packets=packets)
    assert quic.is_in_time(setting) is expected


def test_packets_that_were_never_sent_are_counted_as_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packets that the sender did not send only count as foreign.

    The observer and the receiver each get one forged packet. The receiver rejects another one.
    """
    none, sent = np.array([], np.int64), 3
    nothing = QuicRecord(none.astype(np.uint8), none, none, none, none, -1, 0, 0)
    sender = replace(
        nothing, first_bytes=np.zeros(sent, np.uint8), sent_ns=np.zeros(sent, np.int64)
    )
    receiver = replace(
        sender, received=np.array([0, 2, sent]), received_ns=np.zeros(3, np.int64), invalid=1
    )
    monkeypatch.setattr(truth, "read_numbers", lambda *_: np.array([0, 2**32 - 1, 1]))
    connection = Connection(0, ("10.0.0.1", 1), ("10.0.0.2", 2), Scheme.SQL)
    records = {Direction.TO_SERVER: sender, Direction.TO_CLIENT: receiver}
    found = truth.read_truth(tmp_path, connection, Direction.TO_SERVER, records)
    assert (found.foreign, found.arrived, found.delivered) == (3, 2, 2)


def host(sent: str, received: str) -> QuicRecord:
    """Return the record of a host from lists of times and spin bits, such as "0:0 5:1"."""
    times, spin = zip(*(map(int, each.split(":")) for each in sent.split()), strict=True)
    received_ns = [int(time) for time in received.split()]
    none = np.array([], np.int64)
    return QuicRecord(
        SPIN * np.array(spin, np.uint8), np.array(times), np.arange(len(received_ns)),
        np.array(received_ns), none, -1, 0, 0,
    )  # fmt: skip


def test_idle_time_is_the_time_that_an_edge_waits_at_both_hosts() -> None:
    """The idle time of a spin period is the sum of the times that edges wait at both hosts.

    The delay in each direction is 10 ns.
    """
    client = host("0:0 9:0 25:1 60:1 71:0 99:1", "25 33 50 61 97")
    server = host("15:0 23:0 40:1 51:1 87:0", "10 19 35 70 81 109")
    # edges of the client wait 0, 71 - 50 and 99 - 97 ns, edges of the server 40 - 35 and 87 - 81 ns
    assert truth.spin_idle_ns(client, server).tolist() == [5 + 21, 6 + 2]
    assert truth.spin_idle_ns(server, client).tolist() == [21 + 6]
    assert np.diff([25, 71, 99]).tolist() == [20 + 5 + 21, 20 + 6 + 2]


@pytest.mark.parametrize("peer", [host("15:0 23:0", "10 19"), host("15:0", "")])
def test_edges_that_forged_packets_caused_have_no_idle_time(peer: QuicRecord) -> None:
    """Edges have no idle time if the packets that caused them were forged.

    The peer has not sent the packet numbers that the client has received.
    """
    client = replace(host("0:0 9:0 25:1 60:0 71:1", "25 33"), received=np.array([7, 8]))
    assert truth.spin_idle_ns(client, peer).tolist() == []
    assert truth.spin_idle_ns(peer, client).tolist() == []


def test_a_spin_bit_without_idle_time_breaks_the_law() -> None:
    for idle_ns, holds in (([7000, 9000], True), ([7000, 9900], True), ([7000, 6000], False),
                           ([7000], False), ([], False)):  # fmt: skip
        found = stream(Setting("pauses", 1000, 1, pause_ms=1))
        spin = DelaySamples(2, 80_016, 40_007, 40_009)
        found = replace(
            found, report=replace(found.report, spin=spin),
            truth=replace(found.truth, idle_ns=np.array(idle_ns)),
        )  # fmt: skip
        checks = {check.name: check for check in quic.delay_checks([found])}
        name = "spin bit, in order: streams whose RTTs are not path RTT + idle time"
        assert checks[name].passed is holds


def test_an_arrival_that_was_never_sent_fails_the_check() -> None:
    name = "arrivals that the sender did not send (packets)"
    for foreign in (0, 1):
        checks = {check.name: check for check in quic.exact_checks([stream(foreign=foreign)])}
        assert checks[name].passed == (foreign == 0)


def stream(
    setting: Setting | None = None, scheme: Scheme = Scheme.SQL, foreign: int = 0
) -> StreamResult:
    """Return the result of a stream in which the observer and the hosts measured nothing."""
    setting = setting or Setting("none", 1000, 1)
    delay, square = DelaySamples(0, 0, 0, 0), SquareCounts(0, 0, BLOCK)
    report = StreamReport(
        delay, delay, delay, square, square, LossCounts(0, 0), TripCounts(0, 0, 0)
    )
    none = Square(0, 0, is_exact=True)
    real = StreamTruth(1, 0, 0, none, none, 0, 0, 0, 0, 0, 0, foreign, np.array([], np.int64))
    return StreamResult(setting, 1, scheme, Direction.TO_SERVER, report, real)


def test_checks_of_streams_that_show_nothing_fail() -> None:
    settings = (
        Setting("none", 1000, 1),
        Setting("overtaken-by-24", 1000, 1, held=0.01, held_packets=24),
    )
    results = [stream(setting, scheme) for setting in settings for scheme in Scheme]
    checks = [*quic.exact_checks(results), *quic.delay_checks(results)]
    passed = [check.name for check in checks if check.passed]
    assert passed == ["arrivals that the sender did not send (packets)"]


@pytest.mark.parametrize(("marked", "level", "passed"), [
    (98, quic.LEVEL, True), (92, quic.LEVEL, False), (92, quic.REAL_LEVEL, True),
    (70, quic.REAL_LEVEL, False),
])  # fmt: skip
def test_loss_ratios_fail_below_the_level(marked: int, level: float, passed: bool) -> None:
    """The check fails if the number of lost packets has a probability below the level.

    The first link loses 2 % of the packets. `marked` of 100 packets with bit L have arrived.
    """
    found = stream(Setting("upstream", 1000, 1, (0.02, 0, 0, 0)))
    report = replace(found.report, loss=LossCounts(1000, marked))
    found = replace(found, report=report, truth=replace(found.truth, marked=100))
    assert quic.loss_check([found], level).passed is passed


def test_p_values_without_packets_fail() -> None:
    lossy = Setting("all", 1000, 1, (0.02, 0.02, 0.02, 0.02))
    assert not quic.loss_check([stream(lossy, scheme) for scheme in Scheme], 1e-6).passed
    late = Setting("overtaken-by-24", 1000, 1, held=0.01, held_packets=24)
    assert not quic.reordering_check([stream(late, Scheme.SQR)]).passed


@pytest.mark.parametrize("options", [(), ("--quick",)])
def test_a_duration_below_the_minimum_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    least = "1.6" if options else "3.7"
    done = run("ampm_quic", "--time", "virtual", *options, "--duration", "0.0001",
               "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 2
    assert f"--duration 0.0001: expected at least {least} s" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("options", "words"), [
    ({"time": "virtual", "rate": 999}, "--rate 999: expected at least 1000 packets/s in virtual"),
    ({"rate": 85}, "85 packets/s for 3 s: expected at least 256 packets per endpoint, got 255"),
    ({"rate": 62, "target": "bmv2"}, "duration; the capacity probe of bmv2 lowered the rate"),
])  # fmt: skip
def test_a_rate_below_the_minimum_is_refused(options: dict[str, object], words: str) -> None:
    asked = {"time": "real", "target": "minip4", "duration": 3.0} | options
    with pytest.raises(TestbedError) as error:
        quic.reject_slow(Namespace(**asked))
    assert words in str(error.value)


@pytest.mark.parametrize(("time", "rate"), [("virtual", 1000), ("real", 86)])
def test_the_minimum_rate_is_accepted(time: str, rate: int) -> None:
    quic.reject_slow(Namespace(time=time, rate=rate, duration=3.0, target="minip4"))


def test_the_axis_of_pauses_has_a_label_per_pause() -> None:
    settings = [
        Setting("none", 1000, 1),
        *(Setting(f"{ms:g}", 1000, 1, pause_ms=ms) for ms in quic.SWEPT_PAUSES_MS),
    ]
    figure = quic.draw([stream(setting, Scheme.SDT) for setting in settings])
    labels = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert labels == ["0", "3", "10", "30", "100", "300"]
