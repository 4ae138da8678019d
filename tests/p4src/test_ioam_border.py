"""The border of an IOAM domain: IOAM from outside does not enter, and no IOAM leaves."""

import random

import pytest
from ioam_path import (
    DROP_FOREIGN,
    NAMESPACE,
    OUT,
    SHORT,
    STRIP_FOREIGN,
    TO_COLLECTOR,
    Switch,
    damaged,
    parse_report,
    trace_of,
    udp,
    with_options,
)

from collectors.ioam.options import (
    DirectExport,
    EdgeToEdge,
    NodeData,
    Trace,
    TraceType,
    options_header,
    parse_options,
)

ALTMARK = bytes.fromhex("1204abcde800")
NODE = NodeData(hop_limit=64, node=9, ingress=1, egress=2)
TRACE = Trace(SHORT, NAMESPACE, remaining=2, nodes=(NODE,))
E2E = EdgeToEdge(NAMESPACE, sequence64=5, seconds=7)
DEX = DirectExport(SHORT, 5, flow=9)
POT = bytes.fromhex("310e 0002") + bytes(12)  # proof of transit: not processed, but removed
IOAM = {
    "trace": [TRACE], "E2E": [E2E], "DEX": [DEX], "all": [TRACE, E2E, DEX],
    "other order": [DEX, E2E, TRACE], "two traces": [TRACE, TRACE],
    "incremental": [Trace(SHORT, NAMESPACE, remaining=2, nodes=(NODE,), is_incremental=True)],
}  # fmt: skip


def header(*options: bytes) -> bytes:
    """Return a hop-by-hop header with these options, padded with PadN."""
    data = b"".join(options)
    size = -(len(data) + 2) % 8
    data += bytes(size) if size < 2 else bytes([1, size - 2]) + bytes(size - 2)
    return bytes([17, len(data) // 8]) + data


def non_ioam(frame: bytes) -> list[tuple[int, int, bytes]]:
    """Return the offset modulo 8, type and data of the options that are no padding.

    Assert that the lengths of the frame are correct, and that no option is an IOAM option.
    """
    packet = frame[14:]
    assert int.from_bytes(packet[4:6], "big") == len(packet) - 40
    if packet[6] != 0:
        return []
    _, ioam, length = parse_options(packet[40:])
    assert not ioam
    found, at = [], 42
    while at < 40 + length:
        if packet[at] == 0:
            at += 1
            continue
        assert packet[at] not in (0x11, 0x31)
        if packet[at] != 1:
            found.append((at % 8, packet[at], packet[at + 2 : at + 2 + packet[at + 1]]))
        at += 2 + packet[at + 1]
    return found


@pytest.mark.parametrize("options", IOAM.values(), ids=IOAM.keys())
def test_ioam_from_outside_is_dropped_or_removed(options: list[Trace]) -> None:
    for border, expected, event in (
        (DROP_FOREIGN, [], "foreign dropped"),
        (STRIP_FOREIGN, [(OUT, udp())], "foreign stripped"),
    ):
        switch = Switch(1, border=border)
        assert switch.send(with_options(*options)) == expected
        assert switch.events() == {event: 1}


@pytest.mark.parametrize("options", IOAM.values(), ids=IOAM.keys())
def test_no_ioam_leaves(options: list[Trace]) -> None:
    sent = Switch(3, leaving=True).send(with_options(*options))
    assert [out for port, out in sent if port == OUT] == [udp()]


@pytest.mark.parametrize("role", ["leaving", "border"])
@pytest.mark.parametrize("ioam", [TRACE.encode(), E2E.encode(), DEX.encode(),
                                  *(b"\x11" + bytes((size, 0, 3)) + bytes(size - 2)
                                    for size in (6, 7, 8, 9, 10, 11, 12, 13, 255))])  # fmt: skip
@pytest.mark.parametrize("where", ["first", "last", "middle"])
def test_other_options_stay_in_their_order_and_alignment(
    role: str, ioam: bytes, where: str
) -> None:
    others = [ALTMARK, b"\x05\x02\0\0"]
    padded = ioam + bytes([1, -len(ioam) % 8 + 6]) + bytes(-len(ioam) % 8 + 6)
    parts = {"first": [padded, *others], "last": [*others, padded],
             "middle": [others[0], padded, others[1]]}[where]  # fmt: skip
    data = udp(header=header(*parts))
    switch = Switch(3, leaving=True) if role == "leaving" else Switch(3, border=STRIP_FOREIGN)
    (out,) = (out for port, out in switch.send(data) if port == OUT)
    before = [each for each in _all_options(data) if each[1] in (0x12, 0x05)]
    assert non_ioam(out) == before
    assert len(data) - len(out) == len(ioam) // 8 * 8
    assert out[-28:] == udp()[-28:]


@pytest.mark.parametrize("ioam", [POT, b"\x31\x00", b"\x31\x01\x00",
                                  b"\x11\x03\0\0\0"])  # fmt: skip
def test_options_that_switches_do_not_process_are_removed_only_without_other_options(
    ioam: bytes,
) -> None:
    for role in ({"leaving": True}, {"border": STRIP_FOREIGN}):
        for options, expected in (([ioam], [udp()]), ([ALTMARK, ioam], [])):
            sent = Switch(3, **role).send(udp(header=header(*options)))
            assert [out for port, out in sent if port == OUT] == expected


def _all_options(frame: bytes) -> list[tuple[int, int, bytes]]:
    packet, found, at = frame[14:], [], 42
    while at < 40 + (packet[41] + 1) * 8:
        if packet[at] == 0:
            at += 1
            continue
        found.append((at % 8, packet[at], packet[at + 2 : at + 2 + packet[at + 1]]))
        at += 2 + packet[at + 1]
    return found


def test_packets_without_ioam_pass_the_border() -> None:
    for data in (udp(), udp(header=header(ALTMARK))):
        for switch in (Switch(1, border=DROP_FOREIGN), Switch(1, leaving=True)):
            assert switch.pass_on(data) == data
            assert switch.events() == {}


def with_payload_length(frame: bytes, length: int) -> bytes:
    return frame[:18] + length.to_bytes(2, "big") + frame[20:]


FULL_HEADER = bytes([17, 239]) + bytes([1, 0]) * 959  # 1,920 bytes
UNREADABLE = {
    "an option longer than its header": udp(header=bytes.fromhex("1100 3110 0000 0000")),
    "only the first byte of an option": udp(header=bytes([17, 0, 1, 3, 0, 0, 0, 0x31])),
    "too many options": udp(header=header(*[b"\x05\x02\0\0"] * 20)),
    "959 options": udp(header=FULL_HEADER),
    "a header longer than the packet": udp(header=b"\x11\xff" + TRACE.encode()[:30]),
    "a second hop-by-hop header": udp(header=b"\0" + header(b"\x05\x02\0\0")[1:])[:62]
    + header(TRACE.encode()),
    "cut in the header": with_options(TRACE)[:70],
    "cut before the options": with_options(TRACE)[:56],
    "cut after the first byte of the header": with_options(TRACE)[:55],
    "a payload shorter than the header": with_payload_length(with_options(TRACE), 31),
    "a jumbogram": with_payload_length(with_options(TRACE), 0),
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_packets_with_unreadable_options_stay_inside_or_outside(data: bytes) -> None:
    inside = Switch(2)
    assert inside.pass_on(data) == data
    assert inside.events() == {"malformed": 1}
    for border in (DROP_FOREIGN, STRIP_FOREIGN):
        assert Switch(1, border=border).send(data) == []
    last = Switch(3, leaving=True)
    assert last.send(data) == []
    assert last.events()["leak dropped"] == 1


def raw_trace(words: int, remaining: int, *, length: int | None = None, node: int = 2,
              kind: int = 0, trace_type: int = SHORT) -> bytes:  # fmt: skip
    """Return a trace option with this many words of data, whose lengths may be wrong."""
    head = bytes([0x31, 10 + 4 * words if length is None else length, 0, kind])
    head += NAMESPACE.to_bytes(2, "big") + (node << 11 | remaining).to_bytes(2, "big")
    return head + (trace_type << 8).to_bytes(4, "big") + bytes(4 * words)


INCONSISTENT = {
    "more free space than data": raw_trace(4, 5),
    "as much free space as the field has": raw_trace(4, 127),
    "length not a multiple of four": raw_trace(4, 2, length=27) + b"\0",
    "NodeLen too small": raw_trace(4, 4, node=1),
    "NodeLen too big": raw_trace(4, 4, node=31),
    "NodeLen 0": raw_trace(4, 4, node=0, trace_type=0),
    "incremental, NodeLen too big": raw_trace(4, 4, node=3, kind=1),
}


@pytest.mark.parametrize("option", INCONSISTENT.values(), ids=INCONSISTENT.keys())
def test_inconsistent_trace_options_are_not_changed_but_removed(option: bytes) -> None:
    data = udp(header=header(b"\x01\0", option))
    inside = Switch(2)
    assert inside.pass_on(data) == data
    assert inside.events() == {"malformed": 1}
    sent = Switch(3, leaving=True).send(data)
    assert [out for port, out in sent if port == OUT] == [udp()]


def test_a_payload_that_ends_with_the_header_leaves_as_an_empty_packet() -> None:
    data = with_payload_length(with_options(TRACE), 32)
    sent = Switch(3, leaving=True).send(data)
    assert [out for port, out in sent if port == OUT] == [with_payload_length(udp(), 0)]


def test_a_trace_option_that_must_not_change_is_not_changed_but_removed() -> None:
    data = udp(header=header(b"\x01\0", b"\x11" + raw_trace(4, 4)[1:]))
    assert Switch(2).pass_on(data) == data
    assert Switch(3, leaving=True).pass_on(data) == udp()


def test_the_longest_option_is_filled_to_its_end() -> None:
    """An option of 255 bytes has space for 61 words of node data."""
    option = Trace(TraceType.HOP_NODE, NAMESPACE, remaining=61)
    frame = with_options(option)
    for number in range(1, 62):
        frame = Switch(number).pass_on(frame)
    assert [node.node for node in trace_of(frame).nodes] == list(range(1, 62))
    full = Switch(62)
    assert trace_of(full.pass_on(frame)).flags == 8
    assert full.events() == {"overflowed": 1}


def test_255_nodes_do_not_exceed_the_longest_option() -> None:
    switch = Switch(9)
    for incremental in (False, True):
        option = Trace(TraceType.HOP_NODE, NAMESPACE, remaining=61, is_incremental=incremental)
        frame = with_options(option)
        for _ in range(255):
            frame = switch.pass_on(frame)
        trace = trace_of(frame)
        assert (len(trace.nodes), trace.remaining, trace.flags) == (61, 0, 8)
        assert [out for port, out in Switch(3, leaving=True).send(frame) if port == OUT] == [udp()]


def test_an_incremental_option_stops_at_255_bytes() -> None:
    option = Trace(TraceType.HOP_NODE, NAMESPACE, remaining=127, is_incremental=True)
    frame = with_options(option)
    switch = Switch(9)
    for _ in range(100):
        frame = switch.pass_on(frame)
    trace = trace_of(frame)
    assert (len(trace.nodes), trace.remaining, trace.flags) == (61, 66, 8)


def test_nested_headers_are_removed_at_the_edge_of_the_domain() -> None:
    """A tunnel in a tunnel: only the outermost options belong to this domain."""
    inner = with_options(TRACE)[14:]
    outer = with_options(TRACE)[:14] + udp(header=options_header([TRACE], 41))[14:94] + inner
    sent = Switch(3, leaving=True).send(outer)
    ((_, out),) = (each for each in sent if each[0] == OUT)
    assert out[54:] == outer[54 + (outer[55] + 1) * 8 :]


@pytest.mark.parametrize("role", ["transit", "leaving", "strip", "drop", "tunnel"])
def test_damaged_frames_do_no_harm(role: str) -> None:
    roles = {"leaving": {"leaving": True}, "strip": {"border": STRIP_FOREIGN},
             "drop": {"border": DROP_FOREIGN}, "tunnel": {"leaving": True}}  # fmt: skip
    switch = Switch(3, namespaces=[0, 5, NAMESPACE], **roles.get(role, {}))
    if role == "tunnel":
        switch.end_tunnel()
    first = Switch(1, border=DROP_FOREIGN)
    first.insert_trace(SHORT | TraceType.OPAQUE, e2e=0xF000)
    tunnel = Switch(1, border=DROP_FOREIGN)
    tunnel.insert_trace(0xFFF002, incremental=True)
    tunnel.begin_tunnel()
    frames = [with_options(*options) for options in IOAM.values()]
    frames += [first.pass_on(udp()), tunnel.pass_on(udp()), udp(header=header(ALTMARK, POT))]
    rng, reports, passed = random.Random(1), 0, 0
    for frame in frames:
        for _ in range(150):
            came = damaged(frame, rng)
            for port, out in switch.send(came):
                if port == TO_COLLECTOR:
                    reports += 1
                    assert len(out) <= 14 + 1500
                    if len(out) >= 62:
                        _check_report(out)
                    continue
                assert port == OUT
                passed += 1
                if role != "transit" and len(came) - 14 >= 40 + int.from_bytes(came[18:20], "big"):
                    non_ioam(out)
    assert passed > (10 if role == "drop" else 100)
    assert role != "leaving" or reports > 100


def _check_report(frame: bytes) -> None:
    report = parse_report(frame)
    assert (report.node, report.packet[:1]) == (3, b"\x6b")
