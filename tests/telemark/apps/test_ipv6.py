"""UDP over IPv6 of applications, compared with scapy."""

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from telemark.apps.application import Host
from telemark.apps.ipv6 import Ipv6Host, Ipv6Port
from telemark.errors import TestbedError
from telemark.traffic.received import Datagram, Frame

A, B = "2001:db8::1", "2001:db8::2"
MAC_A, MAC_B = "00:00:00:00:00:01", "00:00:00:00:00:02"


class FakeHost:
    """Interface of a host: stores sent frames."""

    mac = MAC_A

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def frames(self, on_frames: object) -> "FakeHost":
        self.deliver = on_frames
        return self

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)


def opened() -> tuple[FakeHost, Ipv6Port, list[Datagram]]:
    host: FakeHost = FakeHost()
    came: list[Datagram] = []
    real: Host = host  # type: ignore[assignment]
    return host, Ipv6Port(real, Ipv6Host(A, {B: MAC_B}), 862, came.extend), came


@pytest.mark.parametrize("payload", [b"", b"x", b"payload", bytes(1000)])
def test_scapy_reads_what_the_port_sends(payload: bytes) -> None:
    host, port, _ = opened()
    port.send(payload, B, 5000, dscp=46, ecn=1, ttl=255)
    frame = Ether(host.sent[0])
    assert (frame.src, frame.dst, frame[IPv6].src, frame[IPv6].dst) == (MAC_A, MAC_B, A, B)
    assert (frame[IPv6].hlim, frame[IPv6].tc, frame[IPv6].fl) == (255, 46 << 2 | 1, 0)
    assert (frame[UDP].sport, frame[UDP].dport) == (862, 5000)
    assert bytes(frame[UDP].payload) == payload
    right = frame[UDP].chksum
    del frame[UDP].chksum
    assert Ether(bytes(frame))[UDP].chksum == right


def frame(payload: bytes = b"payload") -> bytearray:
    ip = IPv6(src=B, dst=A, hlim=63, tc=46 << 2 | 3)
    return bytearray(bytes(Ether(src=MAC_B, dst=MAC_A) / ip / UDP(sport=5, dport=862) / payload))


def test_the_port_reads_what_scapy_sends() -> None:
    host, _, came = opened()
    host.deliver([Frame(7, bytes(frame()))])  # type: ignore[operator]
    assert came == [Datagram(7, B, 5, b"payload", 46, 3, 63)]


@pytest.mark.parametrize("at", [0, 12, 14, 19, 20, 30, 50, 57, 59, 62, 65])
def test_frames_with_a_changed_byte_are_ignored(at: int) -> None:
    """Changes MAC, type, version, length, protocol, addresses, port, checksum or payload."""
    host, _, came = opened()
    changed = frame()
    changed[at] ^= 0x80
    host.deliver([Frame(7, bytes(changed))])  # type: ignore[operator]
    assert came == []


def test_truncated_frames_are_ignored() -> None:
    host, _, came = opened()
    whole = bytes(frame())
    host.deliver([Frame(7, whole[:length]) for length in range(len(whole))])  # type: ignore[operator]
    assert came == []


def test_unknown_destinations_and_long_forms_are_refused() -> None:
    _, port, _ = opened()
    with pytest.raises(TestbedError, match="address 2001:db8::3: no MAC address"):
        port.send(b"", "2001:db8::3", 1)
    with pytest.raises(TestbedError, match="expected its short form 2001:db8::1"):
        Ipv6Host("2001:db8:0::1", {})


def test_the_checksum_0_is_sent_as_0xffff() -> None:
    """Over IPv6, receivers discard datagrams with the checksum 0 (RFC 8200, section 8.1)."""
    host, port, _ = opened()
    port.send(bytes(2), B, 5000)
    payload = host.sent[0][60:62]  # added to the data, the checksum makes the checksum 0
    port.send(payload, B, 5000)
    assert host.sent[1][60:62] == b"\xff\xff"
    assert Ether(host.sent[1])[UDP].chksum == 0xFFFF


def test_datagrams_without_checksum_are_ignored() -> None:
    host, _, came = opened()
    without = frame(bytes(2))
    without[62:64], without[60:62] = without[60:62], bytes(2)
    host.deliver([Frame(0, bytes(without))])  # type: ignore[operator]
    assert came == []


@pytest.mark.parametrize(
    ("port", "marks", "why"),
    [
        (0, {}, "UDP port 0"), (65536, {}, "UDP port 65536"), (1, {"dscp": 64}, "dscp 64"),
        (1, {"ecn": 4}, "ecn 4"), (1, {"ttl": 256}, "ttl 256"),
    ],
)  # fmt: skip
def test_values_that_headers_cannot_have_are_refused(
    port: int, marks: dict[str, int], why: str
) -> None:
    _, opened_port, _ = opened()
    with pytest.raises(TestbedError, match=why):
        opened_port.send(b"", B, port, **marks)


def test_a_port_out_of_range_is_refused() -> None:
    with pytest.raises(TestbedError, match="UDP port 65536: expected 1 to 65535"):
        Ipv6Port(FakeHost(), Ipv6Host(A, {}), 65536, print)  # type: ignore[arg-type]


def test_text_that_is_no_address_is_refused() -> None:
    with pytest.raises(TestbedError, match="IPv6 address: "):
        Ipv6Host("10.0.0.1", {})
