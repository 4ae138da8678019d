"""Reports that a DTA reporter sends again after NACKs. It can no longer send old reports again."""

import random
from pathlib import Path

import pytest
from reporter_path import (
    ALL,
    APPEND,
    DATA,
    FOLDER,
    KEY_WRITE,
    OUT,
    PLAN,
    START,
    STARTED,
    TO_TRANSLATOR,
    Reporter,
    nack,
    payload,
    prototype_nack,
    udp,
)


def sent(reporter: Reporter, count: int) -> list[bytes]:
    """Let `count` packets of different lengths arrive. Return their reports, as frames."""
    found = []
    for number in range(count):
        for port, frame in reporter.send(udp(number), 7 * number):
            if port == TO_TRANSLATOR:
                found.append(frame)
    return found


def kept(words: int = 7) -> Reporter:
    """Return a reporter that reports all packets, and stores all reports."""
    reporter = Reporter()
    reporter.write_data(words, immediate=1, kept=1)
    reporter.follow(share=ALL)
    return reporter


def again(reporter: Reporter, frame: bytes, time_us: int = 10_000) -> list[bytes]:
    """Return the reports that the reporter sends again after a NACK, in order."""
    out = reporter.send(frame, time_us, TO_TRANSLATOR)
    assert {port for port, _ in out} <= {TO_TRANSLATOR}
    return [frame for _, frame in out]


@pytest.mark.parametrize("words", [1, 3, 7])
def test_missing_reports_are_retransmitted_unchanged(words: int) -> None:
    reporter = kept(words)
    frames = sent(reporter, 10)
    assert again(reporter, nack(3, 4)) == frames[3:7]
    assert again(reporter, nack(9, 1)) == frames[9:]
    assert reporter.events() == {"sent": 10, "nacked": 2, "resent": 5}
    assert sent(reporter, 1)[0][46:50] == (10).to_bytes(4, "big")  # the next report has number 10


def test_numbers_and_rings_of_translators_are_apart() -> None:
    reporter = Reporter(translators=2)
    reporter.write_data(1, kept=1)
    homes: dict[bytes, list[bytes]] = {}
    for dport in range(5000, 5020):
        _, (_, frame) = reporter.send(udp(dport=dport))
        homes.setdefault(frame[30:34], []).append(frame)
    assert len(homes) == 2
    for number in (9, 10):
        frames = homes[bytes([10, 0, 9, number])]
        assert again(reporter, nack(0, len(frames), src=f"10.0.9.{number}")) == frames


def of_two_kinds(kept: int) -> tuple[Reporter, list[bytes]]:
    """Return a reporter, and its reports about two flows: for each an event, and then data.

    Events are stored, and data are stored if `kept` is 1.
    """
    reporter = Reporter()
    reporter.write_data(1, wanted=START | DATA, kept=kept)
    reporter.append(STARTED, 17, kept=1)
    frames = [
        frame for dport in (5000, 5001)
        for port, frame in reporter.send(udp(dport=dport)) if port == TO_TRANSLATOR
    ]  # fmt: skip
    assert [frame[43] for frame in frames] == [APPEND, KEY_WRITE, APPEND, KEY_WRITE]
    return reporter, frames


def test_reports_of_different_kinds_are_sent_again_by_one_nack() -> None:
    reporter, frames = of_two_kinds(kept=1)
    assert again(reporter, nack(0, 4)) == frames


def test_reports_that_are_not_kept_are_not_retransmitted() -> None:
    reporter, frames = of_two_kinds(kept=0)
    assert again(reporter, nack(0, 4)) == [frames[0], frames[2]]
    assert reporter.events() == {"sent": 4, "nacked": 1, "resent": 2, "not stored": 2}


@pytest.mark.parametrize(("first", "count"), [(10, 1), (9, 2), (0, 11), (3, 0), (0, 0xFFFFFFFF),
                                              (11, 1), (0x80000000, 5)])  # fmt: skip
def test_reports_that_were_never_sent_are_counted(first: int, count: int) -> None:
    reporter = kept()
    sent(reporter, 10)
    assert again(reporter, nack(first, count)) == []
    assert reporter.events() == {"sent": 10, "nacked": 1, "never sent": 1}


LOOKUPS, MAX_LOOKUPS = 16, 16 * 1024  # the values in reporter_ring.p4


def test_new_reports_limit_the_retransmissions_for_forged_nacks() -> None:
    """Each new report permits 16 retransmissions, so 10 reports answer only 16 of 50 forged NACKs.

    After the forged NACKs, a lost report is sent again as soon as there is a new report.
    """
    reporter = kept(1)
    frames = sent(reporter, 10)
    again_and_again = [again(reporter, nack(0, 10)) for _ in range(50)]
    assert again_and_again == [frames] * LOOKUPS + [[]] * (50 - LOOKUPS)
    assert reporter.events() == {
        "sent": 10, "nacked": 50, "resent": 10 * LOOKUPS, "over budget": 50 - LOOKUPS,
        "over_budget": 10 * (50 - LOOKUPS),
    }  # fmt: skip
    more = sent(reporter, 1)
    assert again(reporter, nack(0, 11)) == [*frames, *more]
    assert again(reporter, nack(0, 11)) == frames[: LOOKUPS - 11]  # 5 retransmissions remain


def test_the_credit_for_retransmissions_is_limited() -> None:
    reporter = kept(1)
    sent(reporter, 1100)
    for _ in range(20):
        again(reporter, nack(76, 1024))
    assert reporter.events()["resent"] == MAX_LOOKUPS


def test_nacks_of_others_pass() -> None:
    reporter = kept()
    sent(reporter, 10)
    frame = bytes.fromhex("020000000002") + nack(3, 4, src="10.0.9.77")[6:]
    assert reporter.send(frame, port=TO_TRANSLATOR) == [(OUT, frame)]
    assert reporter.events() == {"sent": 10}


def test_damaged_nacks_do_no_harm() -> None:
    reporter, rng = kept(), random.Random(3)
    frames = sent(reporter, 10)
    whole = nack(3, 4)
    for length in range(14, len(whole)):
        assert set(again(reporter, whole[:length])) <= {*frames}
    for _ in range(300):
        bent = bytearray(whole)
        bent[rng.randrange(34, len(whole))] = rng.randrange(256)
        assert set(again(reporter, bytes(bent))) <= {*frames}
    sent(reporter, 1)  # a new report, which permits further retransmissions
    assert again(reporter, whole) == frames[3:7]


@pytest.fixture(scope="module")
def small_ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the reporter's program with a ring for only eight reports."""
    program = tmp_path_factory.mktemp("ring") / "small.p4"
    program.write_text(f'#define DTA_RING 8\n#include "{FOLDER / "reporter.p4"}"\n')
    return program


def test_overwritten_reports_are_counted(small_ring: Path) -> None:
    reporter = Reporter(str(small_ring))
    reporter.write_data(kept=1)
    reporter.follow(share=ALL)
    frames = sent(reporter, 100)
    assert again(reporter, nack(90, 10)) == frames[92:]
    assert reporter.events() == {"sent": 100, "nacked": 1, "resent": 8, "evicted": 2}
    assert again(reporter, nack(20, 75)) == frames[92:95]
    assert reporter.events() == {"sent": 100, "nacked": 2, "resent": 11, "evicted": 2 + 72}


@pytest.mark.parametrize("later", [64, 65])
def test_old_reports_count_as_overwritten(later: int, small_ring: Path) -> None:
    """A report counts as overwritten if 64 or more later reports follow, even if none is stored.

    Only for the last 64 reports, the reporter knows whether it had to store them.
    """
    reporter = Reporter(str(small_ring))
    reporter.write_data(kept=1)
    reporter.follow(share=ALL)
    sent(reporter, 1)
    reporter.set_default(f"{PLAN}.data_reports", f"{PLAN}.write_data", [2, 7, 0, 0])
    sent(reporter, later)
    assert again(reporter, nack(0, 1)) == []
    assert reporter.events() == {"sent": 1 + later, "nacked": 1, "evicted": 1}


def test_the_ring_agrees_with_a_list_of_the_last_reports(small_ring: Path) -> None:
    reporter = Reporter(str(small_ring))
    rng = random.Random(5)
    reporter.watch(START, dst_port=5000)
    reporter.append(STARTED, 17, kept=1)
    reporter.follow(idle_us=1)
    # all other flows send Key-Write reports, which the ring does not store
    reporter.write_data(1, wanted=DATA)
    slots: dict[int, tuple[int, bytes]] = {}
    essential, asked, found, left = set(), 0, 0, 0
    for number in range(300):
        port = rng.choice([5000, 6000 + number])
        ((_, frame),) = [o for o in reporter.send(udp(dport=port), number) if o[0] == TO_TRANSLATOR]
        if port == 5000:
            slots[number % 8] = (number, frame)
            essential.add(number)
        if rng.random() < 0.2:
            first = rng.randrange(max(number - 20, 0), number + 1)
            wanted = range(first, number + 1)
            there = [slots[n % 8][1] for n in wanted if slots.get(n % 8, (-1,))[0] == n]
            assert again(reporter, nack(first, len(wanted)), number) == there
            asked, found = asked + len(wanted), found + len(there)
            left += sum(n in essential for n in wanted) - len(there)
    counts = reporter.events()
    assert left > 5
    assert counts["evicted"] == left
    assert counts["resent"] == found > 50
    assert counts["not stored"] == asked - found - left


def test_the_prototypes_formats() -> None:
    tracked, plain = Reporter("reporter_prototype.p4"), Reporter("reporter_prototype_plain.p4")
    found = []
    for reporter in (tracked, plain):
        reporter.write_data(1, wanted=START | DATA, kept=1)
        reporter.append(STARTED, 17)
        found.append([payload(frame, 40040).hex(" ", 1) for _, frame in reporter.send(udp())[1:]])
    data = "02 0a 00 00 01 00 01 00 02"
    assert found[0][0].startswith("02 00 40 00 00 00 11")
    assert found[0][1] == f"01 01 40 {data}"
    assert found[1][0].startswith("02 00 00 00 00 11")
    assert found[1][1] == f"01 00 {data}"


def test_the_prototypes_postcard() -> None:
    reporter = Reporter("reporter_prototype.p4")
    reporter.write_postcards()
    (_, frame) = reporter.send(udp(ttl=62))[1]
    assert payload(frame, 40040).hex(" ", 1) == "04 00 00 0a 00 00 01 03 00 00 00 07"


def test_the_prototypes_nack_names_the_last_that_was_good() -> None:
    reporter = Reporter("reporter_prototype.p4")
    reporter.write_data(1, kept=1)
    reporter.follow(share=ALL)
    frames = sent(reporter, 300)
    assert again(reporter, prototype_nack(296 & 0xFF), 4000) == frames[297:]
    assert again(reporter, prototype_nack(200), 4001) == frames[201:]
    assert again(reporter, prototype_nack(299 & 0xFF), 4002) == []
    counts = reporter.events()
    assert counts == {"sent": 300, "nacked": 3, "resent": 3 + 99, "never sent": 1}


def test_a_repeated_nack_of_the_prototype_is_late() -> None:
    reporter = Reporter("reporter_prototype.p4")
    reporter.write_data(1, kept=1)
    reporter.follow(share=ALL)
    frames = sent(reporter, 100)
    times_us = [4000, 4001, 4499, 4500, 4501]
    assert [len(again(reporter, prototype_nack(89), t)) for t in times_us] == [10, 0, 0, 10, 0]
    assert again(reporter, prototype_nack(92), 4502) == frames[93:]
    assert reporter.events() == {"sent": 100, "nacked": 6, "resent": 27, "redundant": 3}
