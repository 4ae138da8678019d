"""Mitigation: a filter blocks the packets of each attack, and hardly any other packets.

It blocks only those other packets that the documentation names.
"""

import os
from collections.abc import Iterator
from ipaddress import ip_address, ip_network

import pytest
from bad_frames import TCP, UDP, ethernet, ipv4, ipv6, segment

from ebpf.datapath import ddos_filter
from ebpf.datapath.ddos_filter import SOURCE, Filter
from ebpf.datapath.rules import Action, Rule
from ebpf.loader import load, run
from ebpf.threats.alerts import Alert, Evidence, Kind
from ebpf.threats.mitigation import Mitigation, rules_for

SYN, ACK = 2, 16
A, B, C = 0x0A000001, 0x0A000002, 0x0A000003
A6, B6 = (0xFD << 120) + 1, (0xFD << 120) + 2
NEVER_NS, AT_ONCE_NS = 10**15, 0  # min age of a SYN whose repetition passes
DROP, PASS = 1, 2


def mapped(address: int) -> bytes:
    return (address | 0xFFFF << 32).to_bytes(16, "big") if address < 1 << 32 else \
        address.to_bytes(16, "big")  # fmt: skip


def alert(kind: Kind, source: int = 0, destination: int = 0, *, source_port: int = 0,
          port: int = 0, protocol: int = 0) -> Alert:  # fmt: skip
    """Return an alert about these hosts. The address 0 means that the alert names no such host."""
    ends = [mapped(each) if each else bytes(16) for each in (source, destination)]
    return Alert(kind, Evidence(*ends, source_port, port, protocol, 1, 1, 1, 0, 1), 0)


ALERTS = {
    Kind.HEAVY_HITTER: alert(Kind.HEAVY_HITTER, A, B),
    Kind.SUPERSPREADER: alert(Kind.SUPERSPREADER, A, protocol=TCP),
    Kind.PORT_SCAN: alert(Kind.PORT_SCAN, A, B, protocol=TCP),
    Kind.SYN_FLOOD: alert(Kind.SYN_FLOOD, 0, B, port=80, protocol=TCP),
    Kind.AMPLIFICATION: alert(Kind.AMPLIFICATION, 0, B, source_port=53, protocol=UDP),
}  # fmt: skip


def frame(source: int, destination: int, protocol: int, ports: tuple[int, int],
          flags: int = ACK, *, fragment: int = 0) -> bytes:  # fmt: skip
    of = segment(protocol, *ports, flags)
    return ethernet(ipv4(source, destination, protocol, of, fragment=fragment), 0x0800)


# Packets by name. BLOCKED has the names of the packets that mitigation of an attack must block.
PACKETS = {
    "A to B, opening": frame(A, B, TCP, (4000, 80), SYN),
    "A to B, going on": frame(A, B, TCP, (4000, 80)),
    "A to B, another port": frame(A, B, TCP, (4000, 22), SYN),
    "A to B, UDP": frame(A, B, UDP, (4000, 9)),
    "A to C": frame(A, C, TCP, (4000, 80), SYN),
    "A to C, UDP": frame(A, C, UDP, (4000, 9)),
    "B to A": frame(B, A, TCP, (80, 4000), SYN | ACK),
    "C to B, opening": frame(C, B, TCP, (4000, 80), SYN),
    "C to B, going on": frame(C, B, TCP, (4000, 80)),
    "C to B, another port": frame(C, B, TCP, (4000, 22), SYN),
    "B opens to C": frame(B, C, TCP, (4000, 80), SYN),
    "answer to B": frame(A, B, UDP, (53, 4000)),
    "answer to B, first fragment": frame(A, B, UDP, (53, 4000), fragment=0x2000),
    "answer to B, next fragment": frame(A, B, UDP, (53, 4000), fragment=100),
    "answer to B, of NTP": frame(A, B, UDP, (123, 4000)),
    "answer to C": frame(A, C, UDP, (53, 4000)),
    "B asks": frame(B, A, UDP, (4000, 53)),
}
BLOCKED = {
    Kind.HEAVY_HITTER: {name for name in PACKETS if name.startswith("A to B")}
    | {name for name in PACKETS if name.startswith("answer to B")},
    Kind.SUPERSPREADER: {
        "A to B, opening", "A to B, going on", "A to B, another port", "A to C",
    },
    Kind.PORT_SCAN: {"A to B, opening", "A to B, going on", "A to B, another port"},
    Kind.SYN_FLOOD: {"A to B, opening", "C to B, opening"},
    Kind.AMPLIFICATION: {
        "answer to B", "answer to B, first fragment", "answer to B, next fragment",
    },
}  # fmt: skip


def filter_with(repeated_after_ns: int) -> Iterator[Filter]:
    if os.geteuid():
        pytest.skip("BPF needs root")
    with load(SOURCE, {"repeated_after_ns": repeated_after_ns}) as loaded:
        yield Filter(loaded)


@pytest.fixture
def filter_() -> Iterator[Filter]:
    yield from filter_with(NEVER_NS)


@pytest.fixture
def patient_filter() -> Iterator[Filter]:
    """Return a filter that accepts the repetition of a SYN, however soon it comes."""
    yield from filter_with(AT_ONCE_NS)


def blocked(filter_: Filter) -> set[str]:
    return {name for name, each in PACKETS.items() if run(filter_.program, each).verdict == DROP}


@pytest.mark.parametrize("kind", Kind)
def test_a_threats_packets_are_blocked_and_no_others(filter_: Filter, kind: Kind) -> None:
    mitigation = Mitigation(filter_)
    assert mitigation.act([ALERTS[kind]], 0) == [*rules_for(ALERTS[kind])]
    assert blocked(filter_) == BLOCKED[kind]
    assert mitigation.act([ALERTS[kind]], 1) == [], "it is blocked already"
    counts = filter_.counts()
    assert counts["dropped"] == len(BLOCKED[kind])
    assert counts["malformed"] == counts["not_ip"] == 0


def test_ipv6_is_blocked_likewise(filter_: Filter) -> None:
    six = alert(Kind.PORT_SCAN, A6, B6, protocol=TCP)
    Mitigation(filter_).act([six], 0)
    for source, destination, verdict in ((A6, B6, DROP), (B6, A6, PASS), (A6, B6 + 1, PASS)):
        of = ethernet(ipv6(source, destination, TCP, segment(TCP, 4000, 80, SYN)), 0x86DD)
        assert run(filter_.program, of).verdict == verdict


def test_rules_go_when_no_alert_was_about_them_for_so_long(filter_: Filter) -> None:
    own = Rule(source=ip_network("192.0.2.0/24"))
    filter_.add(own)
    mitigation = Mitigation(filter_, hold_s=10)
    scan, flood = ALERTS[Kind.PORT_SCAN], ALERTS[Kind.SYN_FLOOD]
    mitigation.act([scan, flood], 100)
    mitigation.act([scan], 105)
    mitigation.act([], 109.9)
    assert {*filter_.rules} == {own, *rules_for(scan), *rules_for(flood)}
    mitigation.act([], 110)
    assert {*filter_.rules} == {own, *rules_for(scan)}
    assert mitigation.act([scan], 115) == [], "an alert just then keeps it"
    assert mitigation.rules == [*rules_for(scan)]
    mitigation.act([], 125)
    assert filter_.rules == [own]
    assert blocked(filter_) == set()


def test_a_rule_that_somebody_made_by_hand_stays(filter_: Filter) -> None:
    (rule,) = rules_for(ALERTS[Kind.PORT_SCAN])
    filter_.add(rule)
    mitigation = Mitigation(filter_, hold_s=10)
    assert mitigation.act([ALERTS[Kind.PORT_SCAN]], 0) == []
    mitigation.act([], 100)
    assert filter_.rules == [rule]


def test_only_kinds_that_were_asked_for(filter_: Filter) -> None:
    mitigation = Mitigation(filter_, [Kind.SYN_FLOOD])
    mitigation.act([*ALERTS.values()], 0)
    assert filter_.rules == [*rules_for(ALERTS[Kind.SYN_FLOOD])]


def test_what_has_no_room_is_counted(filter_: Filter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddos_filter, "MAX_RULES", 2)
    mitigation = Mitigation(filter_)
    scans = [alert(Kind.PORT_SCAN, A, B + number, protocol=TCP) for number in range(3)]
    assert len(mitigation.act(scans, 0)) == 2
    assert mitigation.refused == filter_.refused == 1
    assert len(filter_.rules) == len(mitigation.rules) == 2


def test_an_opening_that_is_repeated_passes(patient_filter: Filter) -> None:
    Mitigation(patient_filter).act([ALERTS[Kind.SYN_FLOOD]], 0)

    def verdict(source: int, port: int, flags: int = SYN) -> int:
        return run(patient_filter.program, frame(source, B, TCP, (port, 80), flags)).verdict

    assert [verdict(C, 4000) for _ in range(3)] == [DROP, PASS, PASS]
    assert [verdict(C, 4001), verdict(A, 4000)] == [DROP, DROP], "another connection, another host"
    assert [verdict(C, 5000, flags) for flags in (ACK, SYN | ACK, 4, 1)] == [PASS] * 4
    assert [verdict(C, 5000, 0) for _ in range(2)] == [DROP, DROP], "no flags at all"
    assert patient_filter.counts()["forgotten"] == 0


def after_flood(filter_: Filter) -> dict[str, int]:
    """Return the counters of a filter after a flood of SYNs from 20,000 addresses.

    Mitigation of the flood is active. Assert that the filter drops all SYNs.
    """
    Mitigation(filter_).act([ALERTS[Kind.SYN_FLOOD]], 0)
    frames = [frame(0x0D000000 + number, B, TCP, (number % 60000 + 1, 80), SYN)
              for number in range(20_000)]  # fmt: skip
    assert run(filter_.program, frames, repeat=len(frames)).verdict == DROP
    counts = filter_.counts()
    assert counts["dropped"] == 20_000
    return counts


def test_openings_in_one_place_are_told_apart(patient_filter: Filter) -> None:
    """All 20,000 SYNs of a flood are dropped, although about 190 of them meet a slot in use.

    None of these counts as the repetition of the SYN in the slot.
    """
    after_flood(patient_filter)


def test_a_flood_from_many_addresses_is_dropped_whole(filter_: Filter) -> None:
    """All 20,000 SYNs of a flood are dropped. The filter counts the SYNs that it overwrote.

    The memory for SYNs has a fixed size.
    """
    counts = after_flood(filter_)
    # If n SYNs meet m slots, n - m (1 - e^(-n/m)) of them meet a slot in use: 190 by Poisson's law.
    assert 120 < counts["forgotten"] < 260


def test_addresses_of_rules_are_those_of_alerts() -> None:
    (scan,) = rules_for(ALERTS[Kind.PORT_SCAN])
    assert scan.source == ip_network(ip_address(A))
    assert scan.action is Action.DROP
    (flood,) = rules_for(ALERTS[Kind.SYN_FLOOD])
    assert flood == Rule(destination=ip_network(ip_address(B)), destination_port=80, protocol=TCP)
    assert flood.action is Action.REPEAT
