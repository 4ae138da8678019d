"""Hash functions, a model, and the decoders of FlowRadar (p4src/gallery/flowradar.p4).

A flow is represented by its 13-byte key. Cells are numbered across the sections: those of the first
section come first.
"""

import math
import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from experiments.shared.gallery.switch import read_record
from experiments.shared.xdp.streams import LENGTHS, Stream, random_flows
from telemark.session.run import Run

FILTER_SECTIONS = 20
KEY_BYTES = 13
KEY = np.dtype([("source", ">u4"), ("destination", ">u4"), ("protocol", "u1"),
                ("source_port", ">u2"), ("destination_port", ">u2")])  # fmt: skip
MAX_STEPS = 1000  # maximum number of steps of the solver for counters
STEPS_PER_TEST = 25

PACKETS_PER_FLOW = 2
# Probability of a false positive in the filter: 1/10 of the failure rate of SingleDecode (5.1)
FALSE_POSITIVE = 0.001
# Flows and tables for the memory. In theory (Goodrich and Mitzenmacher, 2011), large tables with
# four hash functions need 1.295 cells per flow; the search starts with values on both sides.
MANY_FLOWS, TABLES, CELLS_PER_FLOW, PRECISION = 100_000, 10, (1.28, 1.32), 2_000

Flows = NDArray[np.bytes_]  # one key per flow


def trace(flows: int, rng: np.random.Generator) -> Stream:
    """Return packets of random flows, in random order. Each flow has at least one packet."""
    more = rng.integers(flows, size=flows * (PACKETS_PER_FLOW - 1))
    numbers = rng.permutation(np.concatenate([np.arange(flows), more]))
    return Stream(numbers, random_flows(flows, rng), rng.choice(LENGTHS, len(numbers)))


def keys(stream: Stream) -> Flows:
    """Return the key of each flow of a trace."""
    found = np.zeros(len(stream.flows), KEY)
    for name in KEY.names or ():
        found[name] = stream.flows[name]
    return found.view(f"S{KEY_BYTES}")


def sizes(flows: Flows, arrived: NDArray[np.int64]) -> dict[bytes, int]:
    """Return the number of packets of each flow, given the flow numbers of all packets."""
    counts = np.bincount(arrived, minlength=len(flows)).tolist()
    return {_key(flow): count for flow, count in zip(flows, counts, strict=True) if count}


class Positions:
    """Random hash functions from flows to positions in sections. The `seed` determines them."""

    def __init__(self, sections: int, seed: int) -> None:
        rng = random.Random(seed)
        self.sections = sections
        self._parameters = [[rng.getrandbits(64) for _ in range(5)] for _ in range(sections)]

    def entries(self, part: str) -> list[fy.P4TableEntry]:
        """Return the entries that set the functions of the sections of a part: table or filter."""
        names = [f"{part}_{number}.position" for number in range(1, self.sections + 1)]
        return [
            fy.P4TableEntry(
                f"{name}.function",
                action=fy.Action(f"{name}.choose", **dict(zip("abcde", each, strict=True))),
                is_default_action=True,
            )
            for name, each in zip(names, self._parameters, strict=True)
        ]

    def of(self, flows: Flows, width: int) -> NDArray[np.int64]:
        """Return the position of each flow in each section of `width` cells: (sections, flows)."""
        key = flows.view(KEY)
        ports = key["source_port"].astype(np.uint64) << np.uint64(16) | key["destination_port"]
        words = [key["source"].astype(np.uint64), key["destination"].astype(np.uint64), ports,
                 key["protocol"].astype(np.uint64)]  # fmt: skip
        half = np.uint64(32)
        with np.errstate(over="ignore"):
            hashed = [
                sum((np.uint64(a) * word for a, word in zip(each, words, strict=False)),
                    np.uint64(each[4])) for each in self._parameters
            ]  # fmt: skip
        return np.array([(each >> half) * np.uint64(width) >> half for each in hashed], np.int64)


@dataclass
class Flowset:
    """Flow filter and counting table, read from a switch or computed by model().

    The decoders remove flows from the counting table.
    """

    table: Positions
    filter: Positions
    bits: NDArray[np.bool_]  # shape: (sections, bits per section)
    flow_xor: NDArray[np.uint8]  # shape: (cells, KEY_BYTES)
    flow_count: NDArray[np.int64]
    packet_count: NDArray[np.int64]

    def differences(self, other: "Flowset") -> int:
        """Return the number of cells and filter bits that differ."""
        cells = (self.flow_xor != other.flow_xor).any(axis=1)
        cells |= self.flow_count != other.flow_count
        cells |= self.packet_count != other.packet_count
        return int(cells.sum() + (self.bits != other.bits).sum())

    def cells(self, flows: Flows) -> NDArray[np.int64]:
        """Return the cells of flows: (sections, flows)."""
        width = len(self.flow_count) // self.table.sections
        return self.table.of(flows, width) + width * np.arange(self.table.sections)[:, None]

    def contains(self, flows: Flows) -> NDArray[np.bool_]:
        """Return whether the flow filter contains each flow."""
        at = self.filter.of(flows, self.bits.shape[1])
        return np.all([bits[each] for bits, each in zip(self.bits, at, strict=True)], axis=0)

    def remove(self, flows: Flows, packets: NDArray[np.int64]) -> None:
        """Remove flows, with their packet counts."""
        data = flows.view(np.uint8).reshape(-1, KEY_BYTES)
        for at in self.cells(flows):
            np.bitwise_xor.at(self.flow_xor, at, data)
            np.subtract.at(self.flow_count, at, 1)
            np.subtract.at(self.packet_count, at, packets)

    def decode(self, found: dict[bytes, int]) -> None:
        """Move flows from cells with one flow to `found`: SingleDecode of the paper."""
        while True:
            pure = np.flatnonzero(self.flow_count == 1)
            data = np.ascontiguousarray(self.flow_xor[pure]).view(f"S{KEY_BYTES}").ravel()
            own = (self.cells(data) == pure).any(axis=0)  # true unless the switch has a fault
            flows, first = np.unique(data[own], return_index=True)
            if not len(flows):
                return
            packets = self.packet_count[pure[own][first]]
            self.remove(flows, packets)
            found.update(zip(map(_key, flows), packets.tolist(), strict=True))


def decode_flows(flowsets: Sequence[Flowset], found: Sequence[dict[bytes, int]]) -> None:
    """Decode the flows of two neighbours: FlowDecode of the paper.

    A flow that was decoded at one switch is removed from the table of the other switch, if the
    filter of that switch contains the flow. The packet counts become approximate, because the
    switches may count different packets.
    """
    missing = -1
    while missing != (missing := sum(int(each.flow_count.sum()) for each in flowsets)):
        for here, there in ((0, 1), (1, 0)):
            new = [flow for flow in found[there] if flow not in found[here]]
            flows = np.array(new, f"S{KEY_BYTES}")
            new_there = flows[flowsets[here].contains(flows)]
            packets = np.array([found[there][_key(flow)] for flow in new_there], np.int64)
            flowsets[here].remove(new_there, packets)
            found[here].update(zip(map(_key, new_there), packets.tolist(), strict=True))
            flowsets[here].decode(found[here])


def decode_counters(flowset: Flowset, found: dict[bytes, int]) -> None:
    """Replace approximate packet counts by exact ones: CounterDecode of the paper.

    No flow has been removed from `flowset`, and `found` has all its flows. Each cell is a linear
    equation. The method of conjugate gradients (CGLS) starts with the approximate counts, and ends
    when the rounded counts fulfil all equations. If there are more flows than cells, the counts
    stay approximate.
    """
    cells = flowset.cells(np.array([*found], f"S{KEY_BYTES}"))
    size = len(flowset.packet_count)
    if not 0 < len(found) <= size:  # there are no counts, or fewer equations than counts
        return

    def sums(counts: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sum([np.bincount(at, counts, size) for at in cells], axis=0)

    counts = np.array([*found.values()], float)
    rest = flowset.packet_count - sums(counts)
    gradient = rest[cells].sum(axis=0)
    step, norm = gradient.copy(), gradient @ gradient
    for number in range(MAX_STEPS):
        rounded = np.rint(counts)
        if number % STEPS_PER_TEST == 0 and (sums(rounded) == flowset.packet_count).all():
            break
        change = sums(step)
        size_of_step = norm / (change @ change)
        counts += size_of_step * step
        rest -= size_of_step * change
        gradient = rest[cells].sum(axis=0)
        norm, last = gradient @ gradient, norm
        step = gradient + norm / last * step
    found.update(zip([*found], np.rint(counts).astype(int).tolist(), strict=True))


def decode(
    tables: Sequence[Flowset], sizes: Sequence[dict[bytes, int]]
) -> tuple[float, float, float, int]:
    """Decode the tables of two neighbours, and compare the flows with `sizes` (flow -> packets).

    Return three fractions of the flows, as means over both switches: found by SingleDecode, found
    by FlowDecode, and with exact counts after NetDecode. Also return how many flows that
    SingleDecode finds did not pass. To this number, each switch adds 1 if SingleDecode finds the
    right number of flows, but wrong flows or counts.
    """
    rest = deepcopy(tables)
    found: list[dict[bytes, int]] = [{}, {}]
    for each, known in zip(rest, found, strict=True):
        each.decode(known)
    single = [len(known) / len(size) for known, size in zip(found, sizes, strict=True)]
    wrong = sum(
        len(known.keys() - size.keys()) + (len(known) == len(size) and known != size)
        for known, size in zip(found, sizes, strict=True)
    )
    decode_flows(rest, found)
    both = [len(known) / len(size) for known, size in zip(found, sizes, strict=True)]
    for table, each, known in zip(tables, rest, found, strict=True):
        if not each.flow_count.any():
            decode_counters(table, known)
    counted = [
        len(known.items() & size.items()) / len(size)
        for known, size in zip(found, sizes, strict=True)
    ]
    return float(np.mean(single)), float(np.mean(both)), float(np.mean(counted)), wrong


async def read(
    switch: fy.Switch, table: Positions, filter_: Positions, cells: int, words: int
) -> Flowset:
    """Read the tables of a switch, with `cells` and `words` per section."""
    rows = np.concatenate([await read_record(switch, 1 + n, cells) for n in range(table.sections)])
    filters = [await read_record(switch, 101 + n, words // 4) for n in range(FILTER_SECTIONS)]
    data = np.stack([each[:, :4].ravel() for each in filters]).astype("<u8").view(np.uint8)
    bits = np.unpackbits(data, axis=1, bitorder="little").astype(bool)
    flows = rows[:, [1, 0]].astype(">u8", order="C").view(np.uint8)[:, -KEY_BYTES:]
    counts = rows[:, 2:4].astype(np.int64)
    return Flowset(table, filter_, bits, flows, counts[:, 0], counts[:, 1])


def model(
    arrived: NDArray[np.int64], flows: Flows, functions: tuple[Positions, Positions],
    cells: int, bits: int,
) -> Flowset:  # fmt: skip
    """Return the flowset of a switch at which packets of these flow numbers arrived, in order.

    `functions` are those of the table and of the filter. `cells` and `bits` are sizes of a section.
    """
    table, filter_ = functions
    numbers, first, counts = np.unique(arrived, return_index=True, return_counts=True)
    at = filter_.of(flows[numbers], bits)
    # index of the first packet that sets the bit
    order = np.full((FILTER_SECTIONS, bits), len(arrived))
    for row, each in zip(order, at, strict=True):
        np.minimum.at(row, each, first)
    is_new = np.any(np.take_along_axis(order, at, axis=1) == first, axis=0)
    made = Flowset(
        table, filter_, order < len(arrived),
        np.zeros((table.sections * cells, KEY_BYTES), np.uint8),
        *np.zeros((2, table.sections * cells), np.int64),
    )  # fmt: skip
    data = flows.view(np.uint8).reshape(-1, KEY_BYTES)
    for cell in made.cells(flows[numbers]):
        np.bitwise_xor.at(made.flow_xor, cell[is_new], data[numbers[is_new]])
        np.add.at(made.flow_count, cell[is_new], 1)
        np.add.at(made.packet_count, cell, counts)
    return made


def _key(flow: np.bytes_) -> bytes:
    """Return all bytes of a key: numpy leaves out zeros at the end."""
    return bytes(flow).ljust(KEY_BYTES, b"\0")


def filter_bits(flows: int, probability: float, functions: int = FILTER_SECTIONS) -> int:
    """Return the size of the flow filter, by the equation in section 4.3 of the paper.

    `probability` is that of at least one false positive. `functions` is the number of hashes.
    """
    number = np.arange(1, flows)
    least, most = 0, 100 * flows
    while most - least > 1:
        bits = (least + most) // 2
        wrong = (1 - np.exp(-functions * number / bits)) ** functions
        if -np.expm1(np.log1p(-wrong).sum()) > probability:
            least = bits
        else:
            most = bits
    return most


def fewest_cells(flows: Flows, functions: Positions) -> float:
    """Return the size of the smallest counting table from which SingleDecode finds these flows."""
    least, most = (int(each * len(flows)) // functions.sections for each in CELLS_PER_FLOW)
    while most - least > most // PRECISION:
        width = (least + most) // 2
        if is_decodable(functions.of(flows, width), width):
            most = width
        else:
            least = width
    return (least + most) / 2 * functions.sections


def is_decodable(positions: NDArray[np.int64], width: int) -> bool:
    """Return whether SingleDecode finds all flows at these positions: (sections, flows)."""
    cells = positions + width * np.arange(len(positions))[:, None]
    counts = np.bincount(cells.ravel(), minlength=width * len(positions))
    flows = np.zeros(len(counts), np.int64)  # sum of the flow numbers in each cell
    for each in cells:
        np.add.at(flows, each, np.arange(positions.shape[1]))
    pure = np.flatnonzero(counts == 1)
    while len(pure):
        found = np.unique(flows[pure])
        removed = cells[:, found]
        np.subtract.at(counts, removed, 1)
        np.subtract.at(flows, removed, np.broadcast_to(found, removed.shape))
        touched = np.unique(removed)
        pure = touched[counts[touched] == 1]
    return not counts.any()


async def memory_mb(run: Run) -> float:
    """Return the memory for MANY_FLOWS: a filter, and the smallest table that can be decoded.

    The size of the table is the mean for TABLES traces.
    """
    cells = []
    for number in range(TABLES):
        made = trace(MANY_FLOWS, np.random.default_rng([run.seed, number + 1]))
        positions = Positions(4, TABLES * run.seed + number)
        cells.append(fewest_cells(keys(made), positions))
    cell_bits = 8 * KEY_BYTES + math.ceil(math.log2(MANY_FLOWS)) + 32
    bits = min(filter_bits(MANY_FLOWS, FALSE_POSITIVE, k) for k in range(22, 27))
    return (float(np.mean(cells)) * cell_bits + bits) / 8e6
