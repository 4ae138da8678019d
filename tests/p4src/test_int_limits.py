"""Cases in which a switch must not push INT-MD metadata, or cannot.

The causes are hops, MTU, lengths, unknown bits, and marks of other domains.
"""

from collections.abc import Callable

import pytest
from int_layers import BUFFER, LAST, NODE, QUEUE, IntHeader, Shim
from int_path import IN, OUT, PORT, PROBE, Switch, checked, parse_int, tcp, udp
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

INT_DSCP = 4


def with_int(
    stack: bytes = b"", *, header: dict[str, int] | None = None, shim: dict[str, int] | None = None,
    payload: bytes = b"payload!", tos: int = INT_DSCP << 2,
) -> bytes:  # fmt: skip
    """Return a UDP packet in which a previous switch inserted INT, with these fields."""
    top = Shim(**{"length": 3 + len(stack) // 4, **(shim or {})})
    fields = {"hop_ml": 2, "remaining": 5, "instructions": NODE | QUEUE, **(header or {})}
    inside = bytes(top / IntHeader(**fields)) + stack + payload
    ether = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
    ip = IP(src="10.0.0.1", dst="10.0.0.2", id=7, tos=tos)
    return bytes(ether / ip / UDP(sport=4000, dport=5000) / Raw(inside))


def test_with_no_hop_remaining_nothing_is_pushed_and_e_is_set() -> None:
    transit = Switch(2)
    came = with_int(bytes(8), header={"remaining": 0})
    found = parse_int(transit.pass_on(came))
    assert (found.header.exceeded, found.header.mtu, found.header.remaining) == (1, 0, 0)
    assert found.stack == (0, 0)
    assert transit.events() == {"hops": 1}
    again = transit.pass_on(transit.pass_on(came))
    assert again == transit.pass_on(came)


def test_hops_are_counted_down_by_those_that_push() -> None:
    source = Switch(1, outside=[IN])
    source.embed_data(NODE, 2)
    frame = source.pass_on(udp())
    seen = [parse_int(frame)]
    for number in range(2, 5):
        frame = Switch(number).pass_on(frame)
        seen.append(parse_int(frame))
    assert [(s.header.remaining, s.header.exceeded, s.stack) for s in seen] == [
        (1, 0, (1,)), (0, 0, (2, 1)), (0, 1, (2, 1)), (0, 1, (2, 1))
    ]  # fmt: skip


def test_a_source_that_is_asked_for_nothing_is_no_hop() -> None:
    source = Switch(1, outside=[IN])
    source.embed_data(0, 3)
    found = parse_int(Switch(2).pass_on(source.pass_on(udp())))
    assert (found.header.remaining, found.header.hop_ml, found.stack) == (3, 0, ())


@pytest.mark.parametrize(("mtu", "fits"), [(60, True), (59, False)])
def test_beyond_the_mtu_nothing_is_pushed_and_m_is_set(mtu: int, fits: bool) -> None:
    came = with_int()  # an IP packet of 20 + 8 + 16 + 8 bytes
    transit = Switch(2, mtu=mtu)
    found = parse_int(transit.pass_on(came))
    assert (found.header.mtu, found.header.exceeded) == (not fits, 0)
    assert (found.header.remaining, found.stack) == ((4, (2, 0)) if fits else (5, ()))
    assert transit.events() == ({} if fits else {"mtu": 1})


@pytest.mark.parametrize(
    ("mtu", "stack", "flag", "events"),
    [
        (60, (1, 0), 0, {}),
        (59, (), 1, {"mtu": 1}),
        (52, (), 1, {"mtu": 1}),
        (51, None, 0, {"no room": 1}),
    ],
)
def test_a_source_without_room(
    mtu: int, stack: tuple[int, ...] | None, flag: int, events: dict[str, int]
) -> None:
    """If there is room for INT, but not for metadata, the source inserts INT with flag M.

    If there is no room for INT's 16 bytes, it inserts nothing.
    """
    source = Switch(1, outside=[IN], mtu=mtu)
    source.embed_data(NODE | QUEUE)
    out = source.pass_on(udp())
    assert source.events() == events
    if stack is None:
        assert out == udp()
        return
    found = parse_int(out)
    assert (found.stack, found.header.mtu) == (stack, flag)
    assert (found.header.hop_ml, found.header.remaining) == (2, 8 if flag else 7)
    sink = Switch(3, outside=[OUT])
    assert sink.pass_on(out) == udp()


def test_the_complement_where_the_source_has_no_room() -> None:
    source = Switch(1, outside=[IN], mtu=52)
    source.embed_data(NODE | LAST)
    assert checked(source.pass_on(udp()))[UDP].chksum != checked(udp())[UDP].chksum


def test_with_the_complement_the_checksum_of_layer_4_stays() -> None:
    source, transit = Switch(1, outside=[IN]), Switch(2)
    source.embed_data(0xFF80 | LAST)
    for data in (udp(), tcp()):
        inside = transit.pass_on(source.pass_on(data, 123_456), 7_654_321)
        name = "UDP" if checked(data).haslayer("UDP") else "TCP"
        assert checked(inside)[name].chksum == checked(data)[name].chksum
        hops = parse_int(inside).hops
        assert all(hop[LAST] >> 16 == 0 for hop in hops)
        assert len({hop[LAST] for hop in hops}) == 2


@pytest.mark.parametrize("length", [247, 255])
def test_a_stack_ends_where_eight_bits_of_length_do(length: int) -> None:
    came = with_int(bytes(4 * (length - 3)))
    found = parse_int(Switch(2).pass_on(came))
    grown = length + 2 <= 255
    assert found.shim.length == (length + 2 if grown else length)
    assert (found.header.exceeded, found.header.remaining) == ((0, 4) if grown else (1, 5))


def test_the_longest_path_comes_through() -> None:
    """INT of 15 hops with 52 bytes each is reported and removed completely. It has 198 words.

    With INT, the packet of 704 bytes has 1,500 bytes.
    """
    source = Switch(1, outside=[IN])
    source.embed_data(0xFF81, 20)
    data = udp(bytes(704 - 28))
    frame = source.pass_on(data)
    for number in range(2, 16):
        frame = Switch(number).pass_on(frame)
    found = parse_int(frame)
    assert (len(found.stack), len(frame) - 14) == (195, 1500)
    assert [hop[NODE] for hop in found.hops] == list(range(15, 0, -1))
    assert parse_int(Switch(16).pass_on(frame)).header.mtu == 1
    sink = Switch(17, outside=[OUT])
    sink.report_all()
    out, report = sink.report(frame)
    assert out == data
    assert report.head.length == 2 + report.head.md_length + 5 + 2 + 199
    assert report.fragment == frame[14 : 14 + 4 * (5 + 2 + 199)]


def test_a_report_of_255_words_and_more() -> None:
    came = with_int(bytes(4 * 250), header={"instructions": NODE, "hop_ml": 1})
    sink = Switch(3, outside=[OUT])
    sink.report_all()
    report = sink.report(came)[1]
    assert report.head.length == 255
    assert report.fragment == came[14 : -len("payload!")]


@pytest.mark.parametrize("bit", [BUFFER, *(1 << n for n in range(1, 7))])
def test_unknown_bits_are_all_ones(bit: int) -> None:
    came = with_int(header={"instructions": NODE | QUEUE | bit, "hop_ml": 3})
    found = parse_int(Switch(2).pass_on(came))
    assert found.hops == [{NODE: 2, QUEUE: 0, bit: 0xFFFFFFFF}]


def test_all_bits_at_once() -> None:
    came = with_int(header={"instructions": 0xFFFF, "hop_ml": 19})
    (hop,) = parse_int(Switch(2).pass_on(came)).hops
    assert {bit for bit, value in hop.items() if value == 0xFFFFFFFF} == {
        0x0100, *(1 << n for n in range(1, 8))
    }  # fmt: skip


@pytest.mark.parametrize(
    "header",
    [
        {"hop_ml": 3, "domain": 7, "domain_instructions": 0x8000},
        {"hop_ml": 1},
        {"hop_ml": 0},
        {"instructions": 0, "hop_ml": 1},
    ],
)
def test_unknown_headers_are_unchanged(header: dict[str, int]) -> None:
    transit, came = Switch(2), with_int(bytes(8), header=header)
    assert transit.pass_on(came) == came
    assert transit.events() == {"not understood": 1}


def test_baseline_metadata_are_added_for_an_unknown_domain() -> None:
    came = with_int(header={"domain": 7, "domain_instructions": 0x8000})
    assert parse_int(Switch(2).pass_on(came)).stack == (2, 0)


def test_a_packet_that_is_to_be_discarded_is_reported_and_dropped() -> None:
    sink = Switch(3, outside=[OUT])
    sink.report_all()
    ((port, _),) = sink.send(with_int(bytes(8), header={"discard": 1}))
    assert port == 3
    assert parse_int(Switch(2).pass_on(with_int(header={"discard": 1}))).header.discard == 1


@pytest.mark.parametrize(
    "came",
    [
        with_int(shim={"length": 0}),
        with_int(shim={"length": 2}),
        with_int(shim={"length": 0}, payload=bytes(1200)),
        with_int(shim={"type": 0}),
        with_int(shim={"type": 2}),
        with_int(header={"version": 1}),
        with_int(header={"version": 15}),
        with_int(shim={"length": 255}),
        with_int()[: 14 + 28 + 10],
    ],
)
@pytest.mark.parametrize("outside", [[], [OUT]])
def test_malformed_int_passes_and_is_counted(came: bytes, outside: list[int]) -> None:
    switch = Switch(2, outside=outside)
    switch.report_all()
    assert switch.pass_on(came) == came
    assert switch.events() == {"malformed": 1}


def test_marks_from_outside_are_no_int() -> None:
    border = Switch(1, outside=[IN])
    border.embed_data(NODE)
    came = with_int(bytes(8))
    out = border.pass_on(came)
    assert checked(out)[IP].tos == 0
    assert out[34:] == came[34:]
    assert border.send(udp(dport=32767)) == []
    assert border.send(udp(b"TELEMARK and more")) == []
    assert border.events() == {"cleared": 1, "stopped": 2}


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("make", [udp, tcp])
@pytest.mark.parametrize("payload", [b"", b"abc"])
def test_a_dscp_from_outside_is_lost_also_without_room_for_a_shim(
    make: Callable[..., bytes], payload: bytes, version: int
) -> None:
    """The source clears a DSCP from outside that marks INT, also in packets too short for a shim.

    Otherwise, the next switch would find INT by the probe marker. The sink would then not remove
    INT.
    """
    source, transit, sink = Switch(1, outside=[IN]), Switch(2), Switch(3, outside=[OUT])
    source.embed_data(NODE, mark=PROBE, version=version)
    inside = transit.pass_on(source.pass_on(make(payload, tos=INT_DSCP << 2, version=version)))
    assert parse_int(inside).stack == (2, 1)
    assert sink.pass_on(inside) == make(payload, version=version)
    assert source.events() == {"cleared": 1}


def test_other_marks_from_outside_go_no_further_without_room_for_a_shim_either() -> None:
    border = Switch(1, outside=[IN])
    border.embed_data(NODE, mark=PROBE)
    assert border.send(udp(b"abc", dport=32767)) == []
    assert border.send(udp(b"TELEMARK", dport=32766)) == []
    assert border.pass_on(tcp(b"abc", dport=32767)) != tcp(b"abc", dport=32767)
    assert border.events() == {"stopped": 2}


@pytest.mark.parametrize("mark", [PORT, PROBE])
def test_a_wrong_checksum_stays_wrong(mark: int) -> None:
    source, transit, sink = Switch(1, outside=[IN]), Switch(2), Switch(3, outside=[OUT])
    source.embed_data(NODE | QUEUE, mark=mark)
    data = udp(chksum=0x1234)
    inside = transit.pass_on(source.pass_on(data))
    with pytest.raises(AssertionError):
        checked(inside)
    assert sink.pass_on(inside) == data


def test_a_udp_checksum_that_comes_out_as_0_is_written_as_all_ones() -> None:
    """A UDP checksum that is computed as 0 is written as 0xFFFF: 0 means no checksum (RFC 768)."""
    source, sink = Switch(1, outside=[IN]), Switch(3, outside=[OUT])
    source.embed_data(NODE)
    for through in (udp(bytes(2)), source.pass_on(udp(bytes(2)))):
        # The payload is the checksum of the same packet with payload 0. With it, the checksum is 0.
        data = udp(checked(through)[UDP].chksum.to_bytes(2, "big"))
        inside = source.pass_on(data)
        assert 0xFFFF in (checked(data)[UDP].chksum, checked(inside)[UDP].chksum)
        assert sink.pass_on(inside) == data


def test_fragments_are_unchanged() -> None:
    source = Switch(1, outside=[IN])
    source.embed_data(NODE)
    ether = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
    for fields in ({"flags": "MF"}, {"frag": 3}, {"proto": 1}):
        data = bytes(ether / IP(src="10.0.0.1", dst="10.0.0.2", **{"proto": 17, **fields})
                     / Raw(bytes(24)))  # fmt: skip
        assert source.pass_on(data) == data
    assert source.events() == {"not possible": 3}
