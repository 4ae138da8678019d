"""ConQuest: traffic with bursts, ground truth of the queue, and a model of the snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray

from experiments.shared.xdp.streams import Stream, random_flows
from telemark.accounting import pcap
from telemark.network import Network

SNAPSHOTS, ROWS = 8, 2
MAX_AGE = SNAPSHOTS - 2  # age of the oldest snapshot that is read
# lengths of frames (bytes), and fraction of frames with each length
SIZES, SHARES = (100, 700, 1500), (0.4, 0.3, 0.3)
MEAN_BYTES = float(np.dot(SIZES, SHARES))
LOAD = 0.9  # load of the background flows, relative to the rate of the link
FLOWS, ZIPF = 2000, 1.0
BURST_EVERY_US, BURST_US, BURST_FLOWS, BURST_LOAD = 4_000, 1_000, 3, 1.0
QUEUE_PACKETS = 100_000
NUMBER, TOS = slice(42, 46), 15  # offsets in a frame: packet number, TOS
ETHERNET = 14
CE = 3  # ECN value of marked packets


class Link(Topo):
    """h1 - s1 - h2; the queue is in front of the link to h2."""

    def build(self, rate_bps: int) -> None:
        self.addSwitch("s1")
        self.addLink(self.addHost("h1"), "s1")
        out = {"rate_bps": rate_bps, "queue_packets": QUEUE_PACKETS}
        self.addLink("s1", self.addHost("h2"), params1=out)


def traffic(
    rate_bps: float, duration_us: int, slower: int, seed: int
) -> tuple[Stream, NDArray[np.int64]]:
    """Return the packets of background flows and of bursts, and their send times (ns).

    All times are multiplied by `slower`.
    """
    rng = np.random.default_rng([seed, 4])
    shares = 1 / np.arange(1, FLOWS + 1) ** ZIPF
    parts = [_packets(rng, (0, duration_us), LOAD, shares / shares.sum(), rate_bps)]
    for number, start_us in enumerate(range(BURST_EVERY_US // 2, duration_us, BURST_EVERY_US)):
        times, flow = _packets(rng, (start_us, start_us + BURST_US), BURST_LOAD,
                               np.full(BURST_FLOWS, 1 / BURST_FLOWS), rate_bps)  # fmt: skip
        parts.append((times, FLOWS + number * BURST_FLOWS + flow))
    times, numbers = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")
    lengths = rng.choice(SIZES, len(order), p=SHARES)
    flows = random_flows(int(numbers.max()) + 1, rng)
    return Stream(numbers[order], flows, lengths), (times[order] * 1000 * slower).astype(np.int64)


def _packets(
    rng: np.random.Generator, during_us: tuple[int, int], load: float,
    shares: NDArray[np.float64], rate_bps: float,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:  # fmt: skip
    start_us, end_us = during_us
    count = round(load * (end_us - start_us) * rate_bps / 8e6 / MEAN_BYTES)
    return rng.uniform(start_us, end_us, count), rng.choice(len(shares), count, p=shares)


@dataclass(frozen=True)
class Queue:
    """Packets that passed the switch, in order of departure."""

    arrived_ns: NDArray[np.int64]
    left_ns: NDArray[np.int64]
    number: NDArray[np.int64]  # number of the packet in the trace
    is_marked: NDArray[np.bool_]


def read_queue(net: Network) -> Queue:
    """Read the captures of a network that has stopped."""
    came, left = (
        _packets_of(net.capture("s1", host, way)) for host, way in (("h1", "in"), ("h2", "out"))
    )
    arrived = dict(zip(came[1].tolist(), came[0].tolist(), strict=True))
    arrived_ns = np.array([arrived[number] for number in left[1].tolist()], np.int64)
    return Queue(arrived_ns, left[0], left[1], left[2] == CE)


def _packets_of(path: Path) -> tuple[NDArray[np.int64], ...]:
    """Return times, numbers and ECN of the IPv4 packets of a capture."""
    frames = pcap.read(path, 64)
    is_ipv4 = (frames.bytes[:, 12:14] == (8, 0)).all(axis=1)
    numbers = frames.bytes[is_ipv4, NUMBER].copy().view(">u4")[:, 0]
    ecn = frames.bytes[is_ipv4, TOS] & 3
    return frames.time_ns[is_ipv4].astype(np.int64), numbers.astype(np.int64), ecn.astype(np.int64)


def bytes_in_queue(queue: Queue, stream: Stream) -> NDArray[np.int64]:
    """Return for each packet how many bytes of its flow left the queue while it waited.

    Both ends of this time are included, so the packet itself counts.
    """
    first = np.searchsorted(queue.left_ns, queue.arrived_ns, "left")
    flow, sizes = stream.numbers[queue.number], stream.lengths[queue.number] - ETHERNET
    found = np.zeros(len(flow), np.int64)
    for each in np.unique(flow):
        (own,) = np.nonzero(flow == each)
        sums = np.concatenate([[0], np.cumsum(sizes[own])])
        found[own] = sums[1:] - sums[np.searchsorted(own, first[own])]
    return found


def model(
    queue: Queue, stream: Stream, columns: NDArray[np.int64], defines: Mapping[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the cells (snapshots, rows, columns), and which packets are marked.

    `columns` has the columns of each flow, shape (rows, flows).
    """
    width, shift = defines["COLUMNS"], defines["WINDOW_SHIFT"]
    cells = [[[0] * width for _ in range(ROWS)] for _ in range(SNAPSHOTS)]
    left_us, arrived_us = queue.left_ns // 1000, queue.arrived_ns // 1000
    windows = left_us >> shift
    ages = np.minimum(windows - (arrived_us >> shift), MAX_AGE)
    sizes = stream.lengths[queue.number] - ETHERNET
    places = columns[:, stream.numbers[queue.number]]
    estimates = []
    rows = zip(windows.tolist(), ages.tolist(), sizes.tolist(), places.T.tolist(), strict=True)
    for number, (window, age, size, (one, two)) in enumerate(rows):
        first, second = cells[window % SNAPSHOTS]
        first[one] += size
        second[two] += size
        for row in cells[(window + 1) % SNAPSHOTS]:
            row[number % width] = 0
        total = 0
        for back in range(age + 1):
            first, second = cells[(window - back) % SNAPSHOTS]
            total += min(first[one], second[two])
        estimates.append(total)
    is_marked = np.array(estimates) >= defines["HEAVY_BYTES"]
    return np.array(cells), is_marked & (left_us - arrived_us >= defines["MIN_DELAY_US"])
