"""Responses of a collector.

After a loss, records continue with the PSN and slot that it expects.
"""

import random
from collections import deque
from collections.abc import Callable

import pytest
from roce_path import (
    BASE,
    FLOW,
    OUT,
    SWITCH_QPN,
    TO_COLLECTOR,
    VERSIONS,
    Session,
    Switch,
    answer,
    nak,
    slot_of,
    tcp,
    udp,
)
from roce_responder import Responder
from scapy.layers.inet import IP, IPOption_RR
from scapy.layers.l2 import Ether

from collectors.roce.packets import BTH, Nak, Op
from minip4.engine.keys import Exact


def place(switch: Switch) -> tuple[int, int]:
    """Send a record, and return its PSN and its slot."""
    record = switch.record()
    return record[BTH].psn, slot_of(record)


@pytest.mark.parametrize("version", VERSIONS)
def test_after_a_nak_records_continue_with_its_psn(version: str) -> None:
    switch = Switch(Session(version=version))
    assert [place(switch) for _ in range(6)] == [(n, n) for n in range(6)]
    switch.hear(nak(2, version=version))  # record 2 was lost, so the collector ignored 3 to 5
    assert switch.state() == (2, 2, 4, 0)
    assert [place(switch) for _ in range(2)] == [(2, 2), (3, 3)]
    assert switch.events() == {"sent": 8, "naked": 1, "resumed": 1}


def test_slots_go_back_over_the_beginning_of_the_ring() -> None:
    switch = Switch(Session(slots=4))
    for _ in range(6):
        switch.record()
    switch.hear(nak(3))
    assert [place(switch) for _ in range(3)] == [(3, 3), (4, 0), (5, 1)]


def test_psns_go_back_over_zero() -> None:
    switch = Switch(Session(slots=64))
    switch.hear(nak(0xFFFFF0))
    lost = switch.state()[2]
    for _ in range(32):
        switch.record()
    switch.hear(nak(0xFFFFF8))
    assert switch.state()[0] == 0xFFFFF8
    assert switch.state()[2] - lost == 24


def test_by_more_than_the_ring_slots_restart() -> None:
    switch = Switch(Session(slots=4))
    for _ in range(11):
        switch.record()
    switch.hear(nak(1))
    assert place(switch) == (1, 0)


def test_an_ack_that_is_ahead_takes_records_along() -> None:
    """After an ACK of PSN 5, the first record has PSN 6 and slot 6.

    Such an ACK arrives after PSNs were set back too far.
    """
    switch = Switch()
    switch.hear(answer(5))
    assert place(switch) == (6, 6)
    assert switch.events() == {"sent": 1, "acked": 1, "resumed": 1}


def test_acks_of_sent_records_change_nothing() -> None:
    switch = Switch(Session(ack_mask=0))
    for number in range(6):
        assert place(switch) == (number, number)
    for number in (0, 1, 4, 5):
        switch.hear(answer(number))
    assert place(switch) == (6, 6)
    assert switch.events() == {"sent": 7, "acked": 4}


def test_after_a_second_ack_of_a_psn_records_continue_after_it() -> None:
    switch = Switch()
    for _ in range(6):
        switch.record()
    switch.hear(answer(2))
    assert switch.state()[0] == 6
    switch.hear(answer(2))
    assert place(switch) == (3, 3)
    assert switch.events() == {"sent": 7, "acked": 2, "resumed": 1}


def test_the_first_ack_of_psn_0_is_no_second_one() -> None:
    switch = Switch()
    for _ in range(3):
        switch.record()
    switch.hear(answer(0))
    assert place(switch) == (3, 3)
    switch.hear(answer(0))
    assert place(switch) == (1, 1)


def test_atomics_acks_are_never_second_ones() -> None:
    """An ACK with the PSN of an atomic response is not a repeated ACK. The next such ACK is one.

    The ACK of a probe has the same PSN as the atomic response before it.
    """
    switch = Switch(Session(fetch_add=True, length=64, patience=3), watch=False)
    switch.watch("count_packet", [1, 0])
    for _ in range(3):
        switch.records(udp())
    switch.hear(answer(1, opcode=Op.ATOMIC_ACKNOWLEDGE))
    switch.hear(answer(1))
    assert switch.state()[0] == 3
    switch.hear(answer(1))
    assert switch.state()[0] == 2


def test_a_repeated_nak_is_late() -> None:
    """A repeated NAK is ignored, because the switch has sent the record again since the first NAK.

    After an ACK, such a NAK counts again.
    """
    switch = Switch()
    for _ in range(4):
        switch.record()
    switch.hear(nak(1))
    switch.record()
    switch.hear(nak(1))
    assert switch.state()[0] == 2
    switch.hear(answer(1))
    switch.hear(nak(1))
    assert switch.state()[0] == 1


def test_an_rnr_nak_costs_one_record() -> None:
    switch = Switch()
    for _ in range(3):
        switch.record()
    switch.hear(answer(1, Nak.RNR))
    switch.hear(nak(1))  # this NAK is for record 2, which was in flight
    assert place(switch) == (1, 1)
    assert switch.events() == {"sent": 4, "naked": 1, "not ready": 1, "resumed": 1}


def test_a_collector_that_is_not_ready_again_is_heard_again() -> None:
    switch = Switch()
    for _ in range(3):
        switch.record()
    for _ in range(3):
        switch.hear(answer(1, Nak.RNR))
        assert place(switch) == (1, 1)
    assert switch.events() == {"sent": 6, "not ready": 3, "resumed": 3}


@pytest.mark.parametrize(
    "syndrome", [Nak.INVALID_REQUEST, Nak.REMOTE_ACCESS, Nak.REMOTE_OPERATION, 0x40, 0x7F]
)
def test_errors_are_counted_and_change_nothing(syndrome: int) -> None:
    switch = Switch()
    switch.record()
    switch.hear(answer(0, syndrome))
    assert switch.state()[0] == 1
    assert switch.events() == {"sent": 1, "refused": 1}


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_responses_are_ignored(version: str) -> None:
    """A response with a wrong bit after its addresses is counted as damaged, and changes nothing.

    The test omits bits that routers change. The switch compares the addresses with those of its
    session.
    """
    switch, damages = Switch(Session(version=version)), 0
    for _ in range(4):
        switch.record()
    for opcode in (Op.ACKNOWLEDGE, Op.ATOMIC_ACKNOWLEDGE):
        good = answer(1, version=version, opcode=opcode)
        bth = {"v1": 54, "v2": 42, "v2_ipv6": 62}[version]
        checked = [*range(bth + 1, bth + 4), *range(bth + 8, len(good))]
        for at in checked:
            bad = bytearray(good)
            bad[at] ^= 1 << at % 8
            switch.hear(bytes(bad))
            damages += 1
    assert switch.state() == (4, 4, 0, 4)
    assert switch.events() == {"sent": 4, "damaged": damages}


def others() -> dict[str, bytes]:
    """Return responses that belong to no session of the switch. The switch must forward them."""
    truncated = answer(1)[:-4]
    with_options = Ether(answer(1))
    with_options[IP].options = [IPOption_RR(length=7, routers=["0.0.0.0"])]
    del with_options[IP].ihl, with_options[IP].len, with_options[IP].chksum
    return {
        "IP options, which the iCRC does not know": bytes(with_options),
        "another queue pair": answer(1, qpn=SWITCH_QPN + 1),
        "another collector": answer(1, src="10.0.9.10"),
        "another collector, v1": answer(1, src="10.0.9.10", version="v1"),
        "v1 of a session over v2": answer(1, version="v1"),
        "another collector, IPv6": answer(1, version="v2_ipv6"),
        "no iCRC": truncated,
    }


@pytest.mark.parametrize("frame", others().values(), ids=others().keys())
def test_responses_to_other_requesters_are_forwarded(frame: bytes) -> None:
    switch = Switch(watch=False)
    switch.add("RoceIngress.forwarding", [Exact(0x0200000000FF)], "RoceIngress.forward", [OUT])
    assert switch.send(frame, port=TO_COLLECTOR) == [(OUT, frame)]
    assert switch.events() == {}


def test_responses_are_never_forwarded() -> None:
    switch = Switch()
    switch.add("RoceIngress.forwarding", [Exact(0x0200000000FF)], "RoceIngress.forward", [OUT])
    switch.hear(answer(5))
    assert switch.events() == {"acked": 1, "resumed": 1}


class Path:
    """A path to a responder and back. Frames stay in order.

    Each direction takes `flight` steps. `lose` returns whether a frame is lost.
    """

    def __init__(self, switch: Switch, responder: Responder, flight: int,
                 lose: Callable[[bytes], bool]) -> None:  # fmt: skip
        self.switch, self.responder, self.lose = switch, responder, lose
        self.there = deque([[] for _ in range(flight)])
        self.back = deque([[] for _ in range(flight)])

    def step(self, frame: bytes | None) -> None:
        """Move all frames by one step.

        If `frame` is given, it arrives at the switch, which sends a record.
        """
        for each in self.back.popleft():
            self.switch.hear(each)
        sent = self.switch.records(frame) if frame else []
        self.there.append([each for each in sent if not self.lose(each)])
        answers = [a for each in self.there.popleft() for a in self.responder.take(each)]
        self.back.append([each for each in answers if not self.lose(each)])


def run(session: Session, lose: Callable[[bytes], bool], records: int, flight: int,
        responder: Responder | None = None) -> tuple[Switch, Responder]:  # fmt: skip
    """Let the switch send `records` records, numbered by TCP sequence, and deliver all frames."""
    switch, responder = Switch(session), responder or Responder()
    path = Path(switch, responder, flight, lose)
    for number in range(records):
        path.step(tcp(seq=number))
    for _ in range(3 * flight):
        path.step(None)
    return switch, responder


def numbers(responder: Responder) -> list[int]:
    """Return the numbers of the records that were written."""
    return [int.from_bytes(data[36:40], "big") for data in responder.data]


def is_psn(psn: int) -> Callable[[bytes], bool]:
    """Return a function that is true only for the first frame to the collector with this PSN."""
    lost: list[bytes] = []

    def lose(frame: bytes) -> bool:
        wanted = frame[51:54] == psn.to_bytes(3, "big") and frame[42] != Op.ACKNOWLEDGE
        if wanted and not lost:
            lost.append(frame)
            return True
        return False

    return lose


@pytest.mark.parametrize("flight", [1, 2, 5, 20])
def test_one_lost_record_costs_itself_and_those_in_flight(flight: int) -> None:
    switch, responder = run(Session(slots=100, ack_mask=3), is_psn(10), 100, flight)
    in_flight = 2 * flight  # number of records that are sent before the NAK arrives
    assert numbers(responder) == [*range(10), *range(11 + in_flight, 100)]
    assert responder.written == [BASE + FLOW * n for n in range(99 - in_flight)]
    assert switch.state()[2] == 1 + in_flight


def test_of_an_unreliable_connection_one_is_lost() -> None:
    session = Session(slots=100, unreliable=True)
    _, responder = run(session, is_psn(10), 100, 5)
    assert numbers(responder) == [n for n in range(100) if n != 10]
    assert responder.written == [BASE + FLOW * n for n in range(100) if n != 10]


@pytest.mark.parametrize("ack_mask", [0, 3, 0xFFFFFF])
@pytest.mark.parametrize("patience", [8, 20])
def test_a_lost_nak_costs_two_probes(ack_mask: int, patience: int) -> None:
    """If the NAK after a lost record is lost, too, records continue after two probes.

    The collector sends no other NAK, and responds only to probes. If each record requests an ACK,
    one probe is enough: the last record before the loss was acknowledged, so the ACK of the probe
    is the second one with the same PSN.
    """
    lose_record = is_psn(10)
    naks = []

    def lose(frame: bytes) -> bool:
        is_nak = frame[42] == Op.ACKNOWLEDGE and frame[54] == Nak.SEQUENCE
        naks.extend([frame] * is_nak)
        return is_nak or lose_record(frame)

    switch, responder = run(Session(slots=200, ack_mask=ack_mask, patience=patience), lose, 200, 3)
    assert len(naks) == 1
    lost = 200 - len(responder.data)
    probes = 1 if ack_mask == 0 else 2
    assert lost <= 1 + probes * patience + (probes + 1) * 2 * 3
    assert numbers(responder) == [*range(10), *range(10 + lost, 200)]
    assert responder.written == [BASE + FLOW * n for n in range(200 - lost)]
    assert switch.state()[2] == lost


def test_without_probes_a_lost_nak_is_the_end() -> None:
    lose_record = is_psn(10)
    _, responder = run(
        Session(slots=200), lambda f: lose_record(f) or f[54] == Nak.SEQUENCE, 200, 3
    )
    assert numbers(responder) == list(range(10))


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_collector_that_is_not_ready_costs_that_record_and_those_in_flight(times: int) -> None:
    responder = Responder()
    responder.not_ready = times
    switch, _ = run(Session(slots=100, immediate_mask=0), lambda _: False, 50, 3, responder)
    assert numbers(responder) == list(range(6 * times, 50))
    assert switch.state()[2] == 6 * times


@pytest.mark.parametrize("first", [0xFFFFF0, 0x7FFFF8])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_lost_the_session_goes_on(seed: int, first: int) -> None:
    """At 5 % random loss, written records are in order, and their slots are consecutive.

    When the loss ends, records are written again, and the switch knows how many were lost.
    """
    rng = random.Random(seed)
    lossy = [True]
    slots, flight = 128, rng.choice([1, 2, 4])
    switch, responder = Switch(Session(slots=slots, ack_mask=3, patience=12)), Responder(first)
    switch.hear(nak(first))
    before = switch.state()[2]
    path = Path(switch, responder, flight, lambda _: lossy[0] and rng.random() < 0.05)
    for number in range(400):
        lossy[0] = number < 300
        path.step(tcp(seq=number))
    written = numbers(responder)
    assert written == sorted(set(written))
    assert written[-10:] == list(range(400 - flight - 10, 400 - flight))
    start = (responder.written[0] - BASE) // FLOW
    expected = [BASE + FLOW * ((start + n) % slots) for n in range(len(written))]
    assert responder.written == expected
    for _ in range(3 * flight):
        path.step(None)
    known = (switch.state()[2] - before) % (1 << 32)
    assert known == 400 - len(numbers(responder))
