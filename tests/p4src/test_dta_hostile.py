"""Damaged or hostile reports are counted, and nothing outside of a region is written."""

import random
from collections import Counter

import dta_model
import numpy as np
import pytest
from dta_path import COLLECTOR, REPORTERS, Translator, ours, tracked
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from collectors.dta.hashes import key_words, slots
from collectors.dta.key_increment import COUNTER
from collectors.dta.key_write import slot
from collectors.dta.packets import (
    DTA,
    Append,
    KeyIncrement,
    KeyWrite,
    Nack,
    Postcard,
    ShortKeyIncrement,
    ShortKeyWrite,
    SketchMerge,
)
from collectors.roce.packets import icrc
from collectors.roce.softnic import BASE

SLOTS = 64
KEY = (1 << 128) - 1
UDP_LENGTH, PAYLOAD = 38, 42  # offsets in a frame
OUR_PORT = (40042).to_bytes(2, "big")
REPORTS = [
    KeyWrite(redundancy=3, key=KEY, data=[1]), KeyWrite(redundancy=8, key=5, data=[1, 2, 3]),
    KeyWrite(redundancy=1, key=7, data=list(range(7))), Append(list=3, data=7),
    KeyIncrement(redundancy=4, key=9, addend=KEY >> 64), Postcard(redundancy=1, key=5, hop=4),
    SketchMerge(sketch=1, column=0xFFFF), Nack(count=0xFFFFFFFF),
]  # fmt: skip
FRAMES = [
    *(ours(report, reporter=7, sequence=5, immediate=1, retransmittable=1) for report in REPORTS),
    tracked(ShortKeyWrite(redundancy=2, key=5, data=[9]), seqnum=3, retransmittable=1),
    tracked(ShortKeyIncrement(redundancy=2, key=5, addend=9), immediate=1),
]


def translator() -> Translator:
    """Return a translator with a store per kind of report.

    The translator believes that one region is longer than it is.
    """
    made = Translator()
    made.session(1, slot(1), SLOTS)
    made.session(2, slot(3), SLOTS // 2)
    made.session(3, slot(7), SLOTS)
    made.session(4, COUNTER, 4 * SLOTS, fetch_add=True)
    for number, words in enumerate((1, 3, 7), 1):
        made.key_write(words, SLOTS, first=number)
    made.counters(SLOTS, first=4)
    made.track(1, 7)
    return made


def events(made: Translator) -> dict[str, int]:
    """Return the sums of the event counters of all reporters."""
    return dict(sum((Counter(made.events(reporter)) for reporter in range(3)), Counter()))


def test_hostile_reports_have_the_effect_of_the_documentation_model() -> None:
    """500 hostile reports have the same effect on a translator as on a model of the documentation.

    The reports are of all primitives and formats. They have any key, list, column, hop, redundancy,
    length and sequence number.
    """
    counted = dta_model.fuzz(seed=1, count=500)
    assert set(counted) == {
        "translated", "malformed", "out of range", "not configured", "duplicate", "out of order",
        "column twice", "recovered", "nacked", "restarted",
    }  # fmt: skip
    assert counted["translated"] > 200


def numbered(frame: bytes, sequence: int) -> bytes:
    """Return a report with another sequence number. Prototype reports are returned unchanged."""
    if frame[36:38] != OUR_PORT:
        return frame
    return frame[: PAYLOAD + 4] + sequence.to_bytes(4, "big") + frame[PAYLOAD + 8 :]


def damaged(frame: bytes, rng: random.Random) -> bytes:
    """Return the frame with some changed bytes after the UDP ports. Some frames are truncated."""
    data = bytearray(frame)
    for _ in range(rng.randrange(1, 5)):
        data[rng.randrange(UDP_LENGTH, len(data))] = rng.choice((0, 1, 3, 7, 8, 9, 0x7F, 0xFF))
    return bytes(data[: rng.choice((len(data), len(data), rng.randrange(14, len(data))))])


@pytest.mark.parametrize("seed", range(4))
def test_damaged_reports_do_no_harm(seed: int) -> None:
    """For 600 reports, most of them damaged, the collector rejects no request of the translator.

    Each report increments one event counter. Requests and NACKs are well formed.
    """
    made, rng, came = translator(), random.Random(seed), 0
    made.track(2, 0)
    for n in range(600):
        frame = numbered(rng.choice(FRAMES), n)
        frame = damaged(frame, rng) if rng.random() < 0.8 else frame
        made.report(frame, n)
        came += len(frame) >= PAYLOAD + (8 if frame[36:38] == OUR_PORT else 3)
    assert made.nic.counts().refused == {}
    assert all(frame[-4:] == icrc(frame[14:-4]) for frame in made.sent)
    assert len(made.sent) > 200
    happened = Counter(events(made))
    for besides in ("nacked", "recovered", "restarted"):
        del happened[besides]
    assert happened.total() == came
    for nack in made.nacks:
        assert (nack[IP].dst, nack[UDP].dport) == ("10.0.0.1", 40044)
        assert len(nack) == 14 + nack[IP].len == 34 + nack[UDP].len


@pytest.mark.parametrize("missing", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("adds", [False, True], ids=["writes", "adds"])
def test_a_region_ends_at_its_last_byte(missing: int, *, adds: bool) -> None:
    """A report for the last slot of a region is not written if the region ends a byte too early."""
    keys = key_words(range(1000))
    last = int(np.flatnonzero(slots(keys, 1, SLOTS)[0] == SLOTS - 1)[0])
    made = Translator()
    made.session(1, COUNTER if adds else slot(1), SLOTS, length=8 * SLOTS - missing, fetch_add=adds)
    made.key_write(1, SLOTS)
    made.counters(SLOTS)
    report = KeyIncrement(key=last, addend=1) if adds else KeyWrite(key=last, data=[1])
    assert made.report(ours(report)) == int(missing == 0)
    assert made.session_events().get("out of region", 0) == int(missing != 0)


@pytest.mark.parametrize("words", [1, 3, 7])
@pytest.mark.parametrize("copies", [0, 9, 16, 255])
def test_a_redundancy_that_is_none_writes_nothing(copies: int, words: int) -> None:
    made = translator()
    assert made.report(ours(KeyWrite(redundancy=copies, key=1, data=[1] * words))) == 0
    assert made.report(ours(KeyIncrement(redundancy=copies, key=1, addend=1))) == 0
    assert events(made) == {"out of range": 2}


@pytest.mark.parametrize("length", range(PAYLOAD, PAYLOAD + 8 + 20 + 12))
def test_a_report_that_was_cut_writes_nothing(length: int) -> None:
    frame = ours(KeyWrite(redundancy=3, key=KEY, data=[1, 2, 3]))
    made = translator()
    assert made.report(frame[:length]) == 0
    assert sum(events(made).values()) == int(length >= PAYLOAD + 8)


def test_a_report_with_a_wrong_length_writes_nothing() -> None:
    """A report whose UDP length is wrong for its kind writes nothing.

    Bytes after the end of the datagram are padding, and no part of the report.
    """
    made = translator()
    for report in (KeyWrite(key=1, data=[1]), KeyIncrement(key=1, addend=1)):
        frame = ours(report)
        right = int.from_bytes(frame[UDP_LENGTH : UDP_LENGTH + 2], "big")
        for length in {*range(100), 0xFFFF} - {right}:
            lying = frame[:UDP_LENGTH] + length.to_bytes(2, "big") + frame[UDP_LENGTH + 2 :]
            assert made.report(lying + bytes(60)) == 0
        assert made.report(frame + bytes(60)) == 1
    assert events(made) == {"malformed": 200, "translated": 2}


@pytest.mark.parametrize("first", [0x00, 0x20, 0x90, 0xFF])
def test_a_version_that_is_not_known_has_no_number(first: int) -> None:
    """A report of another version has no effect on sequence numbers: there is no NACK.

    Such a version may have its fields at other positions.
    """
    frame = bytearray(ours(REPORTS[0], reporter=7, sequence=9, retransmittable=1))
    frame[PAYLOAD] = first
    made = translator()
    assert made.report(bytes(frame)) == 0
    assert (made.nacks, events(made)) == ([], {"malformed": 1})


def test_similar_packets_are_forwarded() -> None:
    made = translator()
    made.forward(0x0200000000FE)
    udp = Ether(ours(REPORTS[0]))
    others = [bytes(udp)[:PAYLOAD]]
    for field, value in (("frag", 1), ("proto", 6), ("ihl", 4)):
        other = udp.copy()
        setattr(other[IP], field, value)
        others.append(bytes(other))
    for frame in others:
        assert made.report(frame) == 0
    assert made.others == others
    assert events(made) == {}


def test_a_report_with_options_of_ip_is_one() -> None:
    base = Ether(ours(REPORTS[0], reporter=7, sequence=2, retransmittable=1))
    base[IP].options = b"\x01" * 40
    del base[IP].ihl, base[IP].len, base[IP].chksum
    made = translator()
    assert made.report(bytes(base)) == 3
    (nack,) = made.nacks
    assert (nack[IP].ihl, nack[IP].len, nack[DTA].sequence) == (5, 40, 0)


def test_forged_responses_leave_requests_in_the_region() -> None:
    made, rng = translator(), random.Random(3)
    made.report(ours(KeyIncrement(key=1, addend=1)))
    for _ in range(300):
        answer = bytearray(made.answers[0])
        answer[rng.randrange(42, len(answer) - 4)] = rng.randrange(256)
        answer[-4:] = icrc(bytes(answer[14:-4]))
        assert made.engine.process(rng.choice((COLLECTOR, REPORTERS)), bytes(answer), 0) == []
        left = made.engine.process(REPORTERS, ours(REPORTS[0]), 0)
        requests = [frame for port, frame in left if port == COLLECTOR]
        assert len(requests) == 3
        for frame in requests:
            assert int.from_bytes(frame[54:62], "big") - BASE in range(0, 8 * SLOTS, 8)
