"""Hostile packets to reflectors and senders: no crash, no loop, and no amplification."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from minip4.simulator.shared import ARRIVAL
from telemark.apps.application import Host, HostInfo, Timers
from telemark.apps.stamp import reflector as reflectors
from telemark.apps.stamp import tlvs
from telemark.apps.stamp.packets import (
    ReflectorPacket,
    SenderPacket,
    TimestampFormat,
    pack,
    unpack,
)
from telemark.apps.stamp.reflector import StampReflector
from telemark.apps.stamp.sender import StampSender
from telemark.apps.stamp.statistics import measure_path
from telemark.traffic.received import Datagrams, Taken

KEY = b"a secret"
PACKET = SenderPacket(0, 1 << 32, 5, 1)


class FakeSocket:
    """Socket that stores what is sent."""

    max_batch = 1000

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, str, int, int, int]] = []

    def send(self, payload: bytes, address: str, port: int, tos: int, ttl: int) -> None:
        self.sent.append((payload, address, port, tos, ttl))

    def take(self) -> Taken:
        return np.zeros(0, ARRIVAL), b""


class FakeHost(Host):
    """Host with one fake socket and a clock that the test sets."""

    def __init__(self, address: str) -> None:
        neighbours = {f"10.0.0.{n}": f"00:00:00:00:00:0{n}" for n in range(1, 5)}
        super().__init__(HostInfo("h", address, "00:00:00:00:00:01", 1500, neighbours), Timers())
        self.socket = FakeSocket()
        self.time_ns = 1_000_000_000

    def now_ns(self) -> int:
        return self.time_ns

    def _open_udp(self, port: int) -> FakeSocket:
        return self.socket

    def _open_icmp(self) -> FakeSocket:
        raise NotImplementedError

    def _open_frames(self, *, takes: bool) -> FakeSocket:
        raise NotImplementedError

    def deliver(self, payload: bytes, address: str = "10.0.0.1", port: int = 5000) -> None:
        """Deliver a datagram to the application."""
        self.time_ns += 1000
        records = np.zeros(1, ARRIVAL)
        records["time_ns"], records["length"], records["ttl"] = self.time_ns, len(payload), 64
        records["address"] = int.from_bytes(bytes(map(int, address.split("."))), "big")
        records["port"] = port
        self.time_ns += 10  # the application runs after the arrival
        callback: Callable[[Datagrams], None] = self.receivers[0]._callback  # type: ignore[assignment]
        callback(Datagrams((records, payload)))


def started(application: StampReflector | StampSender, address: str = "10.0.0.2") -> FakeHost:
    host = FakeHost(address)
    application.start(host)
    return host


@pytest.mark.parametrize("key", [None, KEY])
def test_random_packets_get_no_longer_reply(key: bytes | None) -> None:
    generator = random.Random(1)
    reflector = StampReflector(key=key)
    host = started(reflector)
    for number in range(3000):
        payload = generator.randbytes(generator.randrange(200))
        if number % 2:
            payload = pack(PACKET._replace(sequence=number), key) + payload
        before = len(host.socket.sent)
        host.deliver(payload, port=generator.randrange(65536))
        replies = host.socket.sent[before:]
        assert len(replies) <= 1
        assert all(len(reply[0]) == len(payload) for reply in replies)
    report = reflector.result()
    assert report.reflected == len(host.socket.sent) > 1000
    assert report.reflected + sum(report.discarded.values()) == 3000


@pytest.mark.parametrize(
    ("payload", "address", "port", "reason"),
    [
        (pack(PACKET, KEY)[:111], "10.0.0.1", 5000, "short"),
        (pack(PACKET, b"other"), "10.0.0.1", 5000, "hmac"),
        (pack(PACKET, KEY), "10.9.9.9", 5000, "no host has its source address and port"),
        (pack(PACKET, KEY), "10.0.0.1", 0, "no host has its source address and port"),
    ],
)
def test_reflectors_count_discarded_packets(
    payload: bytes, address: str, port: int, reason: str
) -> None:
    reflector = StampReflector(key=KEY)
    host = started(reflector)
    host.deliver(payload, address, port)
    assert host.socket.sent == []
    assert reflector.result().discarded == {reason: 1}


@pytest.mark.parametrize("key", [None, KEY])
def test_two_reflectors_do_not_answer_each_other_without_end(key: bytes | None) -> None:
    """A forged test packet names the other reflector as its source."""
    applications = [StampReflector(key=key), StampReflector(key=key)]
    hosts = [started(applications[0], "10.0.0.1"), started(applications[1])]
    hosts[0].deliver(pack(PACKET, key), "10.0.0.2", 862)
    at = 0
    for _ in range(10):
        if not hosts[at].socket.sent:
            break
        payload = hosts[at].socket.sent.pop()[0]
        hosts[1 - at].deliver(payload, f"10.0.0.{at + 1}", 862)
        at = 1 - at
    assert [a.result().reflected for a in applications] == [1, 1]
    assert applications[0].result().discarded == {"loop of reflectors": 1}


def test_the_number_of_sessions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflectors, "MAX_SESSIONS", 3)
    reflector = StampReflector()
    host = started(reflector)
    for port in (1, 2, 3, 4, 1, 4):
        host.deliver(pack(PACKET, None), port=port)
    numbers = [unpack(ReflectorPacket, sent[0], None).sequence for sent in host.socket.sent]
    assert numbers == [0, 0, 0, 0, 0, 1]  # the session of port 1 was forgotten
    assert len(reflector._sessions) == 3


def test_a_session_in_use_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflectors, "MAX_SESSIONS", 3)
    host = started(StampReflector())
    for port in (1, 2, 3, 1, 4, 1):
        host.deliver(pack(PACKET, None), port=port)
    numbers = [unpack(ReflectorPacket, sent[0], None).sequence for sent in host.socket.sent]
    assert numbers == [0, 0, 0, 1, 0, 2]


def test_the_number_of_remembered_replies_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflectors, "REMEMBERED_REPLIES", 3)
    reflector = StampReflector()
    host = started(reflector)
    for _ in range(5):
        host.deliver(pack(PACKET, None))
    last = [unpack(ReflectorPacket, sent[0], None).timestamp for sent in host.socket.sent[2:]]
    assert [*reflector._last_timestamps] == last


def test_replies_contain_the_times_of_arrival_and_departure() -> None:
    host = started(StampReflector())
    host.deliver(pack(PACKET, None))
    reply = unpack(ReflectorPacket, host.socket.sent[0][0], None)
    times = [TimestampFormat.NTP.decode(t) for t in (reply.receive_timestamp, reply.timestamp)]
    assert times == [host.time_ns - 10, host.time_ns]


def test_replies_have_the_requested_dscp() -> None:
    host = started(StampReflector())
    host.deliver(pack(PACKET, None) + tlvs.pack_tlvs([tlvs.class_of_service(34)]))
    assert host.socket.sent[0][3] == 34 << 2


def test_sessions_are_numbered_separately() -> None:
    host = started(StampReflector())
    for ssid in (1, 2, 1):
        host.deliver(pack(PACKET._replace(ssid=ssid), None))
    replies = [unpack(ReflectorPacket, sent[0], None) for sent in host.socket.sent]
    assert [(reply.ssid, reply.sequence) for reply in replies] == [(1, 0), (2, 0), (1, 1)]


def test_senders_ignore_tlvs_without_integrity() -> None:
    sender = StampSender("10.0.0.3", count=1, interval_us=1000, key=KEY)
    host = started(sender)
    host.time_ns += 1_000_000
    host._timers.call_due(host.time_ns)
    sent = unpack(SenderPacket, host.socket.sent[0][0], KEY)
    reply = ReflectorPacket(0, sent.timestamp, 5, 1, sent.timestamp, 0, sent.timestamp, 5, 64)
    good = tlvs.seal([tlvs.access_report(1, 2)], 0, KEY)
    failed = tlvs.seal([good[0]._replace(flags=tlvs.INTEGRITY_FAILED)], 0, KEY)
    for chain in (good, failed, good[:1]):
        host.deliver(pack(reply, KEY) + tlvs.pack_tlvs(chain), "10.0.0.3", 862)
    assert sender.result().tlvs == [good, [], []]


def test_senders_count_discarded_packets() -> None:
    sender = StampSender("10.0.0.3", count=2, interval_us=1000)
    host = started(sender)
    host.time_ns += 1_000_000
    host._timers.call_due(host.time_ns)
    (payload, *_), time_ns = host.socket.sent[0], host.time_ns
    sent = unpack(SenderPacket, payload, None)
    good = ReflectorPacket(0, sent.timestamp, 5, 1, sent.timestamp, 0, sent.timestamp, 5, 64)
    for reply in (
        good, good._replace(ssid=2), good._replace(sender_sequence=1),
        good._replace(sender_timestamp=7), good,
        good._replace(ssid=0),
    ):  # fmt: skip
        host.deliver(pack(reply, None), "10.0.0.3", 862)
    host.deliver(pack(good, None), "10.0.0.4", 862)
    host.deliver(b"", "10.0.0.3", 862)
    record = sender.result()
    assert record.sent_ns.tolist() == [time_ns]
    assert record.discarded == {
        "other session": 1, "no such test packet": 2, "not from the reflector": 1, "short": 1
    }  # fmt: skip
    path = measure_path(record)
    assert (path.answered, path.duplicates, path.lost) == (1, 2, 0)
