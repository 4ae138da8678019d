"""ConQuest (CoNEXT 2019): the published TNA program, and a model of its snapshots.

A snapshot is a Count-Min sketch of the bytes per flow that left the queue within a window of time.
At each time, one snapshot is cleaned, one counts, and the others are read. If a packet waited long,
the program adds up the bytes of its flow in the snapshots of its waiting time. Packets of flows
with many bytes in the queue get an ECN mark.

The published template exchanges two indices. Packets count and read at the index for cleaning,
which any packet increments. They clean at the index that is the hash of their flow. So the program
cannot estimate the bytes of a flow. With `is_repaired`, the generated program uses each index for
its purpose.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import finsy as fy
import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray

from controllers.connection import connection
from experiments.shared.tna.crc import crc32
from experiments.shared.tna.fetched import compile_fetched
from telemark.accounting import pcap
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run

FOLDER = "p4-projects/ConQuest-tofino"
PROGRAM = f"{FOLDER}/p4src/conquest.p4template"
GENERATOR = f"{FOLDER}/py/p4gen.py"
SNAPSHOTS, ROWS = 8, 2
WINDOW_NS = 1 << 15
COLUMN_BYTES = SNAPSHOTS * ROWS * 4
THRESHOLD = 64 << 10  # bytes of a flow in the queue
MIN_DELAY_NS = 2 * WINDOW_NS  # only packets that wait longer are marked
DELAY_BITS = 18
ECT, CE = 2, 3  # ECN values

NS_PER_100_BYTES = 4  # transmission time of 100 bytes on a link of 200 Gb/s
# lengths of frames (bytes), and fraction of frames with each length
SIZES, SHARES = (100, 700, 1500), (0.4, 0.3, 0.3)
LOAD = 0.9  # load of the background flows, relative to the rate of the link
FLOWS, ZIPF = 2000, 1.0
BURST_EVERY_NS, BURST_NS, BURST_FLOWS = 800_000, 100_000, 3
BURST_LOAD = 1.0
DURATION_NS = 2_400_000
ETHERNET = 14
HEADER = np.dtype([
    ("macs", "u1", 12), ("type", ">u2"), ("version", "u1"), ("ecn", "u1"), ("length", ">u2"),
    ("rest", "u1", 5), ("protocol", "u1"), ("sum", ">u2"), ("source", ">u4"),
    ("destination", ">u4"), ("sport", ">u2"), ("dport", ">u2"), ("tail", "u1", 16),
])  # fmt: skip
LEAD_NS = WINDOW_NS * SNAPSHOTS * 400  # a whole number of rounds
NEXT_HOP = 0x0A000002  # destination address of all packets
_SEED = re.compile(r"(\d+)w(\d+),")
_ACTION = re.compile(r"action (snap_\d+_select_index_)(hash|cyclic)\(\)")
_OTHER = {"hash": "cyclic", "cyclic": "hash"}
# the generator draws random numbers without a seed
_GENERATE = """
import random, runpy, sys
random.seed(1)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_HASH = re.compile(r"hash_(\d+)_TCP\.get\(\{(.*?)\}\)", re.DOTALL)


@dataclass(frozen=True)
class Trace:
    """Packets in order of time."""

    times_ns: NDArray[np.int64]
    sizes: NDArray[np.int64]  # lengths of the frames
    flow: NDArray[np.int64]
    sources: NDArray[np.int64]  # address of each flow
    ports: NDArray[np.int64]  # source port of each flow

    def departures_ns(self) -> NDArray[np.int64]:
        """Return when each packet leaves the queue."""
        wire_ns = self.sizes * NS_PER_100_BYTES // 100
        ends = np.cumsum(wire_ns)
        # For each packet, subtract the transmission times of all earlier packets from its arrival
        # time. Up to each packet, the queue was last empty when the packet with the largest
        # difference arrived.
        return np.maximum.accumulate(self.times_ns - (ends - wire_ns)) + ends - wire_ns


@dataclass(frozen=True)
class State:
    """Cells of all snapshots, and which packets were marked."""

    cells: NDArray[np.int64]  # (snapshots, rows, columns)
    marked: NDArray[np.bool_]

    def differences(self, other: "State") -> int:
        """Return the number of cells and marks that differ."""
        return int(np.count_nonzero(self.cells != other.cells)
                   + np.count_nonzero(self.marked != other.marked))  # fmt: skip


def trace(seed: int) -> Trace:
    """Return packets of background flows, and of flows that send bursts."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, FLOWS + 1) ** ZIPF
    parts = [_packets(rng, (0, DURATION_NS), LOAD, weights / weights.sum(), 0)]
    bursts = range(BURST_EVERY_NS // 2, DURATION_NS, BURST_EVERY_NS)
    for number, start_ns in enumerate(bursts):
        first = FLOWS + number * BURST_FLOWS
        equal = np.full(BURST_FLOWS, 1 / BURST_FLOWS)
        during = (start_ns, start_ns + BURST_NS)
        parts.append(_packets(rng, during, BURST_LOAD, equal, first))
    times, sizes, flow = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")
    count = FLOWS + len(bursts) * BURST_FLOWS
    sources = rng.choice(1 << 32, count, replace=False)
    return Trace(times[order], sizes[order], flow[order], sources, rng.integers(1, 1 << 16, count))


def _packets(
    rng: np.random.Generator, during_ns: tuple[int, int], load: float,
    shares: NDArray[np.float64], first_flow: int,
) -> tuple[NDArray[np.int64], ...]:  # fmt: skip
    mean = float(np.dot(SIZES, SHARES))
    start_ns, end_ns = during_ns
    count = round(load * (end_ns - start_ns) * 100 / NS_PER_100_BYTES / mean)
    times = np.sort(rng.integers(start_ns, end_ns, count))
    flow = first_flow + rng.choice(len(shares), count, p=shares)
    return times, rng.choice(SIZES, count, p=SHARES), flow


def headers(packets: Trace) -> NDArray[np.void]:
    """Return the headers of the packets."""
    made = np.zeros(len(packets.flow), HEADER)
    made["type"], made["version"], made["ecn"], made["protocol"] = 0x800, 0x45, ECT, 6
    made["length"] = packets.sizes - ETHERNET
    made["source"], made["destination"] = packets.sources[packets.flow], NEXT_HOP
    made["sport"], made["dport"] = packets.ports[packets.flow], 443
    return made


def generate(programs: Path, folder: Path, columns: int, *, is_repaired: bool) -> Path:
    """Generate the program with the published generator. Its random numbers are fixed."""
    path = folder / f"conquest-{columns}{'-repaired' if is_repaired else ''}.p4"
    sizes = {"-H": SNAPSHOTS, "-R": ROWS, "-C": columns, "-T": WINDOW_NS}
    words = [programs / GENERATOR, programs / PROGRAM, path,
             *(word for size in sizes.items() for word in size)]  # fmt: skip
    done = subprocess.run([sys.executable, "-c", _GENERATE, *map(str, words)], text=True,
                          capture_output=True, check=False)  # fmt: skip
    if done.returncode:
        raise TestbedError(f"{words[0]}: {done.stderr.strip().splitlines()[-1]}")
    if is_repaired:
        path.write_text(repaired(path.read_text()))
    return path


def repaired(text: str) -> str:
    """Exchange the two actions that select an index."""
    return _ACTION.sub(lambda found: f"action {found[1]}{_OTHER[found[2]]}()", text)


def columns_of(text: str, packets: Trace, columns: int) -> NDArray[np.int64]:
    """Return the column of each packet's flow in each row; `text` is the generated program."""
    made = headers(packets)
    fields = [made[name].copy().view(np.uint8).reshape(len(made), -1)
              for name in ("source", "destination", "sport", "dport")]  # fmt: skip
    found = {}
    for row, body in _HASH.findall(text):
        bits = []
        for (width, value), field in zip(_SEED.findall(body), fields, strict=True):
            seed = np.array([int(bit) for bit in f"{int(value):0{width}b}"], np.uint8)
            bits += [np.tile(seed, (len(made), 1)), np.unpackbits(field, axis=1)]
        joined = np.concatenate(bits, axis=1)
        padding = np.zeros((len(made), -joined.shape[1] % 8), np.uint8)
        messages = np.packbits(np.concatenate([padding, joined], axis=1), axis=1)
        found[int(row)] = crc32(messages).astype(np.int64) % columns
    return np.array([found[row] for row in range(ROWS)])


def model(packets: Trace, hashed: NDArray[np.int64], columns: int, *, is_repaired: bool) -> State:
    """Return the state of the program after the packets. `hashed` is the result of columns_of()."""
    cells = [[[0] * columns for _ in range(ROWS)] for _ in range(SNAPSHOTS)]
    left = packets.departures_ns()
    delays = (left - packets.times_ns) % (1 << DELAY_BITS)
    epochs = left // WINDOW_NS % SNAPSHOTS  # run_program() starts at epoch 0
    marked = []
    rows = zip(epochs.tolist(), delays.tolist(), (packets.sizes - ETHERNET).tolist(),
               zip(*hashed.tolist(), strict=True), strict=True)  # fmt: skip
    for number, (epoch, delay, size, hashes) in enumerate(rows):
        cyclic = (number % columns,) * ROWS
        of_flow, of_cleaning = (hashes, cyclic) if is_repaired else (cyclic, hashes)
        for row, place in enumerate(of_cleaning):
            cells[epoch][row][place] = 0
        counting = cells[epoch - 1]
        for row, place in enumerate(of_flow):
            counting[row][place] += size
        total = 0
        for age in range(min(delay // WINDOW_NS, SNAPSHOTS - 2) + 1):
            snapshot = cells[(epoch - 1 - age) % SNAPSHOTS]
            total += min(snapshot[row][place] for row, place in enumerate(of_flow))
        marked.append(total >= THRESHOLD and delay >= MIN_DELAY_NS)
    return State(np.array(cells), np.array(marked))


def heavy(packets: Trace) -> NDArray[np.bool_]:
    """Return which packets wait long, and belong to a flow with many bytes in the queue.

    These are the bytes that leave the queue from the arrival of the packet to its own departure.
    """
    left = packets.departures_ns()
    first = np.searchsorted(left, packets.times_ns, "right")
    found = np.zeros(len(left), np.bool_)
    for flow in np.unique(packets.flow):
        (own,) = np.nonzero(packets.flow == flow)
        sums = np.concatenate([[0], np.cumsum(packets.sizes[own] - ETHERNET)])
        found[own] = sums[1:] - sums[np.searchsorted(own, first[own])] >= THRESHOLD
    return found & (left - packets.times_ns >= MIN_DELAY_NS)


class Link(Topo):
    """h1 - s1 - h2; the queue is in front of the link to h2."""

    def build(self) -> None:
        self.addSwitch("s1")
        self.addLink(self.addHost("h1"), "s1")
        rate_bps = 800 * 10**9 // NS_PER_100_BYTES
        self.addLink("s1", self.addHost("h2"), rate_bps=rate_bps, queue_packets=1_000_000)


async def run_program(program: Path, packets: Trace, run: Run) -> State:
    """Send the packets through the program. Return its cells, and which packets it marked."""
    compile_fetched(program, {}, run)
    frames = [
        header.tobytes() + bytes(size - HEADER.itemsize)
        for header, size in zip(headers(packets), packets.sizes.tolist(), strict=True)
    ]
    start_ns = run.clock.now_ns()
    start_ns += LEAD_NS - start_ns % (WINDOW_NS * SNAPSHOTS)
    with Network(Link(), run, program=program, name=program.stem) as net:
        port = net.port("s1", "h2")
        async with connection(net, "s1") as switch:
            await switch.insert(entries(port))
            net.send_frames("h1", (start_ns + packets.times_ns).tolist(), frames)
            await run.clock.sleep_until(start_ns + DURATION_NS + LEAD_NS)
            cells = await read_cells(switch)
    sent = pcap.read(net.capture("s1", "h2", "out"), HEADER.itemsize)
    return State(cells, sent.bytes[:, ETHERNET + 1] & 3 == CE)


async def read_cells(switch: fy.Switch) -> NDArray[np.int64]:
    """Return the cells of all snapshots."""
    found = []
    for number in range(SNAPSHOTS * ROWS):
        register = fy.P4RegisterEntry(f"snap_{number // ROWS}_row_{number % ROWS}")
        # finsy declares read() as a coroutine in its overloads, but it is an async generator
        read = switch.read([register])
        found.append([entry.data async for entry in read])  # type: ignore[attr-defined]
    return np.array(found).reshape(SNAPSHOTS, ROWS, -1)


def entries(port: int) -> list[fy.P4TableEntry]:
    """Return the entries of the program: one route, and marks in packets of heavy flows."""
    estimate = f"snap_0_read_min_l{SNAPSHOTS.bit_length() - 1}[26:10]"
    to_mark = {
        f"eg_md.{estimate}": (THRESHOLD >> 10, (1 << 17) - 1),
        "eg_md.q_delay": (MIN_DELAY_NS, (1 << DELAY_BITS) - 1),
        "hdr.ipv4.ecn": ECT,
    }
    return [
        fy.P4TableEntry("tb_route_ipv4", match=fy.Match({"hdr.ipv4.dst_addr": NEXT_HOP}),
                        action=fy.Action("route_to_port", port=port)),
        fy.P4TableEntry("tb_gatekeeper", match=fy.Match({"eg_intr_md.egress_port": port}),
                        action=fy.Action("run_conquest")),
        fy.P4TableEntry("tb_per_flow_action", match=fy.Match(to_mark), priority=1,
                        action=fy.Action("mark_ECN")),
    ]  # fmt: skip
