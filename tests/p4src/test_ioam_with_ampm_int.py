"""IOAM, INT and alternate marking on the same packets, in one switch program."""

from collections.abc import Sequence

from ampm_path import SCHEDULE, L, marks
from int_layers import NODE
from int_path import Switch as IntSwitch
from int_path import parse_int
from int_path import udp as udp_of_int
from ioam_path import DROP_FOREIGN, IN, NAMESPACE, OUT, SHORT, TO_COLLECTOR, Switch, trace_of, udp

from collectors.ioam.options import E2EType
from controllers.ampm.watch import Method
from minip4.engine.keys import Ternary

PROGRAM = "with_ampm_int.p4"
FIRST, MIDDLE, LAST = "mark", "observe", "observe_and_clear"
EF = 0x2E  # DSCP of udp() of ioam_path.py; it contains bit 0x02, which AM-PM uses as D
TIMES = {4 * L: (0, 0), 4 * L + L // 2: (0, 1), 5 * L: (1, 0), 5 * L + L // 2: (1, 1)}
"""Colour and pulse of a packet at each time."""


def mark(
    switch: Switch | IntSwitch, role: str, table: str, key: Sequence[Ternary] = (Ternary(0, 0),) * 5
) -> None:
    """Give a switch this role in alternate marking for all packets that match a key."""
    engine, watch = switch.engine, "AllIngress.watch"
    engine.table_set_default(f"{watch}.clock", f"{watch}.set_clock", [0, SCHEDULE.block_shift])
    params = [0, int(Method.DOUBLE), *([EF] if role == LAST else [])]
    engine.table_add(f"{watch}.{table}", key, f"{watch}.{role}", params, 1)
    choice = "AllIngress.methods.pulse_choice"
    for times in SCHEDULE.middle_half():
        window = [Ternary(int(Method.PULSE), int(Method.PULSE)), Ternary(*times)]
        engine.table_add(f"{choice}.pulse_window", window, f"{choice}.choose", [], 1)


def counts(switch: Switch | IntSwitch) -> list[int]:
    """Return the packets that arrived, and those that departed, of both colours."""
    names = "AllIngress.arrivals", "AllEgress.departures"
    return [switch.engine.counter_read(name, cell)[0] for name in names for cell in (0, 1)]


def ipv6_marks(frame: bytes) -> tuple[int, int]:
    """Return the colour (L) and pulse (D) bits of an IPv6 frame."""
    dscp = (int.from_bytes(frame[14:16], "big") >> 4 & 0xFF) >> 2
    return dscp & 1, dscp >> 1 & 1


def ioam_switches() -> list[Switch]:
    """Return an encapsulating, a transit and a decapsulating node."""
    path = [Switch(1, border=DROP_FOREIGN, program=PROGRAM), Switch(2, program=PROGRAM),
            Switch(3, leaving=True, program=PROGRAM)]  # fmt: skip
    for switch, role in zip(path, (FIRST, MIDDLE, LAST), strict=True):
        mark(switch, role, "watch_list_plain_ipv6")
    return path


def test_ipv6_packets_have_ioam_and_marks() -> None:
    path = ioam_switches()
    path[0].insert_trace(SHORT, e2e=E2EType.SEQUENCE32)
    for time_us, expected in TIMES.items():
        first = path[0].pass_on(udp(), time_us)
        inside = path[1].pass_on(first, time_us)
        assert [node.node for node in trace_of(inside).nodes] == [1, 2]
        assert ipv6_marks(inside) == expected
        out, report = path[2].report(inside, time_us)
        assert out == udp()
        assert (report.node, report.hw_id, report.namespace) == (3, 3, NAMESPACE)
    assert [counts(switch) for switch in path] == [[2, 2, 2, 2]] * 3
    assert [switch.events() for switch in path] == [{}] * 3


def test_the_outer_packet_of_a_tunnel_has_the_marks() -> None:
    path = ioam_switches()
    path[0].insert_trace(SHORT)
    path[0].begin_tunnel()
    path[2].end_tunnel()
    for time_us, expected in TIMES.items():
        inside = path[1].pass_on(path[0].pass_on(udp(), time_us), time_us)
        assert ipv6_marks(inside) == expected
        assert inside.endswith(udp()[14:])
        out, _ = path[2].report(inside, time_us)
        assert out == udp()
    assert [counts(switch) for switch in path] == [[2, 2, 2, 2]] * 3


def test_entries_match_the_protocol_behind_the_options() -> None:
    first = Switch(1, border=DROP_FOREIGN, program=PROGRAM)
    first.insert_trace(SHORT)
    inside = first.pass_on(udp(), 4 * L)
    for protocol, count in ((17, 1), (0, 0)):
        switch = Switch(2, program=PROGRAM)
        key = [*[Ternary(0, 0)] * 2, Ternary(protocol, 255), Ternary(4000, 0xFFFF), Ternary(0, 0)]
        mark(switch, MIDDLE, "watch_list_plain_ipv6", key)
        switch.pass_on(inside, 4 * L)
        assert counts(switch) == [count, 0, count, 0]


def test_other_packets_have_int_and_marks() -> None:
    roles = {FIRST: [IN], MIDDLE: [], LAST: [OUT]}
    path = [IntSwitch(number, outside=outside, program=f"../ioam/{PROGRAM}")
            for number, outside in enumerate(roles.values(), 1)]  # fmt: skip
    for switch, role in zip(path, roles, strict=True):
        mark(switch, role, "watch_list")
    path[0].embed_data(NODE)
    data = udp_of_int(tos=EF << 2)
    for time_us, expected in TIMES.items():
        inside = path[1].pass_on(path[0].pass_on(data, time_us), time_us)
        assert parse_int(inside).stack == (2, 1)
        assert marks(inside) == expected
        assert path[2].pass_on(inside, time_us) == data
    assert [counts(switch) for switch in path] == [[2, 2, 2, 2]] * 3


def test_packets_that_ioam_stops_do_not_depart() -> None:
    """The border drops packets from outside; the last switch drops active packets."""
    first, _, last = ioam_switches()
    first.insert_trace(SHORT, active=True)
    inside = first.pass_on(udp(), 4 * L)
    assert first.send(inside, 4 * L) == []
    assert counts(first) == [2, 0, 1, 0]
    assert [port for port, _ in last.send(inside, 4 * L)] == [TO_COLLECTOR]
    assert counts(last) == [1, 0, 0, 0]
