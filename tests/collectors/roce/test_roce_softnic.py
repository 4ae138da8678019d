"""The software endpoint: registration, connections, counters, error texts.

The list of verdicts does not include these.
"""

import os

import numpy as np
import pytest
from arriving import frames
from requester import Answer, Session, add, changed, write

from collectors.roce.endpoint import Access, Completion, Peer, Target, Transport
from collectors.roce.region import Region
from collectors.roce.softnic import Limits, SoftNic
from telemark.errors import TestbedError

PEER = Peer("10.0.0.1", qpn=7, psn=0xFFFFFF)
MACS = ("02:00:00:00:00:02", "02:00:00:00:00:01")


def make_nic(limits: Limits | None = None) -> SoftNic:
    return SoftNic("10.0.0.2", mac=MACS[0], limits=limits, sanitize="SANITIZE" in os.environ)


def session(target: Target) -> Session:
    return Session("v2", MACS[0], PEER, MACS[1], target)


def test_each_queue_pair_reaches_the_region_of_its_domain_only() -> None:
    nic = make_nic()
    regions = [Region(np.dtype("u1"), 64) for _ in range(2)]
    domains = [nic.register(region) for region in regions]
    assert domains[0].rkey != domains[1].rkey
    sessions = [session(nic.connect(domain, PEER)) for domain in domains]
    assert sessions[0].target.qpn != sessions[1].target.qpn
    key = domains[0].rkey ^ domains[1].rkey
    nic.receive(frames([write(0, b"mine")(sessions[0]), write(0, b"evil", key=key)(sessions[1])]))
    assert regions[0].bytes[:4].tobytes() == b"mine"
    assert not regions[0].bytes[4:].any()
    assert not regions[1].bytes.any()


def test_psns_are_expected_until_the_queue_pair_breaks_or_is_closed() -> None:
    nic = make_nic()
    domain = nic.register(Region(np.dtype("u1"), 64))
    first, second = (session(nic.connect(domain, PEER)) for _ in range(2))
    assert nic.expected_psn(first.target.qpn) == 0xFFFFFF
    nic.receive(frames([write(0, b"good")(first), write(0, b"evil", 62)(second)]))
    assert nic.expected_psn(first.target.qpn) == 0
    assert nic.expected_psn(second.target.qpn) is None
    nic.disconnect(first.target.qpn)
    assert nic.expected_psn(first.target.qpn) is None
    # A free entry has queue pair number 0.
    late = [write(1, b"late")(first), write(1, b"late", dqpn=0)(first)]
    assert nic.receive(frames(late)) == []
    assert nic.counts().refused == {"BOUNDS": 1, "QUEUE_PAIR": 2}
    assert "PSN 0: there is no queue pair 0x100" in nic.refusals()[-2]
    with pytest.raises(TestbedError, match="there is no queue pair 0x100"):
        nic.disconnect(first.target.qpn)


def test_queue_pairs_are_as_many_as_may_be_and_numbers_do_not_come_again_at_once() -> None:
    nic = make_nic(Limits(queue_pairs=4))
    domain = nic.register(Region(np.dtype("u1"), 64))
    targets = [nic.connect(domain, PEER) for _ in range(4)]
    with pytest.raises(TestbedError, match="all queue pairs are in use"):
        nic.connect(domain, PEER)
    nic.disconnect(targets[1].qpn)
    assert nic.connect(domain, PEER).qpn not in {target.qpn for target in targets}
    nic.close()
    assert nic.connect(domain, PEER, transport=Transport.UC).transport is Transport.UC


def test_completions_make_room_when_they_are_taken() -> None:
    nic = make_nic(Limits(queue_pairs=2, receives=2))
    domain = nic.register(Region(np.dtype("u1"), 64))
    requester = session(nic.connect(domain, PEER))
    requests = [write(i, b"x", immediate=i) for i in range(3)]
    nic.receive(frames([request(requester) for request in requests]))
    qpn = requester.target.qpn
    assert nic.completions() == [Completion(qpn, 0, 1), Completion(qpn, 1, 1)]
    assert nic.completions() == []
    nic.receive(frames([requests[2](requester)]))
    assert nic.completions() == [Completion(qpn, 2, 1)]
    # Completions of closed queue pairs keep their entries, so others must wait.
    for _ in range(3):
        again = session(nic.connect(domain, PEER))
        nic.receive(frames([write(i, b"x", immediate=i)(again) for i in range(2)]))
        nic.disconnect(again.target.qpn)
    assert len(nic.completions()) == 4
    assert nic.counts().refused == {"NO_RECEIVE": 2, "GAP": 1}


def test_completions_end_where_more_come_than_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    nic = make_nic(Limits(queue_pairs=1, receives=2))
    requester = session(nic.connect(nic.register(Region(np.dtype("u1"), 64)), PEER))
    take = nic._library.roce_completions
    taken: list[list[bytes]] = []

    def another_comes_first(*arguments: int) -> int:
        taken.append(nic.receive(frames([write(len(taken), b"x", immediate=0)(requester)])))
        assert len(taken) == 1
        return int(take(*arguments))

    monkeypatch.setattr(nic._library, "roce_completions", another_comes_first)
    assert nic.completions() == [Completion(requester.target.qpn, 0, 1)]


def test_padding_without_payload_and_atomics_with_one_are_refused() -> None:
    """Padding without payload, and atomic operations with payload, are rejected.

    rdma_rxe does not check this, so the list of verdicts does not include it.
    """

    def pad(frame: bytearray, bth: int) -> None:
        frame[bth + 1] |= 0x30

    nic = make_nic()
    region = Region(np.dtype("u1"), 64)
    requester = session(nic.connect(nic.register(region), PEER))
    padded = changed(write(0, b""), pad, fix_icrc=True)(requester)
    assert nic.receive(frames([padded])) == []
    [answer] = nic.receive(frames([add(0, 0, 1, data=b"more")(requester)]))
    assert Answer.read(requester, answer) == Answer(0, 0x61, 0)
    assert nic.counts().refused == {"TRUNCATED": 1, "LENGTH": 1}
    assert not region.bytes.any()


def test_rights_of_a_region_and_errors_are_reported() -> None:
    nic = make_nic()
    domain = nic.register(Region(np.dtype("<u8"), 8), Access.WRITE, rkey=0x1234)
    requester = session(nic.connect(domain, PEER))
    broken = bytearray(write(0, b"data")(requester))
    broken[-1] ^= 0xFF
    nic.receive(frames([bytes(broken), add(0, 0, 1)(requester)], time_ns=1_500_000_000))
    icrc, access = nic.refusals()
    assert icrc.startswith("1.500000 s, queue pair 0x100, PSN 16777215: iCRC 0x")
    assert access.endswith("opcode 0x14: the region does not have this right")


def test_what_cannot_be_is_said_in_one_line() -> None:
    with pytest.raises(TestbedError, match=r"path MTU 1500: expected one of"):
        SoftNic("10.0.0.2", path_mtu=1500)
    with pytest.raises(TestbedError, match="a power of 2"):
        SoftNic("10.0.0.2", limits=Limits(queue_pairs=3))
    for number in (0, 1, 0xFFFFFF):
        with pytest.raises(TestbedError, match=f"first queue pair {number:#x}: expected 0x2 to"):
            SoftNic("10.0.0.2", first_qpn=number)
    with pytest.raises(TestbedError, match="address 'h2': expected IPv4 or IPv6"):
        SoftNic("h2")
    with pytest.raises(TestbedError, match="psn 16777216: expected 24 bits"):
        Peer("10.0.0.1", qpn=7, psn=1 << 24)
    elsewhere = make_nic().register(Region(np.dtype("u1"), 64), rkey=0x1234)
    with pytest.raises(TestbedError, match="R_Key 0x1234: not registered at this endpoint"):
        make_nic().connect(elsewhere, PEER)
