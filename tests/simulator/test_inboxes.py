"""Inboxes of applications in a virtual network: each packet arrives once, and unchanged."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from small_programs import engine

from minip4.engine.errors import EngineError, InvalidArgument
from minip4.simulator.shared import Stop
from minip4.simulator.virtual import FlowSpec, Virtual

START_NS = 10**9
MAC = ("00:00:00:00:00:01", "00:00:00:00:00:02")
ADDRESS = ("10.0.0.1", "10.0.0.2")
TO = (MAC[1], ADDRESS[1], 5007)


class Pair:
    """Two hosts in virtual time with a switch between them: h1 - s1 - h2."""

    def __init__(self) -> None:
        wire = engine(ingress="std.egress_spec = std.ingress_port ^ 3;")
        self.virtual = Virtual(START_NS, sanitize=wire.sanitize)
        self.h1, self.h2 = (self.virtual.add_host(*host) for host in zip(MAC, ADDRESS, strict=True))
        switch = self.virtual.add_switch()
        self.virtual.connect(self.h1, 0, switch, 1)
        self.virtual.connect(switch, 2, self.h2, 0)
        self.virtual.install(switch, self.virtual.prepare(wire.another()))
        self.inboxes = self.virtual.inboxes

    def taken(self, inbox: int) -> list[tuple[int, int, int, bytes]]:
        """Take the content of an inbox: time, address, port and bytes of each packet."""
        records, data = self.inboxes.take(inbox)
        found, at = [], 0
        for record in records:
            end = at + int(record["length"])
            numbers = (int(record[name]) for name in ("time_ns", "address", "port"))
            found.append((*numbers, data[at:end]))
            at = end
        assert at == len(data)
        return found  # type: ignore[return-value]


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.virtual.close()


def test_datagrams_stop_the_run_once_and_are_all_there(pair: Pair) -> None:
    """Datagrams that are sent at the same time stop the run once. The inbox has each of them once.

    The datagrams have all lengths. In total, they exceed the initial size of the inbox.
    """
    inbox = pair.inboxes.open_udp(pair.h2, TO[2])
    for first in (0, 700):
        payloads = [bytes([number % 251]) * number for number in range(first, first + 700)]
        for payload in payloads:
            pair.inboxes.send_datagram(pair.h1, 6001, TO, payload)
        assert pair.virtual.run(START_NS + first) is Stop.INBOX
        assert list(pair.inboxes.filled()) == [inbox]
        assert list(pair.inboxes.filled()) == []
        now_ns = pair.virtual.now_ns
        expected = [(now_ns, 0x0A000001, 6001, payload) for payload in payloads]
        assert pair.taken(inbox) == expected
        assert pair.taken(inbox) == []
        assert pair.virtual.run(START_NS + first + 1) is Stop.REACHED


def test_a_datagram_is_as_scapy_would_make_it(pair: Pair) -> None:
    """The frames of datagrams equal those that scapy makes, for several lengths.

    The checksum of one frame would be 0, and is therefore 0xFFFF (RFC 768).
    """
    frames = pair.inboxes.open_frames(pair.h2)
    head = Ether(src=MAC[0], dst=MAC[1]) / IP(src=ADDRESS[0], dst=ADDRESS[1], id=0, flags="DF")
    head /= UDP(sport=6001, dport=5007)
    missing = bytes(head / bytes(2))[40:42]  # with this payload, the ones' complement sum is 0xFFFF
    payloads = [b"", b"odd", b"even", bytes(1472), missing]
    expected = [bytes(head / payload) for payload in payloads]
    for payload in payloads:
        pair.inboxes.send_datagram(pair.h1, 6001, TO, payload)
    pair.virtual.run(START_NS)
    found = pair.taken(frames)
    assert [frame for *_, frame in found] == expected
    assert {(address, port) for _, address, port, _ in found} == {(0, 0)}
    assert expected[-1][40:42] == b"\xff\xff"


def test_an_application_that_receives_all_frames_replaces_the_host(pair: Pair) -> None:
    datagrams = pair.inboxes.open_udp(pair.h2, TO[2])
    frames = pair.inboxes.open_frames(pair.h2)
    sent = [bytes(14), bytes(range(60)), b"\xff" * 9216]
    for frame in sent:
        pair.inboxes.send_frame(pair.h1, frame)
    pair.inboxes.send_datagram(pair.h1, 6001, TO, b"for the host")
    pair.virtual.run(START_NS)
    assert list(pair.inboxes.filled()) == [frames]
    assert [frame for *_, frame in pair.taken(frames)][:3] == sent
    assert pair.taken(datagrams) == []
    counters = pair.virtual.host_counters(pair.h2)
    assert counters == dict.fromkeys(counters, 0) | {"received": 4}
    assert pair.virtual.host_counters(pair.h1)["sent"] == 4


def flow(pair: Pair, port: int) -> int:
    return pair.virtual.add_flow(FlowSpec(pair.h1, pair.h2, 7, 1, port, 0, 22, 10, START_NS, 1e5))


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        (InvalidArgument, lambda pair: [pair.inboxes.open_udp(pair.h2, 9) for _ in range(2)]),
        (InvalidArgument, lambda pair: [pair.inboxes.open_frames(pair.h2) for _ in range(2)]),
        (InvalidArgument, lambda pair: (pair.inboxes.open_udp(pair.h2, 9), flow(pair, 9))),
        (InvalidArgument, lambda pair: (flow(pair, 9), pair.inboxes.open_udp(pair.h2, 9))),
        (EngineError, lambda pair: pair.inboxes.send_frame(pair.h1, bytes(9217))),
        (EngineError, lambda pair: pair.inboxes.send_datagram(pair.h1, 1, TO, bytes(9216 - 41))),
    ],
)
def test_invalid_calls_are_refused(
    pair: Pair, kind: type[Exception], refused: Callable[[Pair], Any]
) -> None:
    with pytest.raises(kind):
        refused(pair)
    assert pair.virtual.run(START_NS + 10**9) is Stop.REACHED


def test_a_flow_and_an_application_share_a_host(pair: Pair) -> None:
    number, inbox = flow(pair, 5000), pair.inboxes.open_udp(pair.h2, 5001)
    pair.inboxes.send_datagram(pair.h1, 1, (*TO[:2], 5001), b"x")
    while pair.virtual.run(START_NS + 10**9) is Stop.INBOX:
        assert list(pair.inboxes.filled()) == [inbox]
    assert len(pair.virtual.flow_result(number).received) == 10
    assert len(pair.taken(inbox)) == 1
