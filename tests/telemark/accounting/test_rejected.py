"""A malformed frame gets a description that names its fault; a valid frame gets none."""

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from telemark.accounting.rejected import describe_malformed, first_example

FLOW = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2")
ODD = Raw(b"odd")  # an odd number of bytes


@pytest.mark.parametrize(
    "packet",
    [
        FLOW / UDP(sport=1, dport=2) / ODD,
        FLOW / UDP(sport=1, dport=2, chksum=0) / ODD,
        FLOW / UDP(sport=2, dport=0xCBE0) / Raw(b"\0" * 4),
        FLOW / TCP() / ODD,
        FLOW / ICMP() / ODD,
        FLOW / UDP(sport=1, dport=2) / ODD / Raw(b"padding" * 9),
        Ether() / ARP(),
        Ether(type=0x0800) / IP(flags="MF") / UDP(chksum=7),
    ],
)
def test_right_frames_have_no_problem(packet: Packet) -> None:
    assert describe_malformed(bytes(packet)) is None


@pytest.mark.parametrize(
    ("packet", "problem"),
    [
        (FLOW / UDP(sport=1, dport=2, chksum=5) / ODD,
         "10.0.0.1:1 > 10.0.0.2:2: UDP checksum 0x0005, expected 0x186e"),
        (FLOW / UDP(sport=1, dport=2, len=99) / ODD,
         "10.0.0.1:1 > 10.0.0.2:2: UDP length 99, in 11 bytes"),
        (FLOW / TCP(sport=1, dport=2, chksum=5), "10.0.0.1:1 > 10.0.0.2:2: TCP checksum 0x0005, "),
        (FLOW / ICMP(chksum=5), "10.0.0.1 > 10.0.0.2: ICMP checksum 0x0005, expected 0xf7ff"),
        (Ether() / IP(dst="10.0.0.2", src="10.0.0.1", chksum=5),
         "10.0.0.1 > 10.0.0.2: IPv4 checksum 0x0005, expected 0x66e"),
        (Ether() / IP(dst="10.0.0.2", src="10.0.0.1", len=99),
         "10.0.0.1 > 10.0.0.2: IPv4 version 4, header of 20 bytes, total length 99, in 20 bytes"),
    ],
)  # fmt: skip
def test_a_malformed_frame_is_described(packet: Packet, problem: str) -> None:
    assert str(describe_malformed(bytes(packet))).startswith(problem)


def test_frames_for_other_hosts_are_no_example() -> None:
    wrong = FLOW / UDP(sport=1, dport=2, chksum=5)
    frames = [(1_000_000_000, bytes(wrong)), (2_000_000_000, bytes(wrong))]
    assert first_example(frames, "02:00:00:00:00:03") == ""
    assert first_example(frames, "02:00:00:00:00:02").startswith("first at 1.000000 s, 10.0.0.1:1")
