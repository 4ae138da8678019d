"""The AltMark option next to other options, and in a destination options header (RFC 9343).

tshark has no field for AltMark, but it shows the type, the length and the bytes of each option.
"""

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from ampm_path import (
    DECAPSULATE,
    FIRST,
    HOSTS_MAC,
    IPV6_ADDRESSES,
    LAST,
    MIDDLE,
    SAMPLE,
    TUNNEL,
    L,
    Switch,
)
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from controllers.ampm.watch import Method

FLOW_MON_ID = 0xABCDE
ALTMARK = bytes.fromhex("1204ABCDE000")
ROUTER_ALERT = bytes.fromhex("05020000")
PAD1, PAD2 = b"\x00", bytes.fromhex("0100")
HOP_BY_HOP, DESTINATION_OPTIONS, WINDOW = 0, 60, 32
ETHER = Ether(dst=HOSTS_MAC, src="02:00:00:00:00:01")


def frame(
    options: bytes, kind: int = HOP_BY_HOP, *, number: int = 0, units: int | None = None
) -> bytes:
    """Return a frame with an options header.

    The header is padded with zeros to `units` times eight bytes (default: as few as possible).
    """
    needed = -(-(2 + len(options)) // 8) if units is None else units
    header = (bytes((17, needed - 1)) + options).ljust(8 * needed, b"\0")
    segment = bytes(UDP(sport=4000, dport=5000, chksum=number) / Raw(bytes(20)))
    src, dst = IPV6_ADDRESSES
    return bytes(ETHER / IPv6(src=src, dst=dst, nh=kind, hlim=64) / Raw(header + segment))


def switch(role: str, method: Method = Method.STEP) -> Switch:
    made = Switch(role, method, flows=0)
    made.watch_ipv6(role, method, flow_mon_id=FLOW_MON_ID)
    return made


def coloured(data: bytes) -> bytes:
    """Return a frame in which the flag L of its AltMark option is set."""
    before, option, after = data.partition(ALTMARK)
    assert option
    return before + ALTMARK[:4] + b"\xe8" + ALTMARK[5:] + after


BESIDE = {
    "before another option": ALTMARK + ROUTER_ALERT,
    "behind another option": ROUTER_ALERT + ALTMARK,
    "between options": ROUTER_ALERT + ALTMARK + ROUTER_ALERT,
    "behind padding": PAD1 + PAD1 + PAD2 + ALTMARK,
    "behind a long option": bytes.fromhex("3e16") + bytes(22) + ALTMARK,  # ends at byte 32
    "at the end of 24 bytes": bytes.fromhex("3e0e") + bytes(14) + ALTMARK,
    "before a long option": ALTMARK + bytes.fromhex("3130") + bytes(48),
}


@pytest.mark.parametrize("options", BESIDE.values(), ids=BESIDE.keys())
@pytest.mark.parametrize("kind", [HOP_BY_HOP, DESTINATION_OPTIONS])
def test_the_option_is_marked_beside_other_options(options: bytes, kind: int) -> None:
    data = frame(options, kind)
    marked = coloured(data)
    assert switch(FIRST).pass_on(data, 5 * L) == marked
    middle = switch(MIDDLE)
    assert middle.pass_on(marked, 5 * L) == marked
    assert middle.packets(0, 1) == (1, 1)
    assert switch(LAST).pass_on(marked, 5 * L) == data


OTHERS = {
    "inside another option": bytes.fromhex("3e06") + ALTMARK,
    "behind 32 bytes": bytes.fromhex("3e1c") + bytes(28) + ALTMARK,
    "across 32 bytes": bytes.fromhex("3e18") + bytes(24) + ALTMARK,
    "behind an option that exceeds the header": bytes.fromhex("3eff") + ALTMARK,
    "across the end of the header": bytes.fromhex("3e07") + bytes(7) + ALTMARK[:5],
    "of another length": bytes.fromhex("1206") + ALTMARK[2:] + bytes(2),
    "another FlowMonID": ROUTER_ALERT + bytes.fromhex("1204ABCDF000"),
}


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS.keys())
def test_other_options_pass_untouched_and_uncounted(options: bytes) -> None:
    first = switch(FIRST)
    data = frame(options)
    assert first.pass_on(data, 5 * L) == data
    assert first.packets(0, 1) == (0, 0)


@pytest.mark.parametrize("units", [1, 2, 3])
def test_bytes_behind_the_header_are_no_option(units: int) -> None:
    """The payload looks like an AltMark option."""
    first = switch(FIRST)
    header = bytes((17, units - 1, 1, 8 * units - 4)) + bytes(8 * units - 4)
    src, dst = IPV6_ADDRESSES
    data = bytes(ETHER / IPv6(src=src, dst=dst, nh=HOP_BY_HOP) / Raw(header + ALTMARK + bytes(40)))
    assert first.pass_on(data, 5 * L) == data
    assert first.packets(0, 1) == (0, 0)


def test_packets_with_other_options_have_no_ports() -> None:
    """The first bytes of the header are not taken for ports."""
    data = frame(ROUTER_ALERT)
    for src_port, count in ((int.from_bytes(data[54:56], "big"), 0), (0, 1)):
        first = Switch(FIRST, Method.STEP, flows=0)
        first.watch_plain_ipv6(FIRST, Method.STEP, protocol=HOP_BY_HOP, src_port=src_port)
        first.pass_on(data, 5 * L)
        assert first.packets(0, 1) == (count, count)


@pytest.mark.parametrize("units", [2, 3, 4, 256])
def test_a_header_longer_than_its_packet_passes(units: int) -> None:
    """The header states a length that the packet does not have."""
    data = frame(ROUTER_ALERT + ALTMARK, units=units)
    cut = data[: 14 + 40 + 12]
    assert switch(FIRST).pass_on(cut, 5 * L) == cut


def option_is_found(options: bytes) -> bool:
    """Return whether a receiver that reads the first 32 bytes of the header finds AltMark."""
    header = bytes(2) + options
    at = 2
    while at < min(len(header), WINDOW):
        size = 1 if header[at] == 0 else 2 + int.from_bytes(header[at + 1 : at + 2], "big")
        if header[at : at + 2] == ALTMARK[:2]:
            return at + 6 <= min(len(header), WINDOW)
        at += size
    return False


def test_random_options_are_walked_as_by_a_receiver() -> None:
    rng = random.Random(1)
    found = 0
    for _ in range(150):
        parts = [
            rng.randbytes(rng.choice([0, 0, 0, 0, 1, 3]))
            + rng.choice([PAD1, PAD2, ROUTER_ALERT, ROUTER_ALERT, ALTMARK])
            for _ in range(rng.randint(1, 6))
        ]
        options = b"".join(parts)
        options += bytes(-(2 + len(options)) % 8)
        data = frame(options)
        watching = switch(MIDDLE)
        assert watching.pass_on(data, 5 * L) == data
        # the packet has colour 0, so it belongs to block 4
        assert watching.packets(0, 0)[0] == option_is_found(options), options.hex()
        found += watching.packets(0, 0)[0]
    assert 30 < found < 130


@pytest.mark.parametrize("units", [2, 3, 4])
def test_hashed_samples_include_the_ports_behind_the_options(units: int) -> None:
    point = switch(MIDDLE, Method.STEP | Method.HASHED)
    for number in range(40):
        data = frame(ROUTER_ALERT + ALTMARK, number=number, units=units)
        point.pass_on(data, 4 * L + number)
    assert len({point.read(SAMPLE, place)[0].values[2] for place in range(8)}) > 4


@pytest.mark.parametrize("units", [2, 3, 4])
def test_hashed_samples_do_not_depend_on_the_payload(units: int) -> None:
    point = switch(MIDDLE, Method.STEP | Method.HASHED)
    data = frame(ROUTER_ALERT + ALTMARK, units=units)
    for first_byte in b"ab":
        point.pass_on(data[:-20] + bytes((first_byte,)) + data[-19:], 4 * L)
    samples = [point.read(SAMPLE, place)[0].values[0] for place in range(8)]
    assert sorted(samples) == [0] * 7 + [2]


@pytest.mark.parametrize("units", [2, 3, 4])
def test_hashed_samples_do_not_depend_on_the_order_of_options(units: int) -> None:
    point = switch(MIDDLE, Method.STEP | Method.HASHED)
    for options in (ALTMARK + ROUTER_ALERT, ROUTER_ALERT + ALTMARK, PAD2 + PAD1 + ALTMARK):
        point.pass_on(frame(options, units=units), 4 * L)
    samples = [point.read(SAMPLE, place)[0].values[0] for place in range(8)]
    assert sorted(samples) == [0] * 7 + [3]


def test_hashed_samples_do_not_depend_on_a_long_header() -> None:
    """Switches see no ports behind a header that is longer than 32 bytes."""
    point = switch(MIDDLE, Method.STEP | Method.HASHED)
    data = frame(ROUTER_ALERT + ALTMARK, units=5)
    for byte in b"ab":
        point.pass_on(data[:92] + bytes((byte,)) + data[93:], 4 * L)
    samples = [point.read(SAMPLE, place)[0].values[0] for place in range(8)]
    assert sorted(samples) == [0] * 7 + [2]


def test_only_the_ends_of_a_tunnel_use_its_destination_options() -> None:
    """The ends measure. A switch between them measures the hop-by-hop header of another flow."""
    first = Switch(FIRST, Method.STEP, flows=0)
    first.encapsulate(Method.STEP, flow_mon_id=FLOW_MON_ID, options_type=DESTINATION_OPTIONS)
    src, dst = IPV6_ADDRESSES
    data = bytes(ETHER / IPv6(src=src, dst=dst) / UDP(sport=4000, dport=5000) / Raw(bytes(20)))
    outer = first.pass_on(data, 5 * L)
    assert outer[20] == DESTINATION_OPTIONS
    assert outer[54:62].hex() == "29001204abcde800"
    last = Switch(DECAPSULATE, Method.STEP, flows=0)
    last.watch_ipv6(DECAPSULATE, Method.STEP, flow_mon_id=FLOW_MON_ID, addresses=TUNNEL)
    assert last.pass_on(outer, 5 * L) == data
    assert last.packets(0, 1) == (1, 1)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_shows_the_same_options(tmp_path: Path) -> None:
    sent = [frame(options, kind) for options in (ALTMARK, *BESIDE.values())
            for kind in (HOP_BY_HOP, DESTINATION_OPTIONS)]  # fmt: skip
    marked = [switch(FIRST).pass_on(data, 5 * L) for data in sent]
    wrpcap(str(tmp_path / "marked.pcap"), [Ether(data) for data in marked])
    fields = ["ipv6.hopopts.nxt", "ipv6.dstopts.nxt", "ipv6.opt.type", "ipv6.opt.length",
              "ipv6.opt.unknown", "udp.dstport", "_ws.malformed"]  # fmt: skip
    # A guess of tshark takes the payload for TAPA.
    command = ["tshark", "-r", str(tmp_path / "marked.pcap"), "--disable-protocol", "tapa",
               "-T", "fields", "-E", "separator=;"]  # fmt: skip
    command += [word for field in fields for word in ("-e", field)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[:2] == ["17;;0x12;4;abcde800;5000;", ";17;0x12;4;abcde800;5000;"]
    assert len(lines) == len(marked)
    for number, line in enumerate(lines):
        hop_by_hop, destination, types, lengths, unknown, port, malformed = line.split(";")
        assert (hop_by_hop, destination) == (("17", ""), ("", "17"))[number % 2]
        assert "0x12" in types.split(",")
        assert "4" in lengths.split(",")
        assert "abcde800" in unknown.split(",")
        assert (port, malformed) == ("5000", "")
