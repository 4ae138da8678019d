"""A request with a single bit error: no byte of memory changes."""

import os
from collections.abc import Callable

import numpy as np
import pytest
from arriving import frames
from requester import Request, Session, add, write

from collectors.roce.endpoint import Peer
from collectors.roce.region import Region
from collectors.roce.softnic import SoftNic

ADDRESSES = {"v1": ("10.0.0.2", "10.0.0.1"), "v2": ("10.0.0.2", "10.0.0.1"),
             "v2_ipv6": ("fd00::2", "fd00::1")}  # fmt: skip
MACS = ("02:00:00:00:00:02", "02:00:00:00:00:01")
SOURCE_MAC = range(8 * 6, 8 * 12)  # RoCE ignores the source MAC address
REQUESTS: dict[str, Callable[[], Request]] = {
    "write": lambda: write(0, b"telemetry", 8),
    "immediate": lambda: write(0, b"telemetry", 8, immediate=1),
    "add": lambda: add(0, 8, 42),
}


def changing(version: str) -> set[int]:
    """Return the bits that switches may change and that the iCRC does not cover.

    The bits are FECN, BECN and 6 adjacent bits. In IPv6 and GRH, they also include traffic class,
    flow label and hop limit (in IPv4, a checksum protects these fields).
    """
    bth = 14 + {"v1": 40, "v2": 28, "v2_ipv6": 48}[version]
    bits = {*SOURCE_MAC, *range(8 * (bth + 4), 8 * (bth + 5))}
    if version != "v2":
        bits |= {*range(8 * 14 + 4, 8 * 18), *range(8 * 21, 8 * 22)}
    return bits


@pytest.mark.parametrize("version", ADDRESSES)
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_changed_bit_changes_no_byte(version: str, kind: str) -> None:
    own, peer_address = ADDRESSES[version]
    nic = SoftNic(own, mac=MACS[0], sanitize="SANITIZE" in os.environ)
    region = Region(np.dtype("u1"), 256)
    peer = Peer(peer_address, qpn=7, psn=5)
    target = nic.connect(nic.register(region), peer)
    good = REQUESTS[kind]()(Session(version, MACS[0], peer, MACS[1], target))
    flipped = []
    for bit in sorted({*range(8 * len(good))} - changing(version)):
        frame = bytearray(good)
        frame[bit // 8] ^= 0x80 >> bit % 8
        flipped.append(bytes(frame))
    assert nic.receive(frames(flipped)) == []
    assert not region.bytes.any()
    assert sum(nic.counts().refused.values()) == len(flipped)
    assert len(nic.receive(frames([good]))) == 1
    assert region.bytes[8:].any()


@pytest.mark.parametrize("version", ADDRESSES)
def test_what_switches_may_change_changes_nothing_either(version: str) -> None:
    own, peer_address = ADDRESSES[version]
    for bit in sorted(changing(version)):
        nic = SoftNic(own, mac=MACS[0], sanitize="SANITIZE" in os.environ)
        region = Region(np.dtype("u1"), 256)
        peer = Peer(peer_address, qpn=7, psn=5)
        target = nic.connect(nic.register(region), peer)
        frame = bytearray(
            write(0, b"telemetry", 8)(Session(version, MACS[0], peer, MACS[1], target))
        )
        frame[bit // 8] ^= 0x80 >> bit % 8
        nic.receive(frames([bytes(frame)]))
        assert region.bytes[:20].tobytes() == bytes(8) + b"telemetry" + bytes(3)
