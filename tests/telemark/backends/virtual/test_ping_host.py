"""PingHost, a virtual host that sends pings, reacts to each frame like a kernel."""

from collections.abc import Callable
from ipaddress import IPv4Interface
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import ARP, Ether

from telemark.backends.virtual.ping_host import PingHost

OWN, OTHER, GATEWAY = "08:00:00:00:00:01", "08:00:00:00:00:02", "08:00:00:00:00:09"


class FakeHost:
    """A host for tests. A test collects the frames that it sends, and delivers frames to it."""

    mac = OWN

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def frames(self, on_frames: Callable[[Any], None]) -> "FakeHost":
        self.take = on_frames
        return self

    def send(self, frame: bytes) -> None:
        self.sent.append(Ether(frame))

    def bring(self, frame: bytes) -> list[Any]:
        """Deliver a frame; return the frames that the host sends."""
        self.sent.clear()
        self.take([Arrival(frame)])
        return list(self.sent)


class Arrival:
    time_ns = 5

    def __init__(self, frame: bytes) -> None:
        self.frame = frame


@pytest.fixture
def host() -> FakeHost:
    fake = FakeHost()
    station = PingHost(IPv4Interface("10.0.0.1/24"), "10.0.0.9", {"10.0.0.9": GATEWAY})
    station.start(fake)  # type: ignore[arg-type]
    return fake


def request(**ip: Any) -> Any:
    return Ether(src=OTHER, dst=OWN) / IP(src="10.9.0.1", dst="10.0.0.1", **ip) / ICMP(id=3, seq=4)


def test_echo_is_answered_by_way_of_the_gateway(host: FakeHost) -> None:
    (answer,) = host.bring(bytes(request() / b"what came"))
    assert (answer.dst, answer[IP].dst, answer[ICMP].type) == (GATEWAY, "10.9.0.1", 0)
    assert (answer[ICMP].id, answer[ICMP].seq, bytes(answer[ICMP].payload)) == (3, 4, b"what came")


def test_of_an_unknown_neighbour_the_mac_address_is_asked_for_first(host: FakeHost) -> None:
    frame = request()
    frame[IP].src = "10.0.0.2"
    (asked,) = host.bring(bytes(frame))
    assert (asked.dst, asked[ARP].op, asked[ARP].pdst) == ("ff:ff:ff:ff:ff:ff", 1, "10.0.0.2")
    told = Ether(dst=OWN) / ARP(op=2, hwsrc=OTHER, psrc="10.0.0.2", hwdst=OWN, pdst="10.0.0.1")
    (answer,) = host.bring(bytes(told))
    assert (answer.dst, answer[IP].dst, answer[ICMP].type) == (OTHER, "10.0.0.2", 0)


def test_arp_requests_for_its_address_are_answered(host: FakeHost) -> None:
    asked = Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=OTHER, psrc="10.0.0.2", pdst="10.0.0.1")
    (answer,) = host.bring(bytes(asked))
    assert (answer.dst, answer[ARP].op, answer[ARP].hwsrc) == (OTHER, 2, OWN)
    asked[ARP].pdst = "10.0.0.3"
    assert host.bring(bytes(asked)) == []


def damaged(at: int) -> bytes:
    frame = bytearray(bytes(request()))
    frame[at] ^= 1
    return bytes(frame)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(damaged(14 + 8), id="header checksum"),
        pytest.param(damaged(14 + 20 + 5), id="checksum of ICMP"),
        pytest.param(damaged(5), id="for another MAC address"),
        pytest.param(bytes(Ether(dst=OWN) / IP(dst="10.0.0.3") / ICMP()), id="for another host"),
        pytest.param(bytes(request())[:-3], id="cut"),
        pytest.param(bytes(request())[:20], id="cut in the header"),
        pytest.param(bytes(request(ihl=4)), id="header too short"),
        pytest.param(bytes(Ether(dst=OWN, type=0x0806))[:14], id="empty ARP"),
        pytest.param(b"", id="empty"),
    ],
)
def test_what_is_not_for_it_or_not_whole_is_not_answered(host: FakeHost, frame: bytes) -> None:
    assert host.bring(bytes(request()))  # an undamaged request gets a reply
    assert host.bring(frame) == []
