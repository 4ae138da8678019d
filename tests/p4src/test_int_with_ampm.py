"""INT and alternate marking on the same packets, in one switch program."""

import os
from ipaddress import IPv6Address

import pytest
from ampm_path import SCHEDULE, L, marks
from int_layers import NODE, QUEUE
from int_path import DSCP, IN, OUT, PROBE, TO_COLLECTOR, Switch, parse_int, tcp, udp
from int_queue import crowded, inject

from controllers.ampm.watch import Method
from minip4.engine.keys import Exact, Ternary

METHODS = Method.DOUBLE
OUTSIDE_DSCP = 0x2E  # EF; it contains bit 0x02, which AM-PM uses as D


def both(node: int, role: str, outside: list[int]) -> Switch:
    """Return a switch with INT, and with this role in AM-PM."""
    switch = Switch(node, outside=outside, program="with_ampm.p4")
    watch = "BothIngress.watch"
    engine = switch.engine
    engine.table_set_default(f"{watch}.clock", f"{watch}.set_clock", [0, SCHEDULE.block_shift])
    params = [0, int(METHODS), *([OUTSIDE_DSCP] if role == "observe_and_clear" else [])]
    engine.table_add(f"{watch}.watch_list", [Ternary(0, 0)] * 5, f"{watch}.{role}", params, 1)
    choice = "BothIngress.methods.pulse_choice"
    for times in SCHEDULE.middle_half():
        key = [Ternary(int(Method.PULSE), int(Method.PULSE)), Ternary(*times)]
        engine.table_add(f"{choice}.pulse_window", key, f"{choice}.choose", [], 1)
    return switch


@pytest.mark.parametrize("mark", [DSCP, PROBE])
@pytest.mark.parametrize("data", [udp(tos=OUTSIDE_DSCP << 2), tcp(tos=OUTSIDE_DSCP << 2)])
def test_a_packet_has_both_and_leaves_as_it_came(data: bytes, mark: int) -> None:
    first = both(1, "mark", [IN])
    path = [first, both(2, "observe", []), both(3, "observe_and_clear", [OUT])]
    first.embed_data(NODE | QUEUE, mark=mark)
    times_us = [4 * L, 4 * L + L // 2, 5 * L, 5 * L + L // 2]
    expected = [(0, 0), (0, 1), (1, 0), (1, 1)]  # (colour, pulse) at each time
    seen = []
    for time_us in times_us:
        inside = path[1].pass_on(path[0].pass_on(data, time_us), time_us)
        found = parse_int(inside)
        assert found.stack == (2, 0, 1, 0)
        assert inside[15] >> 4 == (1 if mark == DSCP else OUTSIDE_DSCP >> 2)
        seen.append(marks(inside))
        assert path[2].pass_on(inside, time_us) == data
    assert seen == expected
    for switch in path:
        for point in ("BothIngress.arrivals", "BothEgress.departures"):
            assert [switch.engine.counter_read(point, cell)[0] for cell in (0, 1)] == [2, 2]


def test_reports_are_no_packets_of_the_flow() -> None:
    last = both(3, "observe_and_clear", [OUT])
    last.report_all()
    first = both(1, "mark", [IN])
    first.embed_data(NODE)
    inside = first.pass_on(udp(), 4 * L)
    _, report = last.report(inside, 4 * L)
    assert report.fragment[1] >> 2 == 4
    assert last.engine.counter_read("BothEgress.departures", 0)[0] == 1


@pytest.mark.skipif("P4_SWITCH" in os.environ, reason="bmv2 deflects nothing")
def test_a_dropped_packet_does_not_depart_by_alternate_marking() -> None:
    switch = crowded(both(1, "mark", [IN]))
    switch.watch("watch_drops", [])
    ports = [port for port, _ in inject(switch, [udp()] * 6, 4 * L)]
    assert ports.count(TO_COLLECTOR) == 3
    counts = [switch.engine.counter_read(point, 0)[0]
              for point in ("BothIngress.arrivals", "BothEgress.departures")]  # fmt: skip
    assert counts == [7, 4]


ROUTER_ALERT = bytes.fromhex("05020000")
ALTMARK = bytes.fromhex("1204ABCDE000")


@pytest.mark.parametrize("options", [ALTMARK, ROUTER_ALERT + ALTMARK + bytes(4)])
def test_packets_with_altmark_get_marks_but_no_int(options: bytes) -> None:
    """The AltMark option is alone in its header, or next to another option."""
    first = both(1, "mark", [IN])
    first.embed_data(NODE, version=6)
    addresses = [Exact(int(IPv6Address(address))) for address in ("fd00::1", "fd00::2")]
    watch = "BothIngress.watch"
    first.engine.table_add(
        f"{watch}.watch_list_ipv6", [Exact(0xABCDE), *addresses], f"{watch}.mark",
        [1, int(METHODS)], 0,
    )  # fmt: skip
    plain = udp(version=6)
    header = bytes((17, (2 + len(options)) // 8 - 1)) + options
    data = plain[:18] + (len(header) + len(plain) - 54).to_bytes(2, "big") + b"\0" + plain[21:54]
    data += header + plain[54:]
    marked = first.pass_on(data, 5 * L)
    assert marked == data.replace(ALTMARK, ALTMARK[:4] + b"\xe8" + ALTMARK[5:])
    assert first.engine.counter_read("BothIngress.arrivals", 3)[0] == 1
