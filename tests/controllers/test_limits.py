"""Limits of clock error and delay for each method, and combinations of methods."""

from typing import Any

import finsy as fy
import pytest

from controllers.ampm.collector import Collector
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import (
    Bounds,
    Hop,
    LimitError,
    Method,
    Tunnel,
    WatchedFlow,
    check_distinct,
    check_limits,
    check_paths,
)
from telemark.errors import TestbedError
from telemark.session.clock import RealClock

L = 1 << 20


@pytest.mark.parametrize(
    ("methods", "limit_us"),
    [
        (Method.STEP, L // 2),
        (Method.DOUBLE, L // 2),
        (Method.STEP | Method.HASHED, L // 2),
        (Method.PULSE, L // 4),
        (Method.MULTIPLEXED, L // 4 - L // 32),
        (Method.MULTIPLEXED | Method.HASHED, L // 4 - L // 32),
    ],
)
def test_clock_error_and_delay_together_must_stay_under_the_limit(
    methods: Method, limit_us: int
) -> None:
    for error_us in (0, 1000, limit_us - 1):
        check_limits(methods, Schedule(L), Bounds(error_us, limit_us - 1 - error_us))
        with pytest.raises(LimitError, match="is exact only if A"):
            check_limits(methods, Schedule(L), Bounds(error_us, limit_us - error_us))


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (Method.DOUBLE, "double marking is exact only if A . D < L/2"),
        (Method.PULSE, "pulse marking is exact only if A . D < L/4"),
        (Method.MULTIPLEXED | Method.HASHED, "multiplexed marking .* A . D < L/4 - L/32"),
    ],
)
def test_the_error_contains_the_limit(methods: Method, words: str) -> None:
    with pytest.raises(LimitError, match=words):
        check_limits(methods, Schedule(L), Bounds(L, L))


@pytest.mark.parametrize("methods", [Method.STEP, Method.PULSE, Method.MULTIPLEXED])
@pytest.mark.parametrize("delay_us", [1 << 20, 1 << 24, 700_000, 1_835_008])
def test_the_blocks_that_a_refusal_asks_for_are_the_shortest_that_do(
    methods: Method, delay_us: int
) -> None:
    with pytest.raises(LimitError) as refused:
        check_limits(methods, Schedule(L), Bounds(0, delay_us))
    needed_us = int(str(refused.value).split()[-2])
    check_limits(methods, Schedule(needed_us), Bounds(0, delay_us))
    with pytest.raises(LimitError):
        check_limits(methods, Schedule(needed_us // 2), Bounds(0, delay_us))


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (Method(0), "no marking method"),
        (Method.MULTIPLEXED | Method.STEP, "includes step and pulse"),
        (Method.MULTIPLEXED | Method.PULSE, "includes step and pulse"),
        (Method.HASHED, "add step or multiplexed"),
        (Method.PULSE | Method.HASHED, "add step or multiplexed"),
    ],
)
def test_methods_that_cannot_share_a_packet_are_refused(methods: Method, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        WatchedFlow(1, "10.0.0.1", "10.0.0.2", 17, methods=methods)


def test_an_ipv6_flow_has_no_ports_but_in_a_tunnel() -> None:
    tunnel = Tunnel("fd00:ed9e::1", "fd00:ed9e::2")
    WatchedFlow(1, "fd00::1", "fd00::2", flow_mon_id=0)
    WatchedFlow(1, "::/0", "fd00::/64", 6, dst_port=80, flow_mon_id=0xFFFFF, tunnel=tunnel)
    with pytest.raises(ValueError, match=r"flow 1: .*set no protocol and ports"):
        WatchedFlow(1, "fd00::1", "fd00::2", dst_port=80, flow_mon_id=0)
    with pytest.raises(ValueError, match="needs single addresses"):
        WatchedFlow(1, "fd00::1", "fd00::/64", flow_mon_id=0)


@pytest.mark.parametrize(
    ("addresses", "fields", "words"),
    [
        (("10.0.0.1", "fd00::2"), {}, "different versions"),
        (("10.0.0.1", "10.0.0.2"), {"flow_mon_id": 1}, "IPv4 has no AltMark option"),
        (("10.0.0.1", "10.0.0.2"), {"tunnel": Tunnel("fd00::8", "fd00::9")}, "only for IPv6"),
        (("10.0.0.1", "10.0.0.2"), {"dscp": 64}, "six bits"),
        (("10.0.0.1", "10.0.0.2"), {"dscp": -1}, "six bits"),
        (("10.0.0.1", "10.0.0"), {}, "does not appear to be"),
        (("10.0.0.1", "10.0.0.2/24"), {}, "has host bits set"),
        (("fd00::1", "fd00::2"), {"tunnel": Tunnel("fd00::8", "fd00::9")}, "a flow_mon_id"),
        (
            ("fd00::1", "fd00::2"),
            {"flow_mon_id": 1, "tunnel": Tunnel("fd00::8/64", "::1")},
            "host bits",
        ),
        (
            ("fd00::1", "fd00::2"),
            {"flow_mon_id": 1, "tunnel": Tunnel("fd00::/64", "::1")},
            "expected two IPv6 addresses",
        ),
        (
            ("fd00::1", "fd00::2"),
            {"flow_mon_id": 1, "tunnel": Tunnel("1.2.3.4", "::1")},
            "expected two IPv6 addresses",
        ),
        (("fd00::1", "fd00::2"), {"flow_mon_id": 1 << 20}, "20 bits"),
        (("fd00::1", "fd00::2"), {"flow_mon_id": 1, "end_to_end": True}, "only the ends of a"),
        (("fd00::1", "fd00::2"), {"flow_mon_id": 1, "dscp": 46}, "dscp does not apply"),
    ],
)
def test_flows_that_cannot_be_are_refused(
    addresses: tuple[str, str], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        WatchedFlow(1, *addresses, **fields)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (WatchedFlow(1, "10.0.0.3", "10.0.0.4"), "two flows have the number 1"),
        (WatchedFlow(2, "10.0.0.1/32", "10.0.0.2"), "flows 1 and 2 match the same packets"),
        (WatchedFlow(2, "10.0.0.1", "10.0.0.2", 17), ""),
        (WatchedFlow(2, "10.0.0.0/31", "10.0.0.2"), ""),
        (WatchedFlow(2, "fd00::1", "fd00::2", flow_mon_id=3), "flows 2 and 3 match the same"),
        (WatchedFlow(2, "fd00::1", "fd00::2", flow_mon_id=4), ""),
        (
            WatchedFlow(2, "::/0", "::/0", flow_mon_id=3, tunnel=Tunnel("fd00::1", "fd00::2")),
            "flows 2 and 3 match the same packets",
        ),
        (WatchedFlow(2, "::/0", "::/0", flow_mon_id=3, tunnel=Tunnel("fd00::8", "fd00::9")), ""),
    ],
)
def test_flows_that_switches_cannot_distinguish_are_refused(
    second: WatchedFlow, words: str
) -> None:
    flows = [
        WatchedFlow(1, "10.0.0.1", "10.0.0.2"),
        second,
        WatchedFlow(3, "fd00::1", "fd00::2", flow_mon_id=3),
    ]
    if not words:
        check_distinct(flows)
        return
    with pytest.raises(TestbedError, match=words):
        Collector(dict.fromkeys(flows, ()), Schedule(L), RealClock(), bounds=None)


def hop(name: str) -> Hop:
    return Hop(fy.Switch(name, "127.0.0.1:1"))


@pytest.mark.parametrize(
    ("second", "path", "words"),
    [
        ((2, 3, None), ["s1", "s2"], "flows 1 and 2 match the same packets at s1"),
        ((2, 3, 17), ["s1", "s2"], ""),
        ((2, 3, None), ["s2", "s1"], ""),
        ((2, 3, 17), ["s1", "s2", "s1"], "flow 2: its path s1, s2, s1 contains a switch twice"),
    ],
)
def test_paths_that_make_counts_wrong_are_refused(
    second: tuple[int, int, int | None], path: list[str], words: str
) -> None:
    def flow(number: int, flow_mon_id: int, protocol: int | None) -> WatchedFlow:
        tunnel = Tunnel("fd00::8", "fd00::9")
        return WatchedFlow(number, "::/0", "::/0", protocol, flow_mon_id=flow_mon_id, tunnel=tunnel)

    hops = {name: hop(name) for name in ("s1", "s2")}
    flows = {flow(1, 2, None): [hops["s1"]], flow(*second): [hops[name] for name in path]}
    if not words:
        check_paths(flows)
        return
    with pytest.raises(TestbedError, match=words):
        Collector(flows, Schedule(L), RealClock(), bounds=None)


def test_a_tunnel_and_dscp_marks_for_the_same_packets_are_refused() -> None:
    tunnel = Tunnel("fd00::8", "fd00::9")
    flows = [WatchedFlow(1, "::/0", "::/0", flow_mon_id=2, tunnel=tunnel),
             WatchedFlow(2, "::/0", "::/0")]  # fmt: skip
    with pytest.raises(TestbedError, match="flows 1 and 2 match the same packets at s1"):
        check_paths({flow: [hop("s1"), hop("s2")] for flow in flows})


def test_a_flow_that_leaves_less_open_comes_first_then_the_lower_number() -> None:
    flows = [
        WatchedFlow(9, "10.0.0.1", "10.0.0.2", 17, 1, 2),
        WatchedFlow(0, "10.0.0.1", "0.0.0.0/0", 17, 1, 2),
        WatchedFlow(3, "10.0.0.1", "0.0.0.0/0"),
        WatchedFlow(1023, "0.0.0.0/0", "10.0.0.2"),
        WatchedFlow(1023, "0.0.0.0/0", "0.0.0.0/0", 17),
        WatchedFlow(0, "0.0.0.0/0", "0.0.0.0/0"),
        WatchedFlow(1023, "0.0.0.0/0", "0.0.0.0/0"),
    ]
    priorities = [flow.priority for flow in flows]
    assert priorities == sorted(priorities, reverse=True)
    assert len(set(priorities)) == len(flows)
    tunnel = Tunnel("fd00::8", "fd00::9")
    greatest = WatchedFlow(0, "fd00::1", "fd00::2", 17, 1, 2, flow_mon_id=1, tunnel=tunnel)
    assert 0 < priorities[-1] < greatest.priority < 1 << 31
