"""Random entries for the tables of a program, and frames that often match these entries."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import content
from packet_path import programs
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from minip4.engine.keys import MatchKey, Range
from minip4.engine.model import Program

REPOSITORY = Path(__file__).parents[2]
PANEL = (
    REPOSITORY / "telemark/backends/real/targets/panel.p4"
)  # the random ports of its entries do not exist
ROUTED = REPOSITORY / "p4src/ampm/routed.p4"  # `main` is in ampm.p4, which it includes
PROGRAMS = [*programs(), ROUTED, *sorted(REPOSITORY.glob("benchmarks/speed/p4/*.p4"))]
DEEP = {"sai_router"}  # random entries of six consecutive tables drop all packets
PORTS, PORT_BITS = (*range(9), 255), 9
SEEDS, ENTRIES, FRAMES = range(4), 12, 100
ETHER = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
UDP_SEGMENT = bytes(UDP(sport=4000, dport=5000) / bytes(40))
GOOD = [
    bytes(ETHER / IP(proto=17, src="10.0.0.1", dst="10.0.0.2") / UDP_SEGMENT),
    bytes(ETHER / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(dport=80) / bytes(20)),
    bytes(ETHER / IPv6(nh=0) / bytes.fromhex("1100 1204ABCDE000") / UDP_SEGMENT),
]
FIELDS = (0, 0, 6, 12, 14, 20, 23, 26, 30, 30, 36, 42)  # offsets of the fields that change


class Tables(Protocol):
    """A switch to whose tables fill() can add entries."""

    @property
    def program(self) -> Program: ...
    def table_add(
        self, table: str, key: list[MatchKey], action: str, params: list[int], priority: int
    ) -> object: ...


def fill(switch: Tables, values: content.Values) -> list[bytes]:
    """Add entries to each table. Return the values of their fields, for frames that match them."""
    words = []
    for table in switch.program.tables.values():
        if table.is_const or table.type != "simple" or not table.key:
            continue
        ranked = any(f.match_type not in ("exact", "lpm") for f in table.key)
        keys = {tuple(values.key(field) for field in table.key) for _ in range(ENTRIES)}
        for priority, key in enumerate(sorted(keys, key=str), 1):
            action = values.rng.choice(table.actions)
            params = [values.rng.choice(PORTS) if p.width == PORT_BITS else values.number(p.width)
                      for p in action.params]  # fmt: skip
            switch.table_add(table.name, key, action.name, params, ranked * priority)
            for field, part in zip(table.key, key, strict=True):
                number = part.low if isinstance(part, Range) else part.value
                words.append(number.to_bytes((field.width + 7) // 8, "big"))
    return words


def frames(values: content.Values, words: list[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield frames and their ingress ports.

    The frames are valid packets, or random bytes, with one to three changed fields. Some frames are
    truncated.
    """
    rng = values.rng
    words += [c.to_bytes((c.bit_length() + 7) // 8 or 1, "big") for c in values.constants]
    for _ in range(FRAMES):
        data = bytearray(rng.choice([*GOOD, rng.randbytes(100)]))
        for _ in range(rng.randrange(1, 4)):
            word, place = rng.choice([*words, rng.randbytes(2)]), rng.choice(FIELDS)
            data[place : place + len(word)] = word
        yield rng.choice(PORTS), bytes(data[: rng.choice([14, 40, *[len(data)] * 4])])
