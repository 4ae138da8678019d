"""Queries of Sonata, their plans for p4src/gallery/sonata.p4, and a trace with attacks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from ebpf.statistics.offer import ROW
from experiments.shared.gallery import traces
from experiments.shared.xdp.streams import Stream

TCP, SSH = 6, 22
SYN, ACK, PUSH, FIN = 0x02, 0x10, 0x08, 0x01
# flags of packets without an attack, and relative frequency of each value
FLAGS, FREQUENCIES = (
    (SYN, SYN | ACK, ACK, ACK | PUSH, FIN | ACK), (0.04, 0.04, 0.6, 0.28, 0.04)
)  # fmt: skip
# field -> position of its lowest bit in a packet's tuple, and number of its bits
FIELDS = {"source": (96, 32), "destination": (64, 32), "protocol": (56, 8), "flags": (48, 8),
          "source_port": (32, 16), "destination_port": (16, 16), "length": (0, 16)}  # fmt: skip
LEVELS = (8, 16, 32)  # prefix lengths, one per window
FLAGS_BYTE = 46  # offset in a frame of the 16 bits with data offset and flags


@dataclass(frozen=True)
class Query:
    """Query for keys (`reduce`) with at least `threshold` packets or distinct tuples.

    The first field of `reduce` is the field to refine: an IPv4 address.
    """

    name: str
    filter: Mapping[str, int]
    distinct: tuple[str, ...]  # fields of the tuples to count; if empty, packets are counted
    reduce: tuple[str, ...]
    threshold: int


def queries(threshold: int) -> list[Query]:
    """Return the first five queries of the paper."""
    return [
        Query("new TCP connections", {"protocol": TCP, "flags": SYN}, (), ("destination",),
              threshold),
        Query("SSH brute force", {"protocol": TCP, "destination_port": SSH},
              ("destination", "source", "length"), ("destination", "length"), threshold),
        Query("superspreader", {}, ("source", "destination"), ("source",), threshold),
        Query("port scan", {"protocol": TCP}, ("source", "destination_port"), ("source",),
              threshold),
        Query("DDoS", {}, ("destination", "source"), ("destination",), threshold),
    ]  # fmt: skip


def mask(fields: Collection[str], refined: str = "", level: int = 32) -> int:
    """Return the bits of fields in a tuple; of `refined`, only the first `level` bits."""
    total = 0
    for name in fields:
        low, bits = FIELDS[name]
        cut = 32 - level if name == refined else 0
        total |= ((1 << bits) - (1 << cut)) << low
    return total


def plan(
    query: Query, number: int, window: int, prefixes: Collection[int] | None
) -> list[fy.P4TableEntry]:
    """Return the entries of query `number` (from 1) for a window (from 1).

    `prefixes` are the addresses to refine, found in the previous window; None in the first window.
    """
    refined = query.reduce[0]
    value = sum(wanted << FIELDS[name][0] for name, wanted in query.filter.items())
    bits = mask(query.filter)
    if prefixes is not None:
        bits |= mask([refined], refined, LEVELS[window - 2])
    action = fy.Action(
        f"query_{number}.run", number=window, min_count=query.threshold,
        distinct_mask=mask(query.distinct, refined, LEVELS[window - 1]),
        key_mask=mask(query.reduce, refined, LEVELS[window - 1]),
    )  # fmt: skip
    values = [value | each << FIELDS[refined][0] for each in prefixes or ()]
    return [
        fy.P4TableEntry(
            f"query_{number}.plan", priority=1, action=action,
            match=fy.Match({"fields": (each, bits)} if bits else {}),
        )
        for each in (values if prefixes is not None else [value])
    ]  # fmt: skip


def make_frames(stream: Stream, source_mac: str, destination_mac: str) -> list[bytes]:
    """Return the frames of the packets: TCP with flags and without options."""
    frames = traces.make_frames(stream, source_mac, destination_mac)
    return [
        frame[:FLAGS_BYTE] + (0x5000 | flags).to_bytes(2, "big") + frame[FLAGS_BYTE + 2 :]
        for frame, flags in zip(frames, stream.rows["flags"].tolist(), strict=True)
    ]


def windows(background: int, attack_packets: int, seed: int) -> list[Stream]:
    """Return one trace per level. The same attacks are in each window, one for each query.

    `background` is the number of other packets per window. A flow has about five packets.
    """
    rng = np.random.default_rng([seed, 4])
    flows = np.zeros(background // 5, ROW)
    hosts = rng.integers(1 << 32, size=background // 20)
    for name in ("source", "destination"):
        flows[name] = rng.choice(hosts, len(flows))
    flows["source_port"] = rng.integers(1024, 1 << 16, size=len(flows))
    flows["destination_port"] = rng.choice([SSH, 25, 80, 443], len(flows))
    attacks = _attacks(rng, attack_packets)
    found = []
    for _ in LEVELS:
        others = rng.choice(flows, background)
        others["flags"] = rng.choice(FLAGS, background, p=FREQUENCIES)
        others["length"] = rng.choice([64, 128, 594, 1514], background)
        rows = rng.permutation(np.concatenate([others, *attacks]))
        rows["protocol"] = TCP
        found.append(Stream(np.arange(len(rows)), rows, rows["length"].astype(np.int64)))
    return found


def _attacks(rng: np.random.Generator, packets: int) -> list[NDArray[Any]]:
    """Return the packets of five attacks, each with one victim or attacker.

    The other side has half as many hosts or ports as the attack has packets.
    """
    hosts, many = rng.integers(1 << 32, size=5), rng.integers(1 << 32, size=packets // 2)
    scanned = rng.choice(rng.permutation(1 << 16)[: packets // 2], packets)
    other = rng.choice(many, packets)
    attacks: list[dict[str, Any]] = [
        {"source": rng.choice(many[:8], packets), "destination": hosts[0], "flags": SYN},
        {"source": other, "destination": hosts[1], "destination_port": SSH, "flags": ACK | PUSH},
        {"source": hosts[2], "destination": other, "flags": ACK},
        {"source": hosts[3], "destination": hosts[0], "destination_port": scanned, "flags": SYN},
        {"source": other, "destination": hosts[4], "flags": ACK},
    ]
    made = []
    for attack in attacks:
        rows = np.zeros(packets, ROW)
        rows["length"], rows["destination_port"] = 128, 80
        rows["source_port"] = rng.integers(1024, 1 << 16, size=packets)
        for name, value in attack.items():
            rows[name] = value
        made.append(rows)
    return made
