"""Reports made to do harm: any list, hop, column or length, cut or damaged; and any packet-out."""

import random

from dta_gathering import Gatherer
from dta_path import CPU_PORT, REPORTERS, ours, tracked
from scapy.layers.l2 import Ether

from collectors.dta.lists import Reader
from collectors.dta.packets import Append, Postcard, ShortPostcard, SketchMerge
from collectors.roce.packets import RETH

EDGES = (0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def number(dice: random.Random, bits: int) -> int:
    some = (dice.randrange(6), dice.randrange(6), dice.choice(EDGES), dice.getrandbits(bits))
    return dice.choice(some) & (1 << bits) - 1


def any_report(dice: random.Random) -> bytes:
    base = {"immediate": dice.randrange(2), "sequence": number(dice, 32),
            "reporter": dice.randrange(3)}  # fmt: skip
    report = dice.choice((
        Append(list=number(dice, 32), data=number(dice, 32)),
        Postcard(redundancy=number(dice, 8), hop=number(dice, 8), hops=number(dice, 8),
                 key=number(dice, 128), value=number(dice, 32)),
        SketchMerge(sketch=number(dice, 16), column=number(dice, 16),
                    counters=[number(dice, 32) for _ in range(4)]),
    ))  # fmt: skip
    if dice.random() < 0.2:
        short = ShortPostcard(key=number(dice, 32), hop=number(dice, 8), value=number(dice, 32))
        return tracked(short, seqnum=number(dice, 8), immediate=base["immediate"])
    return ours(report, **base)


def damaged(frame: bytes, dice: random.Random) -> bytes:
    data = bytearray(frame)
    for _ in range(dice.randrange(1, 4)):
        data[dice.randrange(34, len(data))] = dice.choice((0, 1, 0x7F, 0xFF, dice.randrange(256)))
    return bytes(data[: dice.choice((len(data), len(data), dice.randrange(34, len(data))))])


def test_nothing_is_written_beyond_a_region() -> None:
    translator, dice = Gatherer(), random.Random(11)
    rings = translator.lists(4, batches=4, count=4)
    translator.cache(slots=16, rows=8)
    translator.sketches(2, count=2, columns=16)
    for index in (1, 2):
        translator.track(index, reporter=index)
    written = 0
    for _ in range(3000):
        frame = any_report(dice)
        written += translator.report(damaged(frame, dice) if dice.random() < 0.4 else frame)
        whose = number(dice, 24).to_bytes(3, "big")
        asked = bytes([0, dice.randrange(6), dice.choice((1, 1, 2, 255))]) + whose
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
