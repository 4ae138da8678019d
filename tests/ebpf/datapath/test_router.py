"""The router: the counter that it increments for a frame equals that of a model.

In a network, it forwards live frames.
"""

import ipaddress
import struct
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice

import pytest
import wire
from bad_frames import TCP, UDP, checksum, ethernet, frames, ipv4, ipv6, segment

from ebpf.datapath.router import SOURCE, Router, read_mac
from ebpf.loader import LoadError, attach_xdp, load, run, run_live

PASS, REDIRECT, DROP = 2, 4, 1
NEXT_HOP = "02:00:00:00:00:99"
SENDER = bytes.fromhex("020000000002")


def ip(text: str) -> int:
    return int(ipaddress.ip_address(text))


@pytest.fixture
def router() -> Iterator[Router]:
    """Return a router between v0 and w0, with routes of all kinds. The router does not serve x0."""
    with wire.namespace():
        for name in "vwx":
            wire.veth(f"{name}0", f"{name}1")
        for scope in ("all", "default", "v0", "w0", "x0"):
            with open(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6", "w") as file:
                file.write("0")
        for setting in ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"):
            with open(f"/proc/sys/{setting}", "w") as file:
                file.write("1")
        for command in (
            "ip link set lo up", "ip link set w0 mtu 1400",
            "ip addr add 10.0.0.1/24 dev v0", "ip addr add 10.1.0.1/24 dev w0",
            "ip addr add 10.2.0.1/24 dev x0", "ip route add blackhole 10.9.0.0/16",
            "ip -6 addr add fd00::1/64 dev v0 nodad", "ip -6 addr add fd01::1/64 dev w0 nodad",
            f"ip neigh add 10.1.0.2 lladdr {NEXT_HOP} dev w0 nud permanent",
            f"ip neigh add 10.2.0.2 lladdr {NEXT_HOP} dev x0 nud permanent",
            f"ip neigh add fd01::2 lladdr {NEXT_HOP} dev w0 nud permanent",
            "ip route add 192.168.0.0/16 via 10.1.0.2", "ip -6 route add 2001::/16 via fd01::2",
        ):  # fmt: skip
            wire.run(command)
        with load(SOURCE) as loaded:
            yield Router(loaded, ["v0", "w0"])


def expected(frame: bytes, own_mac: bytes) -> str:
    """Return the name of the counter that the router increments for a frame that arrives at v0."""
    if frame[:6] != own_mac:
        return "not_addressed"
    packet = frame[14:]
    if frame[12:14] == b"\x08\x00":
        return expected_ip(packet)
    return expected_ip6(packet) if frame[12:14] == b"\x86\xdd" else "not_ip"


def expected_ip(packet: bytes) -> str:
    if len(packet) < 20 or packet[0] >> 4 != 4 or packet[0] & 15 < 5:
        return "malformed"
    if packet[0] & 15 > 5:
        return "options"
    length = int.from_bytes(packet[2:4], "big")
    if not 20 <= length <= len(packet) or checksum(packet[:20]):
        return "malformed"
    source, to = packet[12:16], packet[16:20]
    if any(each[0] in (0, 127) or each[0] >= 224 for each in (source, to)):
        return "special"
    if packet[8] <= 1:
        return "expired"
    if (to[:3] == bytes([10, 1, 0]) or to[:2] == bytes([192, 168])) and length > 1400:
        return "too_big"
    if to == bytes([10, 1, 0, 2]) or to[:2] == bytes([192, 168]):
        return "forwarded"
    if to[:2] == bytes([10, 9]):
        return "blackholed"
    if to == bytes([10, 2, 0, 2]):
        return "no_port"
    others = [bytes([10, network, 0]) for network in range(3)]
    own = to[3] in (0, 1, 255)  # address of the network, of the router, and for broadcast
    return "no_neighbour" if to[:3] in others and not own else "no_route"


def expected_ip6(packet: bytes) -> str:
    if len(packet) < 40 or packet[0] >> 4 != 6:
        return "malformed"
    length = 40 + int.from_bytes(packet[4:6], "big")
    if length > len(packet):
        return "malformed"
    if packet[6] == 0:
        return "options"
    source, to = packet[8:24], packet[24:40]
    for each in (source, to):
        if each[:4] == bytes(4) or each[0] == 0xFF or (each[0] == 0xFE and each[1] >> 6 == 2):
            return "special"
    if packet[7] <= 1:
        return "expired"
    if to[:2] in (b"\xfd\x01", b"\x20\x01") and length > 1400:
        return "too_big"
    if to == (0xFD01 << 112 | 2).to_bytes(16, "big") or to[:2] == b"\x20\x01":
        return "forwarded"
    connected = to[:8] in (b"\xfd\x00" + bytes(6), b"\xfd\x01" + bytes(6))
    return "no_neighbour" if connected and to[8:] > bytes(7) + b"\x01" else "no_route"


def forwarded(frame: bytes) -> bytes:
    """Return the frame that leaves at w0: TTL or hop limit decremented, checksum recomputed."""
    head, packet = (
        bytes.fromhex(NEXT_HOP.replace(":", "")) + read_mac("w0") + frame[12:14],
        frame[14:],
    )
    if packet[0] >> 4 == 6:
        return head + packet[:7] + bytes([packet[7] - 1]) + packet[8:]
    header = packet[:8] + bytes([packet[8] - 1, packet[9], 0, 0]) + packet[12:20]
    return head + header[:10] + struct.pack(">H", checksum(header)) + header[12:] + packet[20:]


def test_each_frame_is_forwarded_or_left_to_the_kernel(router: Router) -> None:
    payload, mac = segment(UDP, 1, 2), read_mac("v0")
    macs = mac + SENDER
    made = [
        ethernet(ipv4(ip("10.0.0.2"), ip(to), UDP, load, ttl=ttl), 0x0800, macs=macs)
        for to in ("10.1.0.2", "192.168.7.7", "10.1.0.3", "10.2.0.2", "10.9.1.1", "10.0.0.1",
                   "10.77.0.1", "127.0.0.1", "0.1.1.1", "224.0.0.1", "255.255.255.255")
        for load in (payload, bytes(1380), bytes(1381))
        for ttl in (0, 1, 2, 255)
    ] + [
        ethernet(ipv6(ip("fd00::2"), ip(to), UDP, load, hop_limit=ttl), 0x86DD, macs=macs)
        for to in ("fd01::2", "2001::7", "fd01::3", "fd00::1", "fd77::1", "::1", "ff02::1",
                   "fe80::1")
        for load in (payload, bytes(1360), bytes(1361))
        for ttl in (0, 1, 2, 255)
    ]  # fmt: skip
    seen: Counter[str] = Counter()
    for frame in [*made, *frames(2, 1500, macs=macs), *frames(3, 100)]:
        before = router.counts()
        tried = run(router.program, frame, ingress="v0")
        counted = Counter(router.counts()) - Counter(before)
        name = expected(frame, mac)
        assert counted == {name: 1}, frame.hex()
        verdict = {"forwarded": REDIRECT, "blackholed": DROP}.get(name, PASS)
        assert tried.verdict == verdict, frame.hex()
        assert tried.frame == (forwarded(frame) if verdict == REDIRECT else frame), frame.hex()
        seen[name] += 1
    assert set(seen) == set(router.counts()), "frames for all that may become of them"


def test_a_checksum_is_updated_to_what_it_would_be_anew(router: Router) -> None:
    """The checksum of a forwarded packet equals a checksum that is computed over its whole header.

    An update must not give 0xFFFF instead of 0 (RFC 1624, 4). Therefore the test uses checksums
    near both values.
    """
    macs, to = read_mac("v0") + SENDER, ip("10.1.0.2")
    seen = set()
    for identity in range(65536):
        packet = ipv4(ip("10.0.0.2"), to, TCP, segment(TCP, 1, 2), identity=identity)
        total = int.from_bytes(packet[10:12], "big")
        if 0x110 < total < 0xFE00:
            continue
        frame = ethernet(packet, 0x0800, macs=macs)
        assert run(router.program, frame, ingress="v0").frame == forwarded(frame)
        seen.add(total)
    assert {0, 0xFEFE, 0xFEFF, 0xFF00, 0xFFFE} <= seen


def test_packets_arrive_at_the_next_hop(router: Router) -> None:
    """All live frames arrive at w1. The program forwards them, not the router of the kernel."""
    macs = read_mac("v0") + SENDER
    many = [
        ethernet(ipv4(ip("10.0.0.2"), ip("192.168.0.0") + i, UDP, bytes(26)), 0x0800, macs=macs)
        for i in range(100)
    ]
    with wire.end("w1") as sink, attach_xdp(router.program, "v0"):
        wire.run("ethtool -K w1 gro on")
        run_live(router.program, many, 200, ingress="v0", restored=34)
        frames = (sink.recv(2000) for _ in count())
        # the kernel itself sends IPv6 frames
        of_ipv4 = (frame for frame in frames if frame[12:14] == b"\x08\0")
        arrived = [*islice(of_ipv4, 200)]
    assert arrived == [forwarded(frame) for frame in many] * 2
    assert router.counts()["forwarded"] == 200


def test_devices_must_be_there(router: Router) -> None:
    with load(SOURCE) as loaded, pytest.raises(LoadError, match="no interface nothing"):
        Router(loaded, ["nothing"])
