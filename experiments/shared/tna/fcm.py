"""FCM-Sketch (CoNEXT 2020): the published TNA program, and a model of its counters.

The program counts packets per source address in two trees. A tree has 2^19 counters of 8 bits. A
full counter overflows into one of 2^16 counters of 16 bits, and these into 2^13 of 32 bits.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.shared.tna.crc import crc32, crc32_mpeg2
from experiments.shared.tna.fetched import compile_fetched
from minip4.engine.engine import Engine
from telemark.session.run import Run

PROGRAM = "fcm_p4/fcm_p416/fcm.p4"
SOURCE = "https://github.com/fcm-project/fcm_p4 (commit 338dffb)"
WIDTHS = (1 << 19, 1 << 16, 1 << 13)  # number of counters per level
FULL = (255, 65_535)  # value of a full counter of the levels 1 and 2
# A level-2 counter is full after the first packet that increments level 3. The table in front of
# level 3 matches only this packet, so level 3 counts no later one.
LIMIT = FULL[0] - 1 + FULL[1]  # the longest flow that the program counts completely
MEMORY_BYTES = 2 * (WIDTHS[0] + 2 * WIDTHS[1] + 4 * WIDTHS[2])
COUNT_MIN_ROWS = 3
ZIPF = 1.1  # exponent of the flow sizes
PACKETS_PER_FLOW = 10  # mean number of packets per flow
BATCH = 100_000  # number of frames per batch
PREFIX = "SwitchIngress.fcmsketch."
HEADER = bytes.fromhex("000000000002000000000001080045000028000000004006000000000000"
                       "c0a80101000100500000000000000000500200000000000000")  # fmt: skip
SOURCE_AT = 26  # offset of the source address in a frame

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class State:
    """Counters of the program: three levels per tree, and the number of counters in use."""

    trees: list[list[Counts]]
    in_use: int

    def differences(self, other: "State") -> int:
        """Return the number of counters that differ."""
        trees = zip(self.trees, other.trees, strict=True)
        levels = [pair for own, others in trees for pair in zip(own, others, strict=True)]
        wrong = sum(int(np.count_nonzero(own != others)) for own, others in levels)
        return wrong + (self.in_use != other.in_use)

    def estimates(self, addresses: NDArray[np.uint32]) -> Counts:
        """Return the estimated size of each flow: the smaller one of both trees."""
        found = [
            _read(tree, leaf) for tree, leaf in zip(self.trees, leaves(addresses), strict=True)
        ]
        return np.minimum(*found)

    def cardinality(self) -> float:
        """Return the estimated number of flows, by linear counting."""
        empty = 1 - self.in_use / 2 / WIDTHS[0]
        return float(-WIDTHS[0] * np.log(empty))


def leaves(addresses: NDArray[np.uint32]) -> list[NDArray[np.int64]]:
    """Return the level-1 counter of each flow, in each tree."""
    messages = addresses.astype(">u4").view(np.uint8).reshape(-1, 4)
    return [(crc(messages) % WIDTHS[0]).astype(np.int64) for crc in (crc32, crc32_mpeg2)]


def model(addresses: NDArray[np.uint32], sizes: Counts) -> State:
    """Return the state of the program after the packets of all flows, in any order."""
    trees = []
    for leaf in leaves(addresses):
        packets = np.bincount(leaf, sizes, WIDTHS[0]).astype(np.int64)
        to_second = np.maximum(packets - (FULL[0] - 1), 0).reshape(-1, 8).sum(axis=1)
        to_third = (to_second >= FULL[1]).reshape(-1, 8).sum(axis=1)
        trees.append([np.minimum(packets, FULL[0]), np.minimum(to_second, FULL[1]), to_third])
    return State(trees, sum(int(np.count_nonzero(tree[0])) for tree in trees))


def cardinality_deviation(flows: int) -> float:
    """Return the standard deviation of the relative error of State.cardinality().

    Linear counting in one tree (Whang et al., 1990); the two trees are independent.
    """
    load = flows / WIDTHS[0]
    return float(np.sqrt(WIDTHS[0] * (np.exp(load) - load - 1) / 2) / flows)


def _read(tree: list[Counts], leaf: NDArray[np.int64]) -> Counts:
    first, second, third = tree[0][leaf], tree[1][leaf >> 3], tree[2][leaf >> 6]
    upper = np.where(second < FULL[1], second, third + FULL[1] - 1)
    return np.where(first < FULL[0], first, upper + FULL[0] - 1)


def count_min(sizes: Counts, random: np.random.Generator) -> Counts:
    """Return the estimates of a Count-Min sketch of the same memory, with random hashes."""
    width = MEMORY_BYTES // 4 // COUNT_MIN_ROWS
    rows = random.integers(0, width, (COUNT_MIN_ROWS, len(sizes)))
    found = [np.bincount(row, sizes, width).astype(np.int64)[row] for row in rows]
    return np.min(found, axis=0)


def relative_error(estimates: Counts, sizes: Counts) -> float:
    """Return the average relative error of the sizes of flows."""
    return float(np.mean(np.abs(estimates - sizes) / sizes))


def trace(flows: int, seed: int) -> tuple[NDArray[np.uint32], Counts, NDArray[np.int64]]:
    """Return addresses and sizes of flows, and the flow of each packet.

    The probability of a flow per packet is Zipf-distributed. Flows without a packet are left out.
    """
    random = np.random.default_rng(seed)
    weights = np.cumsum(1 / np.arange(1, flows + 1) ** ZIPF)
    drawn = random.random(flows * PACKETS_PER_FLOW) * weights[-1]
    packets = np.searchsorted(weights, drawn, side="right")
    _, packets, sizes = np.unique(packets, return_inverse=True, return_counts=True)
    addresses = random.choice(1 << 32, len(sizes), replace=False).astype(np.uint32)
    return addresses, sizes, packets


def run_program(folder: Path, addresses: NDArray[np.uint32], packets: NDArray[np.int64],
                run: Run) -> State:  # fmt: skip
    """Process the packets with the published program, and read its counters."""
    engine = Engine(compile_fetched(folder / PROGRAM, {}, run).bmv2_json)
    names = addresses.astype(">u4").tobytes()
    frames = [HEADER[:SOURCE_AT] + names[at : at + 4] + HEADER[SOURCE_AT + 4 :]
              for at in range(0, len(names), 4)]  # fmt: skip
    for first in range(0, len(packets), BATCH):
        engine.repeat(1, [frames[flow] for flow in packets[first : first + BATCH].tolist()], 1, 0)
    trees = [[_cells(engine, f"sketch_reg_l{level}_d{tree}") for level in (1, 2, 3)]
             for tree in (1, 2)]  # fmt: skip
    state = State(trees, engine.register_read(f"{PREFIX}reg_num_empty", 0))
    engine.close()
    return state


def _cells(engine: Engine, name: str) -> Counts:
    return np.array(engine.register_read_all(PREFIX + name), np.int64)
