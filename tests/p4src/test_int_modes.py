"""INT-MX and INT-XD: the reports of each switch, and the packets between the switches."""

from collections.abc import Callable

import pytest
from int_layers import EGRESS, INGRESS, LATENCY, LEVEL_1, MX, NODE, QUEUE
from int_path import ALL, DSCP, IN, NEW_UDP, OUT, PORT, PROBE, Switch, parse_int, tcp, udp

WANTED = NODE | LEVEL_1 | LATENCY | QUEUE | INGRESS | EGRESS
FLOW = (0, 0, 1, 0)  # the flags D, Q, F and I


def switches(action: str, *params: int) -> list[Switch]:
    """Return three switches that report. The first switch has the entry `action`.

    For INT-XD, the other switches have it, too.
    """
    path = [Switch(1, outside=[IN]), Switch(2), Switch(3, outside=[OUT])]
    for switch in path:
        switch.report_all()
        if switch is path[0] or action == "export_data":
            for version in (4, 6):
                switch.watch(action, params, version=version)
    return path


@pytest.mark.parametrize(
    "data", [udp(), tcp(), udp(version=6), tcp(version=6)], ids=["UDP", "TCP", "UDP/6", "TCP/6"]
)
def test_exports_change_no_packet(data: bytes) -> None:
    for number, switch in enumerate(switches("export_data", WANTED, ALL), 1):
        out, report = switch.report(data, 1000 * number)
        assert out == data
        assert (report.group.node, report.group.sequence) == (number, 0)
        head = report.head
        assert (head.dropped, head.congested, head.flow, head.intermediate) == FLOW
        assert report.metadata == {
            LEVEL_1: IN << 16 | OUT, LATENCY: 0, QUEUE: 0, INGRESS: 1000 * number,
            EGRESS: 1000 * number,
        }  # fmt: skip
        assert data[14:].startswith(report.fragment)
        assert len(data) - 14 - len(report.fragment) == len(b"payload!")


@pytest.mark.parametrize("mark", [DSCP, PORT, NEW_UDP, PROBE])
def test_instructions_are_forwarded_and_every_switch_reports(mark: int) -> None:
    """With INT-MX, the packet carries only instructions. Each of three switches reports it.

    With the mark PORT, for packets to UDP port 5000, the shim is 34031388.
    """
    frame = udp()
    for number, switch in enumerate(switches("embed_instructions", WANTED, mark, ALL), 1):
        came = frame
        out, report = switch.report(frame, 1000 * number)
        assert report.group.node == number
        with_int = out if number == 1 else came  # reports are about the packet with INT
        assert report.fragment == with_int[14 : -len(b"payload!")]
        assert report.metadata == {
            LEVEL_1: IN << 16 | OUT, LATENCY: 0, QUEUE: 0, INGRESS: 1000 * number,
            EGRESS: 1000 * number,
        }  # fmt: skip
        if number < 3:
            inside = parse_int(out)
            assert (inside.shim.type, inside.shim.length, inside.stack) == (MX, 3, ())
            assert bytes(inside.header) == bytes.fromhex("20000000 fc000000 00000000")
            if mark == PORT:
                assert bytes(inside.shim) == bytes.fromhex("34031388")
        frame = out
    assert frame == udp()


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("mark", [DSCP, PORT, NEW_UDP, PROBE])
@pytest.mark.parametrize("make", [udp, tcp])
def test_all_marks_with_both_versions_of_ip(
    make: Callable[..., bytes], mark: int, version: int
) -> None:
    """A packet with INT crosses three switches and leaves unchanged, for each mark and IP version.

    The mark PORT is not possible for TCP: the packet is forwarded without INT, and counted.
    """
    data = make(version=version)
    source, transit, sink = Switch(1, outside=[IN]), Switch(2), Switch(3, outside=[OUT])
    source.embed_data(NODE | QUEUE, mark=mark, version=version)
    sink.report_all()
    inside = source.pass_on(data)
    if mark == PORT and make is tcp:
        assert inside == data
        assert source.events() == {"not possible": 1}
        return
    inside = transit.pass_on(inside)
    found = parse_int(inside)
    assert found.stack == (2, 0, 1, 0)
    if mark == NEW_UDP:
        assert bytes(found.shim) == bytes.fromhex("180700" + ("11" if make is udp else "06"))
        assert found.behind == data[(34 if version == 4 else 54) :]
    out, report = sink.report(inside)
    assert out == data
    assert report.head.inner_type == {4: 4, 6: 5}[version]
    assert inside[14:].startswith(report.fragment)
    behind = len(inside) - 14 - len(report.fragment)
    told = 8 if mark == NEW_UDP else 0
    if mark == NEW_UDP and version == 6 and make is tcp:
        told += 16  # the packet has become UDP over IPv6, without identification
    assert behind == len(found.behind) - told


def test_a_share_of_the_packets_is_chosen_alike_everywhere() -> None:
    path = switches("export_data", WANTED, ALL // 4)
    frames = [udp(bytes([n]), chksum=n) for n in range(200)]
    chosen = [[len(s.send(frame)) == 2 for frame in frames] for s in path]
    assert chosen[0] == chosen[1] == chosen[2]
    assert 30 < sum(chosen[0]) < 70  # mean 50, with a standard deviation of 6.1


@pytest.mark.parametrize("mark", [None, DSCP, PORT, NEW_UDP, PROBE])
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(("length", "told"), [(15, 0), (16, 16), (40, 16)])
def test_udp_without_an_identification_is_distinguished_by_its_payload(
    mark: int | None, version: int, length: int, told: int
) -> None:
    """Reports on UDP without IP identification also have the first sixteen bytes of payload.

    The reports of all switches have the same bytes. Payloads shorter than this are not in reports.
    """
    frame = udp(bytes(range(length)), version=version, **({"ip_id": 0} if version == 4 else {}))
    mode = ("export_data", WANTED, ALL)
    if mark is not None:
        mode = ("embed_instructions", WANTED, mark, ALL)
    for switch in switches(*mode):
        frame, report = switch.report(frame)
        assert report.fragment[len(report.fragment) - told :] == bytes(range(told))
        headers = len(report.fragment) - told
        assert headers % 4 == 0
        assert (report.fragment + bytes(range(told, length)))[headers:] == bytes(range(length))


def test_an_identification_or_tcp_is_enough() -> None:
    (switch, *_) = switches("export_data", WANTED, ALL)
    for data in (udp(bytes(40)), tcp(bytes(40)), tcp(bytes(40), version=6)):
        assert switch.report(data)[1].fragment == data[14:-40]


@pytest.mark.parametrize("version", [4, 6])
def test_a_truncated_packet_is_reported_without_its_payload(version: int) -> None:
    (switch, *_) = switches("export_data", WANTED, ALL)
    data = udp(bytes(40), version=version, **({"ip_id": 0} if version == 4 else {}))
    for missing in (1, 39, 40):
        assert switch.report(data[:-missing])[1].fragment == data[14:-40]
