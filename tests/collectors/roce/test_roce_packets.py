"""RoCE packets in scapy: the iCRC of packets from NICs, and building and parsing of layers."""

from ipaddress import IPv6Address

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from collectors.roce.packets import (
    AETH,
    BTH,
    GRH,
    RETH,
    UC,
    AtomicAckETH,
    AtomicETH,
    ImmDt,
    Nak,
    Op,
    icrc,
)

# IP packets with iCRC, in public captures of ConnectX-4 Lx: a CNP, and a UC SEND ONLY.
CAPTURED = {
    "cnp": "45c2003c718c4000401191610a0011010a001201000012b7002800008100ffff4000011800000000"
    "0000000000000000000000000000000082fd002a",
    "uc_send": "450100400478400040 11b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d300cf1710"
    "4630818be28935d90e9a95505401be885e50000078f353f3",
}
ENDS = {
    "v1": GRH(sgid=int(IPv6Address("::ffff:10.0.0.1")), dgid=int(IPv6Address("::ffff:10.0.0.2"))),
    "v2": IP(src="10.0.0.1", dst="10.0.0.2", flags="DF") / UDP(sport=49152),
    "v2_ipv6": IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=49152),
}
CONTENTS = {
    "write": BTH(opcode=Op.WRITE_ONLY, dqpn=17, psn=5) / RETH(va=1 << 40, rkey=3, length=4)
    / Raw(b"abcd"),
    "uc_write": BTH(opcode=Op.WRITE_ONLY | UC, dqpn=17, psn=5, padcount=3)
    / RETH(va=9, rkey=3, length=1) / Raw(b"a\0\0\0"),
    "immediate": BTH(opcode=Op.WRITE_ONLY_IMMEDIATE, dqpn=17, psn=5)
    / RETH(va=9, rkey=3, length=4) / ImmDt(data=7) / Raw(b"abcd"),
    "last_immediate": BTH(opcode=Op.WRITE_LAST_IMMEDIATE, dqpn=17, psn=5) / ImmDt(data=7)
    / Raw(b"abcd"),
    "fetch_add": BTH(opcode=Op.FETCH_ADD, dqpn=17, psn=5) / AtomicETH(va=8, rkey=3, swap=5),
    "ack": BTH(opcode=Op.ACKNOWLEDGE, dqpn=17, psn=5) / AETH(syndrome=Nak.SEQUENCE, msn=9),
    "atomic_ack": BTH(opcode=Op.ATOMIC_ACKNOWLEDGE, dqpn=17, psn=5) / AETH(syndrome=0x1F)
    / AtomicAckETH(before=1 << 63),
}  # fmt: skip


@pytest.mark.parametrize("name", CAPTURED)
def test_icrc_is_that_of_network_cards(name: str) -> None:
    packet = bytes.fromhex(CAPTURED[name])
    assert icrc(packet[:-4]) == packet[-4:]


@pytest.mark.parametrize("name", CAPTURED)
def test_scapy_fills_in_the_icrc_of_network_cards(name: str) -> None:
    packet = IP(bytes.fromhex(CAPTURED[name]))
    del packet[BTH].icrc
    assert bytes(packet).hex() == CAPTURED[name].replace(" ", "")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("content", CONTENTS)
def test_a_packet_is_read_as_it_was_built(end: str, content: str) -> None:
    built = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ENDS[end] / CONTENTS[content]
    frame = bytes(built)
    assert frame[-4:] == icrc(frame[14:-4])

    def fields(packet: Packet) -> list[tuple[type, dict[str, object]]]:
        layers = [packet[kind] for kind in packet.layers()]
        return [(type(each), {**each.fields}) for each in layers if not isinstance(each, Ether)]

    read = Ether(frame)
    assert [type(read[kind]) for kind in read.layers()] == [
        type(built[kind]) for kind in built.layers()
    ]
    for kind, given in fields(built):
        assert {name: getattr(read[kind], name) for name in given} == given


@pytest.mark.parametrize(
    "changes",
    [
        lambda packet: packet[IP].__setattr__("tos", 3),
        lambda packet: packet[IP].__setattr__("ttl", 9),
        lambda packet: packet[UDP].__setattr__("chksum", 0),
        lambda packet: packet[BTH].__setattr__("becn", 1),
    ],
)
def test_what_the_network_changes_leaves_the_icrc_right(changes: object) -> None:
    packet = ENDS["v2"] / CONTENTS["write"]
    before = bytes(packet)
    packet = IP(before)
    del packet[IP].chksum
    packet[BTH].icrc = None
    changes(packet)  # type: ignore[operator]
    after = bytes(packet)
    assert after != before
    assert after[-4:] == before[-4:]


def test_bytes_that_cannot_be_roce_have_no_icrc() -> None:
    with pytest.raises(ValueError, match="expected IPv4 without options"):
        icrc(b"\x46" + bytes(60))
    with pytest.raises(ValueError, match="no room for a BTH"):
        icrc(b"\x45" + bytes(30))
    with pytest.raises(ValueError, match="no iCRC: BTH is neither"):
        bytes(Ether() / BTH())
