"""p4src/explicit: RTT and loss that the observer measures from bits of short headers."""

import random
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
import subject
from scapy.layers.inet import IP, TCP, UDP, IPOption_RR
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from controllers.explicit import Record
from minip4.engine.keys import Exact
from telemark.apps.explicit_bits import FIRST, SECOND, SHORT_HEADER, SPIN, Scheme, SquareBlocks

PROGRAM = Path(__file__).parents[2] / "p4src" / "explicit" / "explicit.p4"
INGRESS = "ExplicitIngress"
CPU_PORT = 255
ANSWER = struct.Struct(">HI6s8Q")
CLIENT, SERVER = "10.0.0.1", "10.0.0.2"
MACS = {CLIENT: "02:00:00:00:00:01", SERVER: "02:00:00:00:00:02"}
PORTS = {CLIENT: 1, SERVER: 2}
TO_SERVER, TO_CLIENT = 0, 1
N, X, LIMIT_US = 64, 8, 900_000


class Observer:
    """A switch that observes connections; connection n has the UDP ports 6000 + n and 4430 + n.

    `limits` are the block length, the marking block threshold, and the longest RTT.
    """

    def __init__(
        self, *schemes: Scheme, limits: tuple[int, int, int] = (N, X, LIMIT_US)
    ) -> None:  # fmt: skip
        self.engine = subject.switch(PROGRAM, ports=(1, 2, CPU_PORT))
        for host, mac in MACS.items():
            forwarding = f"{INGRESS}.forwarding"
            self.engine.table_add(
                f"{forwarding}.forwarding", [Exact(int(mac.replace(":", ""), 16))],
                f"{forwarding}.forward", [PORTS[host]],
            )  # fmt: skip
        for number, scheme in enumerate(schemes):
            for direction in (TO_SERVER, TO_CLIENT):
                header = made(0, number, direction)
                key = [header[IP].src, header[IP].dst, header[UDP].sport, header[UDP].dport]
                self.engine.table_add(
                    f"{INGRESS}.watch.watch_list",
                    [Exact(word if isinstance(word, int) else address(word)) for word in key],
                    f"{INGRESS}.watch.observe", [2 * number + direction, scheme, *limits],
                )  # fmt: skip

    def send(self, packet: Packet, time_us: int = 0) -> None:
        """Send a packet. It must leave unchanged at the port of its destination."""
        frame = bytes(packet)
        source = next(PORTS[host] for host, mac in MACS.items() if mac == packet.src)
        assert self.engine.process(source, frame, 1000 * time_us) == [(3 - source, frame)]

    def send_bits(
        self, bits: Iterable[int], number: int = 0, direction: int = TO_SERVER
    ) -> None:  # fmt: skip
        """Send a packet with each of these bits."""
        for each in bits:
            self.send(made(each, number, direction))

    def read(self, record: Record, number: int = 0, direction: int = TO_SERVER) -> tuple[int, ...]:
        """Read a record by a readout packet."""
        request = struct.pack(">HI", record, 2 * number + direction) + bytes(8)
        ((port, answer),) = self.engine.process(CPU_PORT, request, 0)
        assert port == CPU_PORT
        return ANSWER.unpack_from(answer)[3:7]

    def read_all(self, number: int) -> list[tuple[int, ...]]:
        """Read all records of both directions of a connection."""
        return [self.read(record, number, direction)
                for record in Record for direction in (TO_SERVER, TO_CLIENT)]  # fmt: skip


def address(text: str) -> int:
    return int.from_bytes(bytes(map(int, text.split("."))), "big")


def made(bits: int, number: int = 0, direction: int = TO_SERVER) -> Packet:
    """Return a packet of a connection with these bits in its short header."""
    ends = [(CLIENT, 6000 + number), (SERVER, 4430 + number)]
    (source, source_port), (destination, port) = ends if direction == TO_SERVER else ends[::-1]
    return (
        Ether(src=MACS[source], dst=MACS[destination])
        / IP(src=source, dst=destination)
        / UDP(sport=source_port, dport=port)
        / Raw(bytes([SHORT_HEADER | bits]) + bytes(30))
    )


def square(sizes: Sequence[int], bit: int = FIRST) -> list[int]:
    """Return the square bit of each packet, for blocks of these sizes."""
    return [bit * (block % 2) for block, size in enumerate(sizes) for _ in range(size)]


def test_time_between_spin_edges_is_an_rtt_after_the_first_edge() -> None:
    observer = Observer(Scheme.SDT)
    times = [(10, 0), (20, 0), (100, 1), (110, 1), (130, 0), (190, 1), (191, 1), (230, 0)]
    for time_us, spin in times:
        observer.send(made(SPIN * spin), time_us)
    assert observer.read(Record.SPIN) == (3, 130, 30, 60)
    assert observer.read(Record.SPIN, direction=TO_CLIENT) == (0, 0, 0, 0)


def test_a_late_packet_makes_two_wrong_edges() -> None:
    observer = Observer(Scheme.SDT)
    for time_us, spin in [(0, 0), (100, 1), (101, 0), (102, 1), (200, 0)]:
        observer.send(made(SPIN * spin), time_us)
    assert observer.read(Record.SPIN) == (3, 100, 1, 98)


def test_time_between_delay_samples_is_an_rtt_below_the_limit() -> None:
    observer = Observer(Scheme.SDT)
    begins_us = 5
    for time_us in (0, 40, 40 + LIMIT_US, 90 + LIMIT_US):
        observer.send(made(FIRST), begins_us + time_us)
        observer.send(made(0), begins_us + time_us + 1)
    assert observer.read(Record.DELAY) == (2, 90, 40, 50)


def test_delay_samples_in_opposite_directions_give_half_rtts() -> None:
    observer = Observer(Scheme.SDT)
    for time_us, direction in [(0, TO_SERVER), (12, TO_CLIENT), (30, TO_SERVER), (45, TO_CLIENT)]:
        observer.send(made(FIRST, 0, direction), time_us)
    assert observer.read(Record.HALF, direction=TO_CLIENT) == (2, 27, 12, 15)
    assert observer.read(Record.HALF, direction=TO_SERVER) == (1, 18, 18, 18)
    observer.send(made(FIRST, 0, TO_SERVER), 45 + LIMIT_US)
    assert observer.read(Record.HALF, direction=TO_SERVER) == (1, 18, 18, 18)


def test_complete_blocks_count_and_the_first_block_does_not() -> None:
    observer = Observer(Scheme.SQL)
    observer.send_bits(square([50, N, N - 3, N, X]))
    assert observer.read(Record.SQUARE)[:2] == (2, 2 * N - 3)
    observer.send_bits([0])  # the packet that closes the third block
    assert observer.read(Record.SQUARE)[:2] == (3, 3 * N - 3)


@pytest.mark.parametrize(("late", "counts"), [(X, (2, 2 * N)), (X + 1, (4, 2 * N))])
def test_a_packet_later_than_the_threshold_cuts_a_block_in_three(
    late: int, counts: tuple[int, int]
) -> None:
    """The last packet of the second block arrives after `late` packets of the third."""
    observer = Observer(Scheme.SQL)
    bits = square([N, N, N, N])
    moved = bits.pop(2 * N - 1)
    bits.insert(2 * N - 1 + late, moved)
    observer.send_bits(bits)
    assert observer.read(Record.SQUARE)[:2] == counts


def test_a_block_that_is_lost_in_a_burst_is_counted_as_lost() -> None:
    observer = Observer(Scheme.SQL)
    sent = square([N] * 6)
    observer.send_bits(sent[: 2 * N - 2] + sent[3 * N + 5 :])
    blocks, packets, *_ = observer.read(Record.SQUARE)
    assert (blocks, packets) == (4, 4 * N - N - 7)


def test_reflection_blocks_count_only_in_their_scheme() -> None:
    bits = [q | r for q, r in zip(square([N] * 3), square([40, 50, 102], SECOND), strict=True)]
    observer = Observer(Scheme.SQR, Scheme.SQL)
    for number in (0, 1):
        observer.send_bits(bits, number)
    assert observer.read(Record.REFLECTION, 0)[:2] == (1, 50)
    assert observer.read(Record.REFLECTION, 1)[:2] == (0, 0)
    assert observer.read(Record.LOSS, 0)[:2] == (0, 0)
    assert observer.read(Record.LOSS, 1)[:2] == (3 * N, 50)


def test_trains_end_after_a_spin_period_without_marks() -> None:
    periods = [  # spin, packets, packets with T
        (0, 5, 0), (1, 5, 3), (0, 5, 4), (1, 5, 0), (0, 5, 0), (1, 5, 2), (0, 5, 3), (1, 5, 0),
        (0, 5, 1), (1, 5, 0), (0, 5, 1),
    ]  # fmt: skip
    observer = Observer(Scheme.SDT)
    for spin, packets, marked in periods:
        observer.send_bits([SPIN * spin | SECOND * (at < marked) for at in range(packets)])
    assert observer.read(Record.TRIP)[:3] == (1, 7, 5)


def test_the_trains_after_a_lost_train_are_paired_wrongly() -> None:
    """Sent are the pairs (4, 4), (5, 5), (6, 6) and (7, 7). The second train of 5 is lost."""
    observer = Observer(Scheme.SDT)
    for number, marked in enumerate((0, 4, 0, 4, 0, 5, 0, 0, 0, 6, 0, 6, 0, 7, 0, 7, 0, 0)):
        spin = SPIN * (number % 2)
        observer.send_bits([spin | SECOND * (at < marked) for at in range(8)])
    assert observer.read(Record.TRIP)[:3] == (3, 4 + 5 + 6, 4 + 6 + 7)


def test_trains_of_one_packet_are_counted() -> None:
    observer = Observer(Scheme.SDT)
    for number, marked in enumerate((0, 1, 0, 1, 0, 0)):
        observer.send_bits([SPIN * (number % 2) | SECOND * marked, SPIN * (number % 2)])
    assert observer.read(Record.TRIP)[:3] == (1, 1, 1)


def test_each_connection_has_its_own_block_length_and_threshold() -> None:
    observer = Observer(Scheme.SQL, limits=(16, 3, 100))
    observer.send_bits(square([16, 16, 17, 4]))
    assert observer.read(Record.SQUARE)[:2] == (1 + 3, 16 + 17)


def test_each_connection_has_its_own_longest_rtt() -> None:
    observer = Observer(Scheme.SDT, limits=(16, 3, 100))
    for time_us in (5, 104, 204):
        observer.send(made(FIRST), time_us)
    assert observer.read(Record.DELAY) == (1, 99, 99, 99)


def test_random_square_waves_are_counted_as_by_an_endpoint() -> None:
    rng = random.Random(1)
    observer, model = Observer(Scheme.SQL), SquareBlocks(X)
    sizes, value = [], False
    for _ in range(4000):
        value ^= rng.random() < 0.05
        observer.send(made(FIRST * value))
        size = model.receive(value)
        sizes += [] if size is None else [size]
    counted = sizes[1:]
    blocks = sum(3 if size > N else 1 for size in counted)
    assert observer.read(Record.SQUARE)[:2] == (blocks, sum(counted))
    assert len(counted) > 50


def test_a_datagram_of_one_byte_counts() -> None:
    observer = Observer(Scheme.SQL)
    packet = made(SECOND)
    packet[UDP].remove_payload()
    observer.send(packet / Raw(bytes([SHORT_HEADER | SECOND])))
    assert observer.read(Record.LOSS)[:2] == (1, 1)


def hostile() -> list[Packet]:
    """Return packets that look like those of connection 0, but must not count."""
    good = made(SPIN | FIRST | SECOND)
    ethernet, ip, payload = Ether(src=good.src, dst=good.dst), good[IP].copy(), good[Raw].load
    ip.remove_payload()
    ports = {"sport": 6000, "dport": 4430}
    return [
        ethernet / ip / UDP(**ports) / Raw(b"\xc3" + payload[1:]),  # long header
        ethernet / ip / UDP(**ports) / Raw(b"\x3b" + payload[1:]),  # fixed bit 0
        ethernet / ip / UDP(**ports) / Raw(b""),
        ethernet / ip / UDP(**ports, len=8) / Raw(payload),  # payload behind the datagram
        ethernet / ip / UDP(**ports, len=3) / Raw(payload),
        ethernet / ip / TCP(**ports) / Raw(payload),
        # where UDP has its length and payload, this segment has 0xffff and a short header
        ethernet / ip / TCP(**ports, seq=0xFFFF0000, ack=0x78000000) / Raw(payload),
        ethernet / IP(src=ip.src, dst=ip.dst, frag=10, proto=17) / Raw(bytes(8) + payload),
        ethernet / IP(src=ip.src, dst=ip.dst, ihl=3, proto=17) / Raw(bytes(8) + payload),
        ethernet / IPv6() / UDP(**ports) / Raw(payload),
        ethernet / ip / UDP(sport=6000, dport=4431) / Raw(payload),
        ethernet / IP(src=ip.src, dst=ip.dst, options=IPOption_RR()) / TCP() / Raw(payload),
    ]


@pytest.mark.parametrize("scheme", [*Scheme])
def test_hostile_packets_are_forwarded_and_do_not_count(scheme: Scheme) -> None:
    observer = Observer(scheme)
    before = subject_state(observer)
    for packet in hostile():
        observer.send(packet)
    assert subject_state(observer) == before


def test_cut_frames_are_forwarded_and_do_not_change_another_connection() -> None:
    observer, rng = Observer(*Scheme), random.Random(2)
    for number in range(len(Scheme)):
        observer.send_bits(rng.choices(range(0, 0x40, 8), k=300), number)
    before = observer.read_all(1)
    frame = bytes(made(SPIN | FIRST | SECOND))
    for length in range(14, len(frame)):
        assert observer.engine.process(1, frame[:length], 0) == [(2, frame[:length])]
    for _ in range(500):
        damaged = bytearray(frame)
        damaged[rng.randrange(12, len(frame))] = rng.randrange(256)
        if bytes(damaged[34:38]) == frame[34:38]:  # still the ports of connection 0
            assert observer.engine.process(1, bytes(damaged), 0) == [(2, bytes(damaged))]
    assert observer.read_all(1) == before


def test_random_bits_do_not_change_another_connection() -> None:
    observer, rng = Observer(*Scheme), random.Random(3)
    observer.send_bits(square([N] * 4), 1)
    before = observer.read_all(1)
    for number in (0, 2):
        for direction in (TO_SERVER, TO_CLIENT):
            observer.send_bits(rng.choices(range(0, 0x40, 8), k=1000), number, direction)
    assert observer.read_all(1) == before
    assert observer.read(Record.SQUARE, 2)[0] > 0


@pytest.mark.parametrize(("scheme", "records"), [
    (Scheme.SDT, {Record.SPIN, Record.DELAY, Record.HALF, Record.TRIP}),
    (Scheme.SQL, {Record.SPIN, Record.SQUARE, Record.LOSS}),
    (Scheme.SQR, {Record.SPIN, Record.SQUARE, Record.REFLECTION}),
])  # fmt: skip
def test_a_connection_has_only_the_records_of_its_scheme(
    scheme: Scheme, records: set[Record]
) -> None:
    observer, rng = Observer(scheme), random.Random(4)
    for time_us in range(1000):
        observer.send(made(rng.randrange(0, 0x40, 8), 0, time_us % 2), time_us)
    assert {record for record in Record if any(observer.read(record))} == records


def subject_state(observer: Observer) -> list[tuple[int, ...]]:
    return observer.read_all(0)
