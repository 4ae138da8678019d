"""INT-MD: each byte of packets after source, transit and sink, and of the report of the sink."""

import pytest
from int_layers import (
    BUFFER,
    EGRESS,
    INGRESS,
    LATENCY,
    LEVEL_1,
    LEVEL_2,
    NODE,
    QUEUE,
    UTILISATION,
)
from int_path import (
    CPU_PORT,
    DSCP,
    IN,
    OUT,
    PORT,
    PROBE,
    Switch,
    checked,
    layer4,
    parse_int,
    tcp,
    udp,
)

BASELINE = 0xFF80
FRAMES = {
    "UDP": udp(),
    "UDP without checksum": udp(chksum=0),
    "UDP, nothing in it": udp(b""),
    "UDP, an odd number of bytes": udp(b"seven b"),
    "TCP": tcp(),
    "TCP without options": tcp(options=[]),
    "TCP without data": tcp(b""),
    "EF and ECN": udp(tos=0xB9),
    "a DSCP with AM-PM's bits": udp(tos=0x0C),
}


def path(instructions: int, *, hops: int = 8, mark: int = DSCP, mtu: int = 1500) -> list[Switch]:
    """Return a source, a transit switch and a sink. They are the nodes 1 to 3."""
    source = Switch(1, outside=[IN], mtu=mtu)
    source.embed_data(instructions, hops, mark)
    sink = Switch(3, outside=[OUT])
    sink.report_all()
    return [source, Switch(2, mtu=mtu), sink]


def test_the_packet_behind_a_source_byte_by_byte() -> None:
    source = path(NODE | QUEUE)[0]
    data = udp(b"payload!", tos=0xB8, chksum=0)
    expected = bytes.fromhex(
        "020000000002 020000000001 0800"
        "4518 003c 0007 0000 4011 6690 0a000001 0a000002"  # DSCP 6 (4 to 7 mark INT); 24 bytes more
        "0fa0 1388 0028 0000"
        "100500b8 20000207 90000000 00000000"  # length 5, original DSCP 46; Hop ML 2, 7 hops left
        "00000001 00000000"  # node 1; queue 0, empty
    )
    assert source.pass_on(data) == expected + b"payload!"


def test_each_hop_pushes_in_front_of_the_others() -> None:
    """After two hops, the metadata of the second hop are before those of the first hop.

    With NPT 1, INT begins with 14071388 20000206 90000000.
    """
    source, transit, _ = path(NODE | QUEUE, mark=PORT)
    inside = transit.pass_on(source.pass_on(udp()))
    shim, header, stack, payload = parse_int(inside)
    assert bytes(shim) == bytes.fromhex("14071388")
    assert bytes(header) == bytes.fromhex("20000206 90000000 00000000")
    assert (stack, payload) == ((2, 0, 1, 0), b"payload!")
    assert checked(inside)["UDP"].dport == 32767


@pytest.mark.parametrize("mark", [DSCP, PROBE])
@pytest.mark.parametrize("instructions", [NODE, NODE | QUEUE, 0xF000, 0xFC00, BASELINE, 0xFF81])
@pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES.keys())
def test_the_packet_leaves_as_it_came(data: bytes, instructions: int, mark: int) -> None:
    source, transit, sink = path(instructions, mark=mark)
    inside = transit.pass_on(source.pass_on(data, 10), 20)
    shim, header, stack, _ = parse_int(inside)
    assert shim.length == 3 + 2 * header.hop_ml == 3 + len(stack)
    out, report = sink.report(inside, 30)
    assert out == data
    assert report.fragment == inside[14 : 14 + len(report.fragment)]
    assert len(inside) - 14 - len(report.fragment) == len(layer4(checked(data)).payload)


def test_metadata_of_each_switch() -> None:
    source, transit, sink = path(BASELINE)
    inside = transit.pass_on(source.pass_on(udp(), 1000), 70_000)
    ports, level_2, all_ones = IN << 16 | OUT, IN << 32 | OUT, 0xFFFFFFFF
    found = parse_int(inside).hops
    assert found == [
        {
            NODE: node, LEVEL_1: ports, LATENCY: 0, QUEUE: 0, INGRESS: at_us, EGRESS: at_us,
            LEVEL_2: level_2, UTILISATION: all_ones, BUFFER: all_ones,
        }
        for node, at_us in ((2, 70_000), (1, 1000))
    ]  # fmt: skip
    _, report = sink.report(inside, 80_000)
    assert (report.group.node, report.group.hw_id, report.group.sequence) == (3, 0, 0)
    flags = report.head.dropped, report.head.congested, report.head.flow, report.head.intermediate
    assert flags == (0, 0, 1, 0)
    assert report.head.inner_type == 4
    assert report.metadata == {
        LEVEL_1: ports, LATENCY: 0, QUEUE: 0, INGRESS: 80_000, EGRESS: 80_000, LEVEL_2: level_2,
    }  # fmt: skip


def test_a_report_has_no_utilisation_where_the_rate_is_not_known() -> None:
    inside = path(UTILISATION)[0].pass_on(udp())
    for parts_a_byte, told in ((0, {}), (1 << 32, {UTILISATION: 0})):
        sink = Switch(3, outside=[OUT], parts_a_byte=parts_a_byte)
        sink.report_all()
        assert sink.report(inside)[1].metadata == told


def test_reports_are_numbered() -> None:
    source, transit, sink = path(NODE)
    inside = transit.pass_on(source.pass_on(udp()))
    assert [sink.report(inside)[1].group.sequence for _ in range(3)] == [0, 1, 2]


def test_a_readout_brings_the_clock() -> None:
    """A readout returns the switch's own clock.

    INT has times of this clock plus a configured offset. A controller computes this offset from
    readouts.
    """
    switch = Switch(1, outside=[IN], offset_us=-500)
    ((port, answer),) = switch.send(bytes(6) + b"number 7", 1234, CPU_PORT)
    assert (port, answer) == (
        CPU_PORT,
        bytes(6) + (1234).to_bytes(6, "big") + bytes(64) + b"number 7",
    )
    switch.embed_data(INGRESS)
    assert parse_int(switch.pass_on(udp(), 2000)).hops == [{INGRESS: 1500}]


def test_utilisation_is_of_the_window_before() -> None:
    """The utilization is that of the previous window of 2^16 us, or 0 if this had no traffic."""
    switch = Switch(1, outside=[IN], parts_a_byte=3 << 32)  # each byte adds three millionths
    switch.embed_data(UTILISATION)
    windows = (1, 1, 2, 2, 3, 5, 6)
    found = [parse_int(switch.pass_on(udp(), n << 16)).hops[0][UTILISATION] for n in windows]
    assert found == [3 * len(udp()) * packets for packets in (0, 0, 2, 2, 2, 0, 1)]


def test_without_reports_the_sink_only_takes_int_off() -> None:
    source, _, _ = path(NODE)
    assert Switch(3, outside=[OUT]).pass_on(source.pass_on(udp())) == udp()


def test_a_flow_that_is_not_watched_stays_as_it_is() -> None:
    source = Switch(1, outside=[IN])
    source.embed_data(NODE, dst_port=5001)
    assert source.pass_on(udp()) == udp()
    assert source.pass_on(udp(dport=5001)) != udp(dport=5001)


def test_a_source_that_is_the_sink_too_reports_and_changes_nothing() -> None:
    both = Switch(1, outside=[IN, OUT])
    both.embed_data(NODE | LEVEL_1)
    both.report_all()
    out, report = both.report(udp())
    assert out == udp()
    assert report.metadata == {LEVEL_1: IN << 16 | OUT}
    assert report.fragment == udp()[14:42]
