"""The DDoS filter, compared with a model of its rules.

The tests use all kinds of frames, sets of rules that replace each other, and full maps.
"""

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import wire
from bad_frames import UDP, ethernet, frames, ipv4, segment
from packet_model import Packet, parse

from ebpf.datapath import ddos_filter
from ebpf.datapath.ddos_filter import SOURCE, Filter, FilterFull
from ebpf.datapath.rules import TCP, Action, Kind, Network, Rule, length_of
from ebpf.loader import attach_xdp, load, run, run_live

DROP, PASS = 1, 2
Hits = dict[Rule, tuple[int, int]]


@pytest.fixture
def filter_() -> Iterator[Filter]:
    if os.geteuid():
        pytest.skip("BPF needs root")
    with load(SOURCE) as loaded:
        yield Filter(loaded)


def matches(rule: Rule, packet: Packet) -> bool:
    """Return whether a rule matches a packet, regardless of other rules."""
    for network, address in ((rule.source, packet.source), (rule.destination, packet.destination)):
        mapped = address[:12] == bytes(10) + b"\xff\xff"
        if network is None:
            continue
        if network.version != (4 if mapped else 6):
            return False
        if ip_address(address[12:] if mapped else address) not in network:
            return False
    wanted = (rule.source_port, rule.destination_port, rule.protocol, rule.is_fragment)
    found = (packet.source_port, packet.destination_port, packet.protocol, packet.is_fragment)
    if rule.kind is Kind.PORT and not packet.transport_offset:
        return False
    return all(a is None or a == b for a, b in zip(wanted, found, strict=True))


def decisive(rules: list[Rule], packet: Packet) -> Rule | None:
    """Return the rule that decides about a packet, by the documentation of the filter."""
    of = [rule for rule in rules if matches(rule, packet)]
    for kind in Kind:
        same = [rule for rule in of if rule.kind is kind]
        if same and kind is Kind.TUPLE:
            order = {
                rule: (-int.from_bytes(rule.mask, "big").bit_count(), rule.mask) for rule in same
            }
            return min(same, key=order.__getitem__)
        if same and kind is Kind.PREFIX:
            return max(same, key=lambda rule: length_of(rule.source))
        if same:
            return max(same, key=lambda rule: rule.destination_port is not None)
    return None


def random_rule(rng: random.Random) -> Rule:
    version = rng.choice((4, 6))
    text = (
        ["10.0.0.2", "10.1.0.2", "192.168.1.1"]
        if version == 4
        else ["fd00::2", "fd01::2", "2001::"]
    )
    lengths = (8, 16, 24, 32, 0) if version == 4 else (16, 64, 128)

    def network() -> Network:
        return ip_network(f"{rng.choice(text)}/{rng.choice(lengths)}", strict=False)

    ends = {
        "source_port": rng.choice((53, 1234, 0)), "destination_port": rng.choice((80, 9, 0)),
    }  # fmt: skip
    kind = rng.randrange(3)
    action = Action.DROP if rng.random() < 0.6 else Action.PASS
    if kind == 0:
        return Rule(source=network(), action=action)
    if kind == 1:
        end = rng.choice([*ends])
        return Rule(protocol=rng.choice((TCP, UDP)), action=action, **{end: ends[end]})
    return Rule(
        source=rng.choice((None, network())), destination=network(), action=action,
        protocol=rng.choice((None, TCP, UDP)), is_fragment=rng.choice((None, None, True, False)),
        **{end: rng.choice((None, port)) for end, port in ends.items()},
    )  # fmt: skip


def check(filter_: Filter, rules: list[Rule], frame: bytes, hits: Hits) -> str:
    """Run the filter on a frame, and return the name of the counter that it increments.

    The model must have the same outcome. The model's hit of the rule is added to `hits`.
    """
    packet = parse(frame)
    before = filter_.counts()
    verdict = run(filter_.program, frame).verdict
    counted = Counter(filter_.counts()) - Counter(before)
    rule = decisive(rules, packet) if packet.is_whole else None
    if rule is not None:
        expected = "dropped" if rule.action is Action.DROP else "allowed"
        packets, size = hits.get(rule, (0, 0))
        hits[rule] = (packets + 1, size + len(frame))
    else:
        expected = (
            ("malformed" if packet.version else "not_ip") if not packet.is_whole else "unmatched"
        )
    assert counted == {expected: 1}, frame.hex()
    assert verdict == (DROP if expected in ("dropped", "malformed") else PASS)
    return expected


def test_each_frame_gets_the_verdict_of_the_models_rule(filter_: Filter) -> None:
    rng, seen = random.Random(3), Counter[str]()
    kinds: Counter[Kind] = Counter()
    for seed in range(20):
        rules = [*dict.fromkeys(random_rule(rng) for _ in range(rng.randrange(1, 14)))]
        filter_.replace([])
        filter_.replace(rules)
        hits: Hits = dict.fromkeys(rules, (0, 0))
        for frame in frames(seed, 60):
            seen[check(filter_, rules, frame, hits)] += 1
        assert filter_.hits() == hits
        kinds.update(rule.kind for rule, (packets, _) in filter_.hits().items() if packets)
    assert set(seen) == {"dropped", "allowed", "unmatched", "malformed", "not_ip"}
    assert min(seen.values()) > 50, seen
    assert min(kinds[kind] for kind in Kind) > 4, kinds


def test_rules_come_and_go_one_by_one(filter_: Filter) -> None:
    rng, rules = random.Random(4), list[Rule]()
    for step in range(60):
        rule = random_rule(rng)
        if rule in rules:
            filter_.remove(rule)
            rules.remove(rule)
        elif len(rules) < 10:
            filter_.add(rule)
            rules.append(rule)
        elif rng.random() < 0.5:
            filter_.remove(rules.pop(rng.randrange(len(rules))))
        for frame in frames(step, 10):
            check(filter_, rules, frame, {})
    assert {*filter_.rules} == {*rules}


def test_a_rule_keeps_its_counts_when_others_change(filter_: Filter) -> None:
    first, second = Rule(protocol=UDP, destination_port=9), Rule(source=ip_network("10.0.0.0/8"))
    frame = ethernet(ipv4(0x0A000002, 0x0A010002, UDP, segment(UDP, 1, 9)), 0x0800)
    filter_.add(first)
    run(filter_.program, frame, repeat=5)
    filter_.replace([first, second])
    run(filter_.program, frame, repeat=3)
    assert filter_.hits() == {first: (5, 5 * len(frame)), second: (3, 3 * len(frame))}
    filter_.remove(second)
    filter_.add(second)
    assert filter_.hits()[second] == (0, 0), "a rule that is added again starts at 0"
    with pytest.raises(ValueError, match="a rule with the same match"):
        filter_.add(Rule(source=ip_network("10.0.0.0/8"), action=Action.PASS))


def test_a_full_filter_refuses_counts_and_goes_on(
    filter_: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ddos_filter, "MAX_RULES", 3)
    rules = [Rule(protocol=UDP, destination_port=port) for port in range(9, 13)]
    filter_.replace(rules[:3])
    for full in (lambda: filter_.add(rules[3]), lambda: filter_.replace(rules)):
        with pytest.raises(FilterFull, match="no room for 4 rules"):
            full()
    assert filter_.refused == 2
    assert filter_.rules == rules[:3]
    frame = ethernet(ipv4(0x0A000002, 0x0A010002, UDP, segment(UDP, 1, 9)), 0x0800)
    assert run(filter_.program, frame).verdict == DROP
    masks = [Rule(source=ip_network(f"10.0.0.0/{bits}"), protocol=1) for bits in range(8, 25)]
    monkeypatch.setattr(ddos_filter, "MAX_RULES", 65536)
    filter_.replace(masks[:16])
    with pytest.raises(FilterFull, match="17 kinds of tuples; expected at most 65536 and 16"):
        filter_.add(masks[16])


def test_as_many_rules_as_it_says(filter_: Filter) -> None:
    rules = [Rule(source=ip_network((i << 8, 24))) for i in range(1, 65537)]
    filter_.replace(rules)
    with pytest.raises(FilterFull):
        filter_.add(Rule(protocol=1))
    last = ethernet(ipv4(65536 << 8, 1, UDP, segment(UDP, 1, 9)), 0x0800)
    assert run(filter_.program, last).verdict == DROP
    filter_.replace([Rule(protocol=UDP)])
    assert filter_.hits() == {Rule(protocol=UDP): (0, 0)}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({}, "matches every packet"),
        ({"source_port": 65536}, "port 65536"),
        ({"protocol": 256}, "protocol 256"),
        ({"source": ip_network("::/0"), "destination": ip_network("10.0.0.0/8")}, "IPv6"),
    ],
)
def test_rules_that_cannot_be_are_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Rule(**wrong)


def test_each_packet_sees_one_set_of_rules_while_sets_change(filter_: Filter) -> None:
    """The filter drops all packets, although its set of rules is replaced all the time.

    Each of the three sets drops all packets, by other rules than the next set. A packet that saw a
    half of one set and a half of another would pass.
    """
    sets = [
        [Rule(protocol=UDP, destination_port=9), Rule(protocol=UDP, source_port=1)],
        [Rule(source=ip_network("10.0.0.0/8"))],
        [Rule(destination=ip_network("10.1.0.2/32"), protocol=UDP)],
    ]
    frame = ethernet(ipv4(0x0A000002, 0x0A010002, UDP, segment(UDP, 1, 9)), 0x0800)
    filter_.replace(sets[0])
    sent = changes = 0

    def send() -> None:
        nonlocal sent
        while sent < 1_000_000 or changes < 4:  # a change takes long if other processes run
            run_live(filter_.program, frame, 250_000, ingress="v0")
            sent += 250_000

    with wire.namespace():
        wire.veth("v0", "v1")
        with attach_xdp(filter_.program, "v0"):
            sender = threading.Thread(target=send)
            sender.start()
            while sender.is_alive():
                filter_.replace(sets[changes % 3])
                changes += 1
            sender.join()
    assert filter_.counts() == {
        "dropped": sent, "allowed": 0, "unmatched": 0, "malformed": 0, "not_ip": 0, "forgotten": 0,
    }  # fmt: skip


def test_another_copy_takes_over_without_losing_a_packet(
    filter_: Filter, write_bpf: Callable[[str], Path]
) -> None:
    """Two filters with different rules replace each other at a device.

    One of them drops each frame. The frames cross a veth pair to this device.
    """
    frame = ethernet(ipv4(0x0A000002, 0x0A010002, UDP, segment(UDP, 1, 9)), 0x0800)
    sending = write_bpf('SEC("xdp") int example(struct xdp_md *packet) { return XDP_TX; }')
    count = 500_000
    with wire.namespace(), load(SOURCE) as loaded, load(sending) as source:
        wire.veth("v0", "v1")
        copies = [filter_, Filter(loaded)]
        copies[0].replace([Rule(protocol=UDP, destination_port=9)])
        copies[1].replace([Rule(source=ip_network("10.0.0.0/8"))])
        with (
            attach_xdp(source.programs["example"], "v1"),
            attach_xdp(filter_.program, "v0") as link,
        ):
            sender = threading.Thread(
                target=run_live, args=(source.programs["example"], frame, count),
                kwargs={"ingress": "v1"},
            )  # fmt: skip
            sender.start()
            changes = 0
            while sender.is_alive():
                changes += 1
                link.replace(copies[changes % 2].program)
            sender.join()
        shares = [each.counts()["dropped"] for each in copies]
    assert sum(shares) == count
    assert min(shares) > 0
