"""RTTs in the data plane (SPIN 2020): the published TNA program, and a model of its tables.

The program stores the signature and time of each data packet in one of two tables, and removes it
when the ACK arrives. A stored packet that is older than 50 ms may be overwritten.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.shared.tna.crc import crc16, crc32
from experiments.shared.tna.fetched import compile_fetched
from minip4.engine.engine import Engine
from telemark.session.run import Run

PROGRAM = "p4-projects/RTT-tofino/p4src/RTT.p4"
SOURCE = "https://github.com/Princeton-Cabernet/p4-projects (commit e5c7cca)"
CELLS = 1 << 16  # number of cells per table
TABLES = 2
MEMORY_MB = TABLES * CELLS * 8 / (1 << 20)
EXPIRY_NS, MAX_RTT_NS = 50_000_000, 2_000_000_000
STORED, UNMATCHED, SAMPLE = 1, 2, 3  # verdicts, which the program writes as source MAC address

SEGMENT_BYTES = 1000  # payload of a data packet
PACKETS_PER_FLOW = 100  # mean number of data packets per flow
SEGMENTS_PER_ACK = 2
# median and sigma of RTTs, which have a log-normal distribution
MEDIAN_RTT_S, RTT_SIGMA = 0.02, 1.0
START_S, COUNTED_S = 0.1, 0.3  # samples count after START_S, and until the same time before the end
FRAME = np.dtype([
    ("macs", "u1", 12), ("type", ">u2"), ("version", "u1"), ("tos", "u1"), ("length", ">u2"),
    ("rest", "u1", 5), ("protocol", "u1"), ("sum", ">u2"), ("source", ">u4"),
    ("destination", ">u4"), ("sport", ">u2"), ("dport", ">u2"), ("sequence", ">u4"),
    ("ack", ">u4"), ("offset", "u1"), ("flags", "u1"), ("tail", "u1", 6),
])  # fmt: skip
HEADERS_BYTES = 40
ACK_FLAG = 0x10


@dataclass(frozen=True)
class Trace:
    """Packets in order of time. A data packet and its ACK have the same signature."""

    times_ns: NDArray[np.int64]
    is_ack: NDArray[np.bool_]
    number: NDArray[np.int64]  # number of the data packet, also of the one that an ACK belongs to
    data_times_ns: NDArray[np.int64]  # times of the data packets, by packet number
    frames: list[bytes]
    keys: NDArray[np.uint8]  # (packets, 16) flow and acknowledged number


@dataclass(frozen=True)
class State:
    """Signatures and times in both tables, and the verdict of each packet."""

    tables: NDArray[np.int64]  # shape: (tables, cells, 2)
    verdicts: NDArray[np.int64]

    def differences(self, other: "State") -> int:
        """Return the number of cells and verdicts that differ."""
        cells = (self.tables != other.tables).any(axis=2)
        return int(np.count_nonzero(cells) + np.count_nonzero(self.verdicts != other.verdicts))


def trace(rate_bps: float, seed: int) -> Trace:
    """Return the packets of many flows that together send data at a rate."""
    random = np.random.default_rng(seed)
    duration = COUNTED_S + 2 * START_S
    count = round(rate_bps * duration / 8 / SEGMENT_BYTES)
    flows = max(1, count // PACKETS_PER_FLOW)
    times = np.sort(random.integers(1, round(duration * 1e9), count))
    flow = random.integers(0, flows, count)
    order = np.argsort(flow, kind="stable")
    firsts = np.searchsorted(flow[order], np.arange(flows))
    position = np.empty(count, np.int64)  # position of a packet in its flow
    position[order] = np.arange(count) - firsts[flow[order]]
    rtts = MEDIAN_RTT_S * np.exp(RTT_SIGMA * random.standard_normal(flows))
    jitter = random.random(count) * 1e-6  # different times of ACKs
    (acked,) = np.nonzero(position % SEGMENTS_PER_ACK == SEGMENTS_PER_ACK - 1)
    ack_times = times[acked] + np.round((rtts[flow[acked]] + jitter[acked]) * 1e9).astype(np.int64)
    number = np.concatenate([np.arange(count), acked])
    is_ack = np.arange(len(number)) >= count
    all_times = np.concatenate([times, ack_times])
    by_time = np.argsort(all_times, kind="stable")
    number, is_ack = number[by_time], is_ack[by_time]
    servers = random.choice(1 << 32, flows, replace=False)
    clients = random.choice(1 << 32, flows, replace=False)
    ports = random.integers(1024, 1 << 16, flows)
    expected = (position + 1) * SEGMENT_BYTES
    ends = servers[flow[number]], clients[flow[number]], ports[flow[number]], expected[number]
    frames, keys = _packets(*ends, is_ack)
    return Trace(all_times[by_time], is_ack, number, times, frames, keys)


def _packets(
    servers: NDArray[np.int64], clients: NDArray[np.int64], ports: NDArray[np.int64],
    expected: NDArray[np.int64], is_ack: NDArray[np.bool_],
) -> tuple[list[bytes], NDArray[np.uint8]]:  # fmt: skip
    """Return the headers of packets, and the flow and number that each belongs to."""
    made = np.zeros(len(expected), FRAME)
    made["type"], made["version"], made["protocol"] = 0x800, 0x45, 6
    made["offset"], made["flags"] = 0x50, ACK_FLAG
    made["length"] = HEADERS_BYTES + np.where(is_ack, 0, SEGMENT_BYTES)
    made["source"] = np.where(is_ack, clients, servers)
    made["destination"] = np.where(is_ack, servers, clients)
    made["sport"] = np.where(is_ack, ports, 443)
    made["dport"] = np.where(is_ack, 443, ports)
    made["sequence"] = np.where(is_ack, 0, expected - SEGMENT_BYTES)
    made["ack"] = np.where(is_ack, expected, 0)
    data = made.tobytes()
    frames = [data[at : at + FRAME.itemsize] for at in range(0, len(data), FRAME.itemsize)]
    ends = [values.astype(kind) for values, kind in (
        (servers, ">u4"), (clients, ">u4"), (np.full(len(ports), 443), ">u2"), (ports, ">u2"),
        (expected, ">u4"),
    )]  # fmt: skip
    keys = np.concatenate([each.view(np.uint8).reshape(len(each), -1) for each in ends], axis=1)
    return frames, keys


def cells_of(keys: NDArray[np.uint8]) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Return the signature of each key, and its cell in each table."""
    bits = np.unpackbits(keys, axis=1)
    addresses, ports = bits[:, :64], bits[:, 64:]
    zeros = np.zeros((len(keys), 4), np.uint8)
    one = np.tile(np.array([0, 1], np.uint8), (len(keys), 1))
    first = np.concatenate([zeros, bits, zeros], axis=1)
    # two bits of padding in front make whole bytes
    second = np.concatenate([zeros[:, :2], one, addresses, one, ports, one], axis=1)
    cells = [crc16(np.packbits(first, axis=1)), crc32(np.packbits(second, axis=1))]
    return crc32(keys).astype(np.int64), [(each % CELLS).astype(np.int64) for each in cells]


def model(packets: Trace) -> State:
    """Return the state of the program after these packets."""
    signatures, cells = cells_of(packets.keys)
    tables = [[(0, 0)] * CELLS for _ in range(TABLES)]
    verdicts = []
    rows = zip(packets.times_ns.tolist(), packets.is_ack.tolist(), signatures.tolist(),
               *(each.tolist() for each in cells), strict=True)  # fmt: skip
    for now, is_ack, signature, *places in rows:
        now %= 1 << 32
        verdict = UNMATCHED if is_ack else STORED
        for table, place in zip(tables, places, strict=True):
            stored, since = table[place]
            age = (now - since) % (1 << 32)
            if is_ack:
                if stored == signature and age < MAX_RTT_NS:
                    table[place] = 0, 0
                    verdict = SAMPLE
                    break
            elif not stored or age > EXPIRY_NS:
                table[place] = signature, now
                break
        verdicts.append(verdict)
    return State(np.array(tables), np.array(verdicts))


def run_program(folder: Path, packets: Trace, run: Run) -> State:
    """Process packets with the published program, and read its tables and verdicts."""
    engine = Engine(compile_fetched(folder / PROGRAM, {}, run).bmv2_json)
    verdicts = []
    for time_ns, frame in zip(packets.times_ns.tolist(), packets.frames, strict=True):
        ((_, left),) = engine.process(1, frame, time_ns)
        verdicts.append(int.from_bytes(left[6:12], "big"))
    tables = [[(cell >> 32, cell & 0xFFFFFFFF) for cell in
               engine.register_read_all(f"SwitchIngress.reg_table_{number + 1}")]
              for number in range(TABLES)]  # fmt: skip
    engine.close()
    return State(np.array(tables), np.array(verdicts))


def captured(packets: Trace, verdicts: NDArray[np.int64]) -> tuple[int, int]:
    """Return how many RTT samples the program took, and how many were available."""
    sent_ns = packets.data_times_ns[packets.number]
    counted = packets.is_ack & (sent_ns >= START_S * 1e9)
    counted &= sent_ns < (START_S + COUNTED_S) * 1e9
    return int(np.count_nonzero(verdicts[counted] == SAMPLE)), int(np.count_nonzero(counted))
