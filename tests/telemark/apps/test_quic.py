"""QUIC-like endpoints: frames, loss detection and acknowledgements, with and without loss."""

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from virtual_networks import WIRE, Pair, virtually

from telemark.apps.application import Application, Host
from telemark.apps.explicit_bits import SHORT_HEADER, Scheme
from telemark.apps.quic import (
    CONNECTION_ID,
    MAX_RANGES,
    NUMBER_LENGTH,
    PING,
    QuicEndpoint,
    QuicRecord,
    decode_frames,
    decode_varint,
    encode_ack,
    encode_varint,
    insert,
)
from telemark.network import Network
from telemark.session.run import Run

MS = 1_000_000
CLIENT_PORT, SERVER_PORT = 6000, 4430


@pytest.mark.parametrize(("value", "encoded"), [
    (37, "25"), (15293, "7bbd"), (494878333, "9d7f3e7d"),
    (151288809941952652, "c2197c5eff14e88c"),
])  # fmt: skip
def test_integers_have_the_encoding_of_rfc_9000(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert decode_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


def test_ranges_are_those_of_the_inserted_numbers() -> None:
    rng, ranges, numbers = random.Random(1), [], set()
    for number in rng.choices(range(300), k=400):
        assert insert(ranges, number) == (number not in numbers)
        numbers.add(number)
    assert [n for low, high in ranges for n in range(low, high + 1)] == sorted(numbers)
    assert all(after[0] > before[1] + 1 for before, after in pairwise(ranges))


def test_an_acknowledgement_has_the_highest_ranges() -> None:
    ranges = [[10 * n, 10 * n + n % 5] for n in range(MAX_RANGES + 3)]
    acked, elicits = decode_frames(encode_ack(ranges) + bytes([PING]) + bytes(4))
    assert acked == [(low, high) for low, high in reversed(ranges[3:])]
    assert elicits


@pytest.mark.parametrize("payload", [
    "1c", "02", "0205", "02050000", "0205000006", "0205000100", "020500000002",
    "0205000200000101", "02ffffffffffffffff0000",
])  # fmt: skip
def test_frames_that_are_unknown_cut_or_negative_are_rejected(payload: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the messages differ
        decode_frames(bytes.fromhex(payload))


class Attacker(Application):
    """Sends datagrams to the server from its own UDP port on the host of the client."""

    def __init__(self, payloads: list[bytes], address: str) -> None:
        self.payloads = payloads
        self.address = address

    def start(self, host: Host) -> None:
        port = host.udp(6001)
        for number, payload in enumerate(self.payloads):
            host.call_at(
                host.now_ns() + MS * number,
                lambda payload=payload: port.send(payload, self.address, SERVER_PORT),
            )


def exchange(
    folder: Path, loss: float = 0.0, payloads: list[bytes] | None = None, count: int = 500
) -> tuple[QuicRecord, QuicRecord]:
    """Let a client and a server send data for half a second. Return their records."""

    async def main(run: Run) -> tuple[QuicRecord, QuicRecord]:
        with Network(Pair(delay_us=2000, loss_probability=loss), run, program=WIRE) as net:
            client, server = net.host("h1").IP(), net.host("h2").IP()
            due_ns = np.arange(count) * MS
            second = net.run_application(
                "h2",
                QuicEndpoint(
                    Scheme.SQL, due_ns, SERVER_PORT, (client, CLIENT_PORT), is_client=False
                ),
            )
            first = net.run_application(
                "h1",
                QuicEndpoint(
                    Scheme.SQL, due_ns, CLIENT_PORT, (server, SERVER_PORT), is_client=True
                ),
            )
            if payloads:
                net.run_application("h1", Attacker(payloads, server))
            await run.clock.sleep_until(run.clock.now_ns() + (count + 1000) * MS)
        return first.result, second.result

    found: tuple[QuicRecord, QuicRecord] = virtually(folder, main)
    return found


def lost(sender: QuicRecord, receiver: QuicRecord) -> set[int]:
    return set(range(len(sender.sent_ns))) - set(receiver.received.tolist())


def test_without_loss_nothing_is_detected_as_lost(tmp_path: Path) -> None:
    client, server = exchange(tmp_path)
    for sender, receiver in ((client, server), (server, client)):
        assert len(sender.sent_ns) >= 500
        assert lost(sender, receiver) == set()
        assert len(sender.lost) == sender.unreported == sender.invalid == 0


def test_exactly_the_lost_packets_are_detected(tmp_path: Path) -> None:
    client, server = exchange(tmp_path, loss=0.1)
    for sender, receiver in ((client, server), (server, client)):
        known = {number for number in lost(sender, receiver) if number < sender.largest_acked}
        assert len(known) > 20
        assert set(sender.lost.tolist()) >= known
        assert set(sender.lost.tolist()) <= lost(sender, receiver)
        assert len(sender.lost) == len(set(sender.lost.tolist()))


def test_the_last_packets_are_probed_until_they_are_acknowledged(tmp_path: Path) -> None:
    client, server = exchange(tmp_path, loss=0.5, count=20)
    assert client.largest_acked >= 19
    assert server.largest_acked >= 19


def test_hostile_datagrams_are_counted_and_change_nothing(tmp_path: Path) -> None:
    """Some datagrams come from another port. Others come from the peer's, with invalid content."""
    rng = random.Random(1)
    header = bytes([SHORT_HEADER | NUMBER_LENGTH]) + CONNECTION_ID + bytes(4)
    payloads = [b"", header, *(header + rng.randbytes(rng.randrange(1, 60)) for _ in range(50))]
    quiet = exchange(tmp_path / "quiet")
    client, server = exchange(tmp_path / "attacked", payloads=payloads)
    assert server.invalid == len(payloads)
    for before, after in zip(quiet, (client, server), strict=True):
        assert after.first_bytes.tolist() == before.first_bytes.tolist()
        assert after.received.tolist() == before.received.tolist()


def endpoint() -> QuicEndpoint:
    return QuicEndpoint(Scheme.SQL, np.zeros(1), 1, ("10.0.0.1", 2), is_client=False)


@pytest.mark.parametrize("change", [
    {0: 0xC3}, {0: 0x03}, {0: 0x42}, {1: 0}, {13: 0x1C}, {13: 0x02, 14: 0x09},
])  # fmt: skip
def test_a_packet_of_the_peer_with_invalid_content_is_ignored(change: dict[int, int]) -> None:
    """A wrong first byte or connection ID, an unknown frame, or an ACK of an unsent packet."""
    packet = bytearray([SHORT_HEADER | NUMBER_LENGTH, *CONNECTION_ID, 0, 0, 0, 0, *bytes(20)])
    for at, value in change.items():
        packet[at] = value
    receiver = endpoint()
    assert not receiver._receive_packet(bytes(packet))
    assert not receiver.result().received.size
