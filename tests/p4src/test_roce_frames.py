"""Requests that a RoCE switch sends for a packet: every byte, compared with scapy and zlib."""

from ipaddress import IPv6Address

import pytest
from roce_path import (
    BASE,
    COLLECTOR_QPN,
    FLOW,
    FLOW_AND_HOP,
    HOP,
    IN,
    OUT,
    RKEY,
    VERSIONS,
    Session,
    Switch,
    ends,
    parse_request,
    slot_of,
    tcp,
    udp,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from collectors.roce.endpoint import gid
from collectors.roce.packets import BTH, GRH, RETH, AtomicETH, ImmDt, Op

TCP_RECORD = gid("10.0.0.1") + gid("10.0.0.2") + bytes.fromhex("0fa0 1388 00000063 0000004d")
UC = 0x20


def expected(version: str, content: Packet) -> bytes:
    """Return the whole frame of a request. `content` begins with the BTH."""
    ether = Ether(dst="02:00:00:00:00:63", src="02:00:00:00:00:ff")
    src, dst = ends(version)
    if version == "v1":
        gids = [int(IPv6Address(gid(address))) for address in (src, dst)]
        return bytes(ether / GRH(sgid=gids[0], dgid=gids[1]) / content)
    ip = IPv6(src=src, dst=dst) if version == "v2_ipv6" else IP(src=src, dst=dst, flags="DF", id=0)
    return bytes(ether / ip / UDP(sport=0xC011, chksum=0) / content)


def bth(op: int, psn: int = 0, ackreq: int = 0) -> Packet:
    return BTH(opcode=op, migreq=1, pkey=0xFFFF, dqpn=COLLECTOR_QPN, ackreq=ackreq, psn=psn)


RETH_44 = RETH(va=BASE, rkey=RKEY, length=FLOW)
LAYOUTS = {
    "write": (Session(), bth(Op.WRITE_ONLY) / RETH_44 / Raw(TCP_RECORD)),
    "ack requested": (
        Session(ack_mask=0), bth(Op.WRITE_ONLY, ackreq=1) / RETH_44 / Raw(TCP_RECORD),
    ),
    "immediate": (
        Session(immediate_mask=0),
        bth(Op.WRITE_ONLY_IMMEDIATE) / RETH_44 / ImmDt(data=0) / Raw(TCP_RECORD),
    ),
    "uc write": (
        Session(unreliable=True, ack_mask=0), bth(Op.WRITE_ONLY | UC) / RETH_44 / Raw(TCP_RECORD),
    ),
    "uc immediate": (
        Session(unreliable=True, immediate_mask=0),
        bth(Op.WRITE_ONLY_IMMEDIATE | UC) / RETH_44 / ImmDt(data=0) / Raw(TCP_RECORD),
    ),
    "with what the switch knows": (
        Session(content=FLOW_AND_HOP, stride=FLOW + HOP),
        bth(Op.WRITE_ONLY) / RETH(va=BASE, rkey=RKEY, length=FLOW + HOP)
        / Raw(TCP_RECORD + bytes.fromhex("0000002a 0001 0002 00000000 00000000")
              + (1234 + 500).to_bytes(8, "big") * 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_record_byte_by_byte(layout: str, version: str) -> None:
    session, content = LAYOUTS[layout]
    switch = Switch(Session(**{**vars(session), "version": version}))
    switch.engine.table_set_default("RoceIngress.watch.node", "RoceIngress.watch.set_node",
                                    [42, 500])  # fmt: skip
    (record,) = switch.records(tcp(), 1234)
    assert record.hex() == expected(version, content).hex()
    assert switch.events() == {"sent": 1}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("action", "addend"), [("count_packet", 1), ("count_bytes", len(tcp()))])
def test_a_fetch_add_byte_by_byte(action: str, addend: int, version: str) -> None:
    switch = Switch(Session(version=version, fetch_add=True, length=64), watch=False)
    switch.watch(action, [1, 7])
    (record,) = switch.records(tcp())
    content = bth(Op.FETCH_ADD, ackreq=1) / AtomicETH(va=BASE + 56, rkey=RKEY, swap=addend)
    assert record.hex() == expected(version, content).hex()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_probe_byte_by_byte(version: str) -> None:
    """The PSN of a probe is 2^22 (a quarter of the range) before the PSN of the next record.

    A probe has no data, and requests an ACK.
    """
    switch = Switch(Session(version=version, patience=2))
    switch.record()
    record, probe = switch.records(udp())
    assert parse_request(record)[BTH].psn == 1
    content = bth(Op.WRITE_ONLY, psn=2 - 0x400000 & 0xFFFFFF, ackreq=1) / RETH(va=BASE, rkey=RKEY)
    assert probe.hex() == expected(version, content).hex()
    assert switch.events() == {"sent": 2, "probed": 1}


def test_the_record_of_a_probe_requests_no_ack() -> None:
    """A record that a probe follows requests no ACK, even if all others do.

    Otherwise, its ACK and the ACK of the probe would have the same PSN, as after a loss.
    """
    switch = Switch(Session(ack_mask=0, patience=2))
    asked = [parse_request(switch.records(udp())[0])[BTH].ackreq for _ in range(4)]
    assert asked == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("frame", "record"),
    [
        (udp(), gid("10.0.0.1") + gid("10.0.0.2") + bytes.fromhex("0fa0 1388") + bytes(8)),
        (tcp(version=6), gid("fd00::1") + gid("fd00::2") + TCP_RECORD[32:]),
        (udp()[:34], gid("10.0.0.1") + gid("10.0.0.2") + bytes(12)),
        (tcp()[:50], gid("10.0.0.1") + gid("10.0.0.2") + TCP_RECORD[32:40] + bytes(4)),
        (tcp(payload=bytes(1400)), TCP_RECORD),
    ],
    ids=["UDP", "IPv6", "no ports", "TCP header cut", "long"],
)
def test_fields_of_a_packet_in_its_record(frame: bytes, record: bytes) -> None:
    if len(frame) == 50:
        record = record[:36] + bytes(8)  # a record has no fields of an incomplete header
    assert bytes(Switch().record(frame)[RETH].payload) == record


def test_an_unwatched_packet_causes_no_record() -> None:
    switch = Switch(watch=False)
    switch.watch("record", [1, 1], dst_port=5001)
    assert switch.records(udp()) == []
    assert len(switch.records(udp(dport=5001))) == 1


def test_acks_and_immediates_come_by_their_masks() -> None:
    switch = Switch(Session(ack_mask=3, immediate_mask=1))
    sent = [switch.record() for _ in range(9)]
    assert [packet[BTH].psn for packet in sent if packet[BTH].ackreq] == [3, 7]
    told = [(packet[BTH].psn, packet[ImmDt].data) for packet in sent if ImmDt in packet]
    assert told == [(1, 1), (3, 3), (5, 5), (7, 7)]


def test_flows_are_spread_over_sessions() -> None:
    """All records of a flow go to one of three sessions.

    Each session has its own PSNs and slots.
    """
    switch = Switch(*(Session(number, slots=64) for number in (1, 2, 3)), watch=False)
    switch.watch("record", [1, 3])
    for port in range(60):
        switch.record(udp(sport=port))
        switch.record(udp(sport=port))
    counts = [switch.events(number)["sent"] for number in (1, 2, 3)]
    assert sum(counts) == 120
    assert all(count % 2 == 0 and count > 20 for count in counts)
    assert [switch.state(number)[0] for number in (1, 2, 3)] == counts


def test_of_a_session_that_is_not_there_nothing_is_sent() -> None:
    switch = Switch(watch=False)
    switch.watch("record", [9, 1])
    switch.engine.mirror_set(9, [(OUT, 0)])
    assert switch.send(udp(), port=IN) == [(OUT, udp())]


def test_the_first_record_is_in_the_first_slot() -> None:
    assert slot_of(Switch().record()) == 0
