"""The session of each report with several collectors or queue pairs, and lost requests."""

import random

import numpy as np
import pytest
from dta_path import COLLECTOR, Translator, ours
from scapy.layers.l2 import Ether

from collectors.dta.hashes import key_words, sessions, slots
from collectors.dta.key_write import Store, slot
from collectors.dta.packets import KeyWrite
from collectors.roce.endpoint import Transport
from collectors.roce.packets import BTH, RETH
from collectors.roce.region import Region

SLOTS = 1 << 10
DICE = random.Random(5)
KEYS = [DICE.getrandbits(128) for _ in range(200)]


def fill(made: Translator, keys: list[int], copies: int = 2, first: int = 0) -> None:
    """Send a Key-Write report for each key. Its data is the index of the key, plus `first`."""
    for n, key in enumerate(keys, first):
        made.report(ours(KeyWrite(redundancy=copies, key=key, data=[n])))


def found(region: Region, keys: list[int], copies: int = 2) -> list[int | None]:
    """Return the data that a region has for each key, or None."""
    answers = Store(region.records).query(key_words(keys), copies=copies)
    return [int(data) if is_found else None
            for is_found, (data,) in zip(answers.found, answers.data, strict=True)]  # fmt: skip


def test_keys_are_spread_over_sessions_by_their_hash() -> None:
    made = Translator()
    regions = [made.session(number, slot(1), SLOTS) for number in (4, 5, 6)]
    made.key_write(1, SLOTS, first=4, sessions=3)
    fill(made, KEYS)
    where = sessions(key_words(KEYS), 3)
    assert min(np.bincount(where)) > 40
    for number, region in enumerate(regions):
        held = [n if where[n] == number else None for n in range(len(KEYS))]
        assert found(region, KEYS) == held


def test_queue_pairs_may_share_a_region() -> None:
    made = Translator()
    region = made.session(1, slot(1), SLOTS)
    made.session(2, slot(1), SLOTS, region=region)
    made.key_write(1, SLOTS, first=1, sessions=2)
    fill(made, KEYS, copies=1)
    assert found(region, KEYS[-1:], 1) == [len(KEYS) - 1]
    counts = [made.session_events(number)["sent"] for number in (1, 2)]
    assert sum(counts) == len(KEYS)
    assert [made.psn(number) for number in (1, 2)] == counts


def test_the_address_selects_the_store_of_a_report() -> None:
    made = Translator()
    regions = [made.session(number, slot(1), SLOTS) for number in (1, 2)]
    made.serve("10.0.8.2", 2)
    made.key_write(1, SLOTS, first=1)
    made.key_write(1, SLOTS, first=2, service=2)
    made.report(ours(KeyWrite(key=1, data=[5]), dst="10.0.8.2"))
    made.report(ours(KeyWrite(key=2, data=[6])))
    assert [found(region, [1, 2], 1) for region in regions] == [[None, 6], [5, None]]


def test_a_report_to_another_switch_passes_as_it_came() -> None:
    made = Translator()
    made.session(1, slot(1), SLOTS)
    made.key_write(1, SLOTS)
    frame = ours(KeyWrite(key=1, data=[5]), dst="10.0.8.9")
    assert made.report(frame) == 0
    assert made.others == []
    made.forward(0x0200000000FE)
    made.report(frame)
    assert made.others == [frame]
    assert made.events() == {}


def test_only_a_lost_request_and_the_next_one_are_lost() -> None:
    """If request 3 of 10 is lost, the memory lacks only the data of requests 3 and 4.

    The published translator drops the next 100,000 reports.
    """
    made = Translator()
    region = made.session(1, slot(1), SLOTS, psn=0xFFFFFE)
    made.key_write(1, SLOTS)
    made.lost = {3}
    # ack_mask requests an ACK for the PSN of the second request
    fill(made, KEYS[:10], copies=1)
    held = [n if n not in (3, 4) else None for n in range(10)]
    assert found(region, KEYS[:10], 1) == held
    assert made.session_events() == {"sent": 10, "acked": 1, "naked": 1, "resumed": 1}
    assert made.engine.register_read("roce_lost", 1) == 2
    assert made.psn() == (0xFFFFFE + 8) % (1 << 24)


@pytest.mark.parametrize("lost", range(4))
def test_a_lost_copy_leaves_the_others(lost: int) -> None:
    made = Translator()
    region = made.session(1, slot(1), SLOTS, transport=Transport.UC)
    made.key_write(1, SLOTS)
    made.lost = {lost}
    fill(made, KEYS[:1], copies=4)
    places = slots(key_words(KEYS[:1]), 4, SLOTS)[:, 0].tolist()
    written = np.flatnonzero(region.records["checksum"]).tolist()
    assert written == sorted(place for n, place in enumerate(places) if n != lost)


def test_an_ack_of_an_executed_request_does_not_reduce_the_psn() -> None:
    """A duplicated ACK of an executed request does not reduce the PSN of the next request.

    The published translator treats an ACK as a NAK, and sets the PSN one too low.
    """
    made = Translator()
    made.session(1, slot(1), SLOTS, ack_mask=0)
    made.key_write(1, SLOTS)
    fill(made, KEYS[:5], copies=1)
    ack = made.answers[-1]
    assert Ether(ack)[BTH].psn == 4
    made.engine.process(COLLECTOR, ack, 0)
    fill(made, KEYS[5:8], copies=1)
    assert made.psn() == 8
    assert "resumed" not in made.session_events()
    assert made.nic.counts().refused == {}


def test_a_probe_repairs_a_session_after_a_lost_nak() -> None:
    made = Translator()
    region = made.session(1, slot(1), SLOTS, ack_mask=0, patience=4)
    made.key_write(1, SLOTS)
    fill(made, KEYS[:3], copies=1)
    made.lost, made.is_deaf = {3}, True  # request 3 is lost, and so is its NAK
    fill(made, KEYS[3:6], copies=1, first=3)
    made.is_deaf = False
    fill(made, KEYS[6:20], copies=1, first=6)
    answers = found(region, KEYS[:20], 1)
    assert answers[:3] == [0, 1, 2]
    assert answers[-6:] == list(range(14, 20))
    assert made.session_events()["resumed"] == 1
    assert made.session_events()["probed"] >= 1
    probes = [frame for frame in made.sent if Ether(frame)[RETH].length == 0]
    assert len(probes) == made.session_events()["probed"]


def test_immediates_wait_until_they_are_taken() -> None:
    """A request with an immediate is answered by RNR if no receive request is left.

    The request is not written. After the receiver has taken its completions, the next request is
    written.
    """
    made = Translator()
    region = made.session(1, slot(1), SLOTS)
    made.key_write(1, SLOTS)
    for n in range(256):
        made.report(ours(KeyWrite(key=n, data=[n]), immediate=1))
    made.report(ours(KeyWrite(key=KEYS[0], data=[7]), immediate=1))
    assert found(region, KEYS[:1], 1) == [None]
    assert len(made.nic.completions()) == 256
    made.report(ours(KeyWrite(key=KEYS[0], data=[8]), immediate=1))
    assert found(region, KEYS[:1], 1) == [8]
    assert made.session_events()["not ready"] == 1
