"""Trains: the kernel must segment a train into the original frames, byte by byte."""

import ctypes
from collections.abc import Callable, Iterator

import packets
import pytest
import wire
from packets import Packet
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet as Layer
from test_ports import CPU_PORT, INCLUDE, SOURCES, Forwarder, port_counters

from minip4.native.build import Generated, shared_object
from minip4.ports.driver import Driver

ETHERNET = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
ROOM = 16384


class CPacket(Packet):
    """A packet that contains its buffer."""

    _fields_ = [("buffer", ctypes.c_uint8 * ROOM)]


def train_length(frames: list[bytes]) -> int:
    """Return how many of these frames become a train, by the C function."""
    with shared_object(SOURCES, [Generated(packets.CHECKS)], include=INCLUDE) as path:
        library = ctypes.CDLL(str(path))
    row = [CPacket(length=len(frame)) for frame in frames]
    for packet, frame in zip(row, frames, strict=True):
        packet.buffer[: len(frame)] = frame
        packet.data = ctypes.cast(packet.buffer, ctypes.POINTER(ctypes.c_uint8))
    pointers = (ctypes.POINTER(CPacket) * len(row))(*map(ctypes.pointer, row))
    return int(library.train_length(pointers, len(row)))


def udp(number: int, size: int = 22, flags: int = 0, ttl: int = 63, **ports: int) -> bytes:
    ip = IP(src="10.0.0.1", dst="10.0.0.2", id=(65534 + number) & 0xFFFF, flags=flags, ttl=ttl)
    payload = bytes((number + i) & 0xFF for i in range(size))
    return bytes(ETHERNET / ip / UDP(sport=1000, **({"dport": 2000} | ports)) / payload)


def tcp(number: int, size: int = 1448, flags: str = "A", **fields: object) -> bytes:
    """Return the segment whose data are `number` times 1,448 bytes after those of the first one."""
    ip = IP(src="10.0.0.1", dst="10.0.0.2", id=100 + number, flags="DF", ttl=63)
    header: dict[str, object] = {
        "seq": (0xFFFFF000 + 1448 * number) % 2**32, "ack": 77, "window": 500,
        "options": stamped(1000),
    }  # fmt: skip
    payload = bytes((7 * number + i) & 0xFF for i in range(size))
    return bytes(
        ETHERNET / ip / TCP(sport=1000, dport=80, flags=flags, **header | fields) / payload
    )


def stamped(time: int) -> list[object]:
    return [("NOP", None), ("NOP", None), ("Timestamp", (time, 2000))]


def changed(frame: bytes, offset: int, value: int) -> bytes:
    return frame[:offset] + bytes([value]) + frame[offset + 1 :]


def without_udp_checksum(number: int) -> bytes:
    return udp(number)[:40] + b"\0\0" + udp(number)[42:]


def over(*layers: Layer) -> list[bytes]:
    return [bytes(ETHERNET / b"".join(map(bytes, layers)) / udp(i)[14:]) for i in range(3)]


def ipv6(number: int) -> bytes:
    return bytes(ETHERNET / IPv6(src="fd00::1", dst="fd00::2") / UDP() / bytes([number] * 20))


TRAINS: dict[str, tuple[list[bytes], int]] = {
    "UDP": ([udp(i) for i in range(5)], 5),
    "one alone": ([udp(0)], 1),
    "at most 64": ([udp(i) for i in range(70)], 64),
    "at most 65,535 bytes": ([udp(i, 8000) for i in range(10)], 8),
    "the last one shorter": ([udp(0), udp(1), udp(2, 21), udp(3, 21)], 3),
    "a longer one": ([udp(0), udp(1, 23)], 1),
    "an identification left out": ([udp(0), udp(1), udp(3)], 2),
    "the same identification": ([udp(0), udp(0)], 1),
    "another port": ([udp(0), udp(1, dport=2001)], 1),
    "another TTL": ([udp(0), udp(1, ttl=62)], 1),
    "another address": ([udp(0), changed(udp(1), 33, 3)], 1),
    "another class": ([udp(0), changed(udp(1), 15, 4)], 1),
    "another source MAC": ([udp(0), changed(udp(1), 11, 9)], 1),
    "DF and not": ([udp(0), udp(1, flags=2)], 1),
    "more fragments": ([udp(i, flags=1) for i in range(3)], 1),
    "no UDP checksum": ([without_udp_checksum(i) for i in range(3)], 1),
    "a wrong UDP checksum": ([udp(0), udp(1), changed(udp(2), 50, 1)], 2),
    "the first one's is wrong": ([changed(udp(0), 50, 77), udp(1), udp(2)], 1),
    "a wrong IPv4 checksum": ([udp(0), changed(udp(1), 24, udp(1)[24] ^ 1)], 1),
    "padded": ([udp(i) + b"\0" for i in range(3)], 1),
    "empty": ([udp(i, 0) for i in range(3)], 1),
    "cut short": ([udp(0)[:41], udp(1)[:20], b""], 1),
    "a wrong UDP length": ([changed(udp(i), 39, 29) for i in range(3)], 1),
    "VLAN tags": (over(Dot1Q(vlan=5, type=0x800)), 1),
    "IPv6": ([ipv6(i) for i in range(3)], 1),
    "TCP": ([tcp(i) for i in range(6)], 6),
    "TCP, the last one pushed": ([tcp(0), tcp(1), tcp(2, flags="PA"), tcp(3)], 3),
    "TCP, FIN": ([tcp(0), tcp(1), tcp(2, flags="FA")], 2),
    "TCP, SYN": ([tcp(0, flags="S"), tcp(1, flags="S")], 1),
    "TCP, congestion window reduced": ([tcp(i, flags="AC") for i in range(2)], 1),
    "TCP, a segment left out": ([tcp(0), changed(tcp(2), 19, 101)], 1),
    "TCP, another acknowledgement": ([tcp(0), tcp(1, ack=78)], 1),
    "TCP, another window": ([tcp(0), tcp(1, window=501)], 1),
    "TCP, another timestamp": ([tcp(0), tcp(1, options=stamped(1001))], 1),
    "TCP, no payload": ([tcp(i, 0) for i in range(3)], 1),
    "TCP, an offset beyond the frame": ([changed(tcp(i, 4), 46, 0xF0) for i in range(3)], 1),
    "TCP, an offset of nothing": ([changed(tcp(i), 46, 0x20) for i in range(3)], 1),
}  # fmt: skip


@pytest.mark.parametrize("what", TRAINS)
def test_lengths_of_trains(what: str) -> None:
    frames, expected = TRAINS[what]
    assert train_length(frames) == expected


@pytest.fixture
def engine() -> Iterator[Forwarder]:
    with wire.namespace():
        for i in (1, 2, 3):
            wire.veth(f"s{i}", f"h{i}", 20_000)
        yield Forwarder()


@pytest.fixture
def driver(engine: Forwarder) -> Iterator[Driver]:
    driver = Driver(engine, {1: "s1", 2: "s2", 3: "s3"}, cpu_port=CPU_PORT)
    driver.start()
    yield driver
    driver.stop()


def pass_at_once(driver: Driver, engine: Forwarder, frames: list[bytes]) -> list[bytes]:
    """Send the first frame, and the others while the driver waits, so that it finds them together.

    Return the output. The first frame is alone, because a train needs a frame that was accepted.
    """
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        sender.send(frames[0])
        received = [receiver.recv(65536)]
        engine.lock()
        for frame in frames[1:]:
            sender.send(frame)
        engine.unlock()
        return received + [receiver.recv(65536) for _ in frames[1:]]


Make = Callable[[int], bytes]


@pytest.mark.parametrize(
    "make", [udp, tcp, lambda i: tcp(i, 1, seq=(2**32 - 9 + i) % 2**32), lambda i: udp(i, 1472)]
)
def test_frames_of_a_train_arrive_as_they_were(
    driver: Driver, engine: Forwarder, make: Make
) -> None:
    frames = [make(i) for i in range(40)]
    assert pass_at_once(driver, engine, frames) == frames
    sent = port_counters(driver, 2)
    assert sent["transmitted_packets"] == len(frames)
    assert sent["transmitted_in_trains"] == len(frames) - 1  # the first frame is sent alone
    assert sent["transmitted_bytes"] == sum(map(len, frames))


def test_all_that_makes_no_train_arrives_in_order(driver: Driver, engine: Forwarder) -> None:
    frames = [f for frames, _ in TRAINS.values() for f in frames if len(f) >= 14]
    assert pass_at_once(driver, engine, frames) == frames
    assert 64 < port_counters(driver, 2)["transmitted_in_trains"] < len(frames)


def test_no_trains_where_the_interface_would_not_cut_them(
    driver: Driver, engine: Forwarder
) -> None:
    wire.run("ethtool -K s2 tx on")  # the driver has turned it off
    driver.set_train_mtu(2, 0)
    frames = [tcp(i) for i in range(20)]
    assert pass_at_once(driver, engine, frames) == frames
    assert port_counters(driver, 2)["transmitted_in_trains"] == 0


def send_at_once(engine: Forwarder, frames: list[bytes]) -> None:
    """Send frames while the driver waits."""
    with wire.end("h1") as sender:
        engine.lock()
        for frame in frames:
            sender.send(frame)
        engine.unlock()


def accept(frame: bytes) -> None:
    """Send a frame alone, so that later frames of its length may form trains."""
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        sender.send(frame)
        assert receiver.recv(65536) == frame


def test_no_trains_of_frames_longer_than_the_mtu(driver: Driver, engine: Forwarder) -> None:
    accept(tcp(0))
    wire.run("ip link set s2 mtu 1400")
    driver.set_train_mtu(2, 1400)
    send_at_once(engine, [tcp(number) for number in range(20)])
    wire.await_true(lambda: port_counters(driver, 2)["transmit_errors"] == 20)


def test_after_a_lost_frame_single_frames_are_sent(driver: Driver, engine: Forwarder) -> None:
    accept(udp(0, 1700))
    wire.run("ip link set h2 mtu 1500")
    send_at_once(engine, [udp(1, 1700)])
    wire.await_true(lambda: port_counters(driver, 2)["transmit_kernel_drops"] == 1)
    send_at_once(engine, [udp(number, 1700) for number in range(10)])
    wire.await_true(lambda: port_counters(driver, 2)["transmit_kernel_drops"] == 11)


def test_after_64_trains_single_frames_are_sent(driver: Driver, engine: Forwarder) -> None:
    """So the loss is noticed if the host no longer accepts frames of this length."""
    accept(udp(0, 1700))
    wire.run("ip link set h2 mtu 1500")
    send_at_once(engine, [udp(number, 1700) for number in range(70 * 64)])
    wire.await_true(lambda: port_counters(driver, 1)["received_packets"] == 70 * 64 + 1)
    wire.await_true(lambda: port_counters(driver, 2)["transmit_kernel_drops"] > 0)


def test_an_interface_that_was_down_meanwhile_loses_no_train(
    driver: Driver, engine: Forwarder
) -> None:
    wire.run("ip link set s2 down")
    wire.run("ip link set s2 up")
    frames = [udp(i) for i in range(20)]
    assert pass_at_once(driver, engine, frames) == frames
    assert port_counters(driver, 2)["transmit_errors"] == 0


def test_frames_that_the_host_does_not_accept_form_no_train(
    driver: Driver, engine: Forwarder
) -> None:
    """The kernel reports no error if the peer drops only some frames of a train."""
    wire.run("ip link set h2 mtu 1500")
    frames = [*(udp(i, 1700) for i in range(10)), udp(10, 50)]
    with wire.end("h2") as receiver:
        send_at_once(engine, frames)
        assert receiver.recv(65536) == frames[-1]
    sent = port_counters(driver, 2)
    assert (sent["transmit_kernel_drops"], sent["transmitted_packets"]) == (10, 1)


def test_trains_are_sent_to_a_recreated_interface(driver: Driver, engine: Forwarder) -> None:
    wire.run("ip link del s2")
    wire.veth("s2", "h2", 20_000)
    driver.reopen(2)
    frames = [udp(i) for i in range(20)]
    assert pass_at_once(driver, engine, frames) == frames
    assert port_counters(driver, 2)["transmitted_in_trains"] == 19
