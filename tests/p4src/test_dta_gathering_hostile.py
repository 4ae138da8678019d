"""Hostile reports to a translator that batches reports: any list, hop, column or length.

Other reports are truncated or damaged, and random packets come from the CPU port.
"""

import random

from dta_gathering import Gatherer
from dta_path import CPU_PORT, REPORTERS, ours, tracked
from forwarder import damaged
from scapy.layers.l2 import Ether

from collectors.dta.append import Reader
from collectors.dta.packets import Append, Postcard, ShortPostcard, SketchMerge
from collectors.roce.packets import RETH

EDGES = (0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def number(rng: random.Random, bits: int) -> int:
    some = (rng.randrange(6), rng.randrange(6), rng.choice(EDGES), rng.getrandbits(bits))
    return rng.choice(some) & (1 << bits) - 1


def any_report(rng: random.Random) -> bytes:
    base = {"immediate": rng.randrange(2), "sequence": number(rng, 32),
            "reporter": rng.randrange(3)}  # fmt: skip
    report = rng.choice((
        Append(list=number(rng, 32), data=number(rng, 32)),
        Postcard(redundancy=number(rng, 8), hop=number(rng, 8), hops=number(rng, 8),
                 key=number(rng, 128), value=number(rng, 32)),
        SketchMerge(sketch=number(rng, 16), column=number(rng, 16),
                    counters=[number(rng, 32) for _ in range(4)]),
    ))  # fmt: skip
    if rng.random() < 0.2:
        short = ShortPostcard(key=number(rng, 32), hop=number(rng, 8), value=number(rng, 32))
        return tracked(short, seqnum=number(rng, 8), immediate=base["immediate"])
    return ours(report, **base)


def test_nothing_is_written_beyond_a_region() -> None:
    translator, rng = Gatherer(), random.Random(11)
    rings = translator.lists(4, batches=4, count=4)
    translator.cache(slots=16, rows=8)
    translator.sketches(2, count=2, columns=16)
    for index in (1, 2):
        translator.track(index, reporter=index)
    written = 0
    for _ in range(3000):
        frame = any_report(rng)
        written += translator.report(damaged(frame, rng, 34) if rng.random() < 0.4 else frame)
        whose = number(rng, 24).to_bytes(3, "big")
        asked = bytes([0, rng.randrange(6), rng.choice((1, 1, 2, 255))]) + whose
        written += translator.report(asked + b"number 7", port=CPU_PORT)
    assert written > 300
    assert {int(Ether(frame)[RETH].length) for frame in translator.sent} >= {20, 32, 128}
    assert not any(memory.any() for memory in translator.beyond)
    assert translator.nic.counts().refused.total() == 0
    reader = Reader(rings[1])
    reader.pull()
    for _ in range(4):
        translator.report(ours(Append(list=1, data=5)), port=REPORTERS)
    assert 5 in reader.pull().tolist()
