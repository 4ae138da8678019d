"""Ground truth of a stream: which of its packets arrived at the observer, and at the receiver.

Records of the endpoints show the bits of each packet. A capture at the port of the observer shows
which packets arrived there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from controllers.explicit import Connection, Direction
from telemark.accounting import pcap
from telemark.apps.explicit_bits import FIRST, SECOND, SPIN, Scheme
from telemark.apps.quic import CONNECTION_ID, NUMBER_BYTES, QuicRecord

PORTS, PAYLOAD = 34, 42  # offsets in a frame
NUMBER = PAYLOAD + 1 + len(CONNECTION_ID)


@dataclass(frozen=True)
class Square:
    """Complete blocks of a square wave, and those of their packets that arrived at the observer."""

    blocks: int
    packets: int
    is_exact: bool  # whether an observer must count exactly these blocks and packets


@dataclass(frozen=True)
class StreamTruth:
    """Ground truth of one stream."""

    sent: int
    arrived: int  # packets that arrived at the observer
    delivered: int  # packets that arrived at the receiver
    square: Square  # square wave of the first bit; empty for schemes without a square bit
    reflection: Square  # square wave of the second bit; empty for schemes without a reflection bit
    detected: int  # packets that the sender has detected as lost
    spurious: int  # packets detected as lost that the receiver got
    undetected: int  # lost packets that were not detected, up to the last acknowledged packet
    unreported: int  # detected losses that the sender has not yet reported
    marked: int  # packets that the sender sent with the second bit
    marked_arrived: int  # packets with the second bit that arrived at the observer
    foreign: int  # arrivals at the observer or the receiver that the sender did not send
    idle_ns: NDArray[np.int64]  # idle time of both hosts in each spin period, see spin_idle_ns()

    @property
    def upstream_loss(self) -> float:
        return 1 - self.arrived / self.sent

    @property
    def end_to_end_loss(self) -> float:
        return 1 - self.delivered / self.sent


def read_truth(
    capture: Path, connection: Connection, direction: Direction,
    records: Mapping[Direction, QuicRecord],
) -> StreamTruth:  # fmt: skip
    """Return the ground truth of a stream.

    `capture` has the frames that arrived at the observer. `records` are those of both endpoints, by
    the direction in which they send. Packets that were never sent only count as foreign.
    """
    record, receiver = records[direction], records[Direction(1 - direction)]
    sent = len(record.first_bytes)
    arrived, delivered = np.zeros(sent, bool), np.zeros(sent, bool)
    at_observer = read_numbers(capture, connection, direction)
    numbers = at_observer[at_observer < sent]
    received = receiver.received[receiver.received < sent]
    foreign = len(at_observer) - len(numbers) + len(receiver.received) - len(received)
    arrived[numbers] = True
    delivered[received] = True
    first, second = (record.first_bytes & bit != 0 for bit in (FIRST, SECOND))
    none, limits = Square(0, 0, True), (connection.threshold, connection.block)
    has_square = connection.scheme in (Scheme.SQL, Scheme.SQR)
    detected = np.zeros(sent, bool)
    detected[record.lost] = True
    known = np.arange(sent) < record.largest_acked
    return StreamTruth(
        sent, int(arrived.sum()), int(delivered.sum()),
        square_truth(first, numbers, *limits) if has_square else none,
        square_truth(second, numbers, *limits) if connection.scheme == Scheme.SQR else none,
        len(record.lost),
        int((detected & delivered).sum()),
        int((known & ~detected & ~delivered).sum()),
        record.unreported,
        int(second.sum()),
        int((second & arrived).sum()),
        foreign + receiver.invalid,
        spin_idle_ns(record, receiver),
    )  # fmt: skip


def read_numbers(capture: Path, connection: Connection, direction: Direction) -> NDArray[np.int64]:
    """Return the packet numbers of a stream in a capture, in the order of arrival."""
    frames = pcap.read(capture)
    ends = connection.client, connection.server
    source, destination = ends if direction == Direction.TO_SERVER else ends[::-1]
    wanted = [*source[1].to_bytes(2, "big"), *destination[1].to_bytes(2, "big")]
    ours = (frames.bytes[:, PORTS : PORTS + 4] == wanted).all(axis=1)
    digits = frames.bytes[ours, NUMBER : NUMBER + NUMBER_BYTES].copy()
    return digits.view(">u4")[:, 0].astype(np.int64)


def spin_idle_ns(sender: QuicRecord, peer: QuicRecord) -> NDArray[np.int64]:
    """Return for how long both hosts had nothing to send, in each spin period of a stream.

    A spin period of the stream lies between two spin edges that `sender` sends. In this time, one
    edge passes in each direction, so the period is the RTT plus this idle time. The result is valid
    only if all packets arrive in order.
    """
    sent_ns, waited_ns = _spin_edges(sender, peer)
    peer_sent_ns, peer_waited_ns = _spin_edges(peer, sender)
    if not len(peer_sent_ns):
        return peer_sent_ns
    cause = np.searchsorted(peer_sent_ns, sent_ns[1:]) - 1  # the last edge that the peer has sent
    return waited_ns[1:] + peer_waited_ns[cause]


def _spin_edges(host: QuicRecord, peer: QuicRecord) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when a host sent its spin edges, and how long after the arrivals that caused them.

    The first packet that arrives also causes an edge of the client. Edges caused only by packets
    that the peer has not sent are left out.
    """
    sent_ns = host.sent_ns[1:][np.diff(host.first_bytes & SPIN != 0)]
    known = host.received < len(peer.first_bytes)
    spin = peer.first_bytes[host.received[known]] & SPIN != 0
    changed_ns = host.received_ns[known][np.diff(spin, prepend=~spin[:1])]
    cause = np.searchsorted(changed_ns, sent_ns, side="right") - 1
    sent_ns, cause = sent_ns[cause >= 0], cause[cause >= 0]
    return sent_ns, sent_ns - changed_ns[cause]


def square_truth(
    value: NDArray[np.bool_], numbers: NDArray[np.int64], threshold: int, length: int
) -> Square:
    """Return the complete blocks of a square wave, except the first one.

    `value` has an element per sent packet, and `numbers` are the packets in the order of arrival. A
    block is complete when the first packet of a later block and `threshold` others have arrived.
    An observer must count the same blocks and packets if no packet arrives after its block is
    complete, and if more than `threshold`, but at most `length` packets of each block arrive.
    """
    block_of = np.cumsum(np.diff(value, prepend=value[:1]))
    blocks = block_of[numbers]
    counts = np.bincount(blocks, minlength=block_of[-1] + 1)
    later = len(numbers) - np.cumsum(counts)
    complete = later > threshold
    complete[0] = False
    first_of_later = np.searchsorted(np.maximum.accumulate(blocks), blocks, side="right")
    lateness = np.arange(len(blocks)) - first_of_later
    is_exact = (
        lateness.max(initial=0) <= threshold
        and counts[:-1].min(initial=length) > threshold
        and counts.max() <= length
    )
    return Square(int(complete.sum()), int(counts[complete].sum()), bool(is_exact))
