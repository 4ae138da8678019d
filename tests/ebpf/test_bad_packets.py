"""For each kind of frame, the counters of the eBPF programs equal those of the model."""

import os
import struct

import pytest
from bad_frames import FRAGMENT, HOP_BY_HOP, TCP, UDP, ethernet, ipv4, ipv6, segment
from packet_model import parse

from ebpf.loader import run
from ebpf.statistics.flows import KEY
from ebpf.statistics.program import Kept, Setting, load_statistics
from ebpf.threats import detector

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="BPF needs root")

PASS, UNSPEC = 2, 0xFFFFFFFF
A, B = 0x0A000001, 0x0A000002
A6, B6 = 0xFD00 << 112 | 1, 0xFD00 << 112 | 2
PORTS = segment(UDP, 1234, 53)
PLAIN = ethernet(ipv4(A, B, UDP, PORTS), 0x0800)


def chain(*kinds: int, fragment: int = 0) -> bytes:
    """Return a frame with an IPv6 packet: extension headers of these kinds, and then UDP."""
    headers = b"".join(
        struct.pack(">BBHI", following, 0, fragment if kind == FRAGMENT else 0, 0)
        for kind, following in zip(kinds, [*kinds, UDP][1:], strict=True)
    )
    return ethernet(ipv6(A6, B6, [*kinds, UDP][0], headers + PORTS), 0x86DD)


def tagged(*tags: int) -> bytes:
    return ethernet(ipv4(A, B, UDP, PORTS), 0x0800, tags=tags)


COUNTED = {  # a frame that is counted, and the source port in its key
    "plain": (PLAIN, 1234),
    "options": (ethernet(ipv4(A, B, UDP, PORTS, options=bytes(40)), 0x0800), 1234),
    "padded": (PLAIN + bytes(30), 1234),
    "first fragment": (ethernet(ipv4(A, B, UDP, PORTS, fragment=0x2000), 0x0800), 1234),
    "later fragment": (ethernet(ipv4(A, B, UDP, PORTS, fragment=0x0010), 0x0800), 0),
    "cut off behind its IP header": (ethernet(ipv4(A, B, UDP, b"\x04"), 0x0800), 0),
    "TCP without flags": (ethernet(ipv4(A, B, TCP, segment(TCP, 1234, 80)[:8]), 0x0800), 1234),
    "one tag": (tagged(0x8100), 1234),
    "four tags": (tagged(0x88A8, 0x8100, 0x8100, 0x8100), 1234),
    "chain": (chain(HOP_BY_HOP, 60, 43), 1234),
    "chain of eight": (chain(*[60] * 8), 1234),
    "chain of nine": (chain(*[60] * 9), 0),
    "first fragment of IPv6": (chain(FRAGMENT, fragment=1), 1234),
    "later fragment of IPv6": (chain(FRAGMENT, fragment=8), 0),
}
IGNORED = {
    "no IP": ethernet(bytes(46), 0x0806),
    "five tags": tagged(*[0x8100] * 5),
    "cut off in its tags": tagged(0x8100, 0x8100)[:20],
    "cut off in its IP header": PLAIN[:30],
    "longer than it is": ethernet(ipv4(A, B, UDP, PORTS, length=65535), 0x0800),
    "shorter than its header": ethernet(ipv4(A, B, UDP, PORTS, length=19), 0x0800),
    "of no words": ethernet(b"\x44" + ipv4(A, B, UDP, PORTS)[1:], 0x0800),
    "another version": ethernet(b"\x65" + ipv4(A, B, UDP, PORTS)[1:], 0x0800),
    "IPv6, cut off": ethernet(ipv6(A6, B6, UDP, b"", length=0)[:39], 0x86DD),
    "IPv6, longer than it is": ethernet(ipv6(A6, B6, UDP, PORTS, length=99), 0x86DD),
}


# BPF_PROG_TEST_RUN rejects these frames
NOT_RUN_AT_TC = {"cut off in its IP header", "IPv6, cut off"}


def ignored(where: str) -> dict[str, bytes]:
    return {name: frame for name, frame in IGNORED.items()
            if where == "at_xdp" or name not in NOT_RUN_AT_TC}  # fmt: skip


@pytest.mark.parametrize("where", ["at_xdp", "at_tc"])
def test_statistics_count_what_has_an_ip_header_by_the_ports_it_has(where: str) -> None:
    with load_statistics(Setting(Kept.ALL, groups=64)) as statistics:
        program = getattr(statistics, where)
        for name, (frame, port) in COUNTED.items():
            assert parse(frame).is_whole, name
            assert run(program, frame).verdict == (PASS if where == "at_xdp" else UNSPEC)
            window = statistics.flip()
            assert (window.totals.packets, window.totals.ignored) == (1, 0), name
            assert window.totals.bytes == len(frame), name
            keys = window.counted.keys.view(KEY)["source_port"].ravel()
            assert keys.tolist() == [port], name
        for name, frame in ignored(where).items():
            assert not parse(frame).is_whole, name
            run(program, frame)
            window = statistics.flip()
            assert (window.totals.packets, window.totals.ignored) == (0, 1), name
            assert not len(window.counted), name


@pytest.mark.parametrize("where", ["at_xdp", "at_tc"])
def test_detectors_count_the_same(where: str) -> None:
    with detector.detecting(detector.Setting()) as detects:
        for frame in [*(frame for frame, _ in COUNTED.values()), *ignored(where).values()]:
            run(getattr(detects, where), frame)
        assert detects.poll() == []
        assert (detects.totals.packets, detects.totals.ignored) == (
            len(COUNTED),
            len(ignored(where)),
        )
