"""Stores that batch reports: their memory after a run in virtual time, also after a flush."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from virtual_networks import virtually

from collectors.dta.append import Reader, batch, head
from collectors.dta.hashes import key_words
from collectors.dta.packets import DTA, Append, Postcard
from collectors.dta.postcarding import CHUNK, Postcards
from collectors.roce.application import Outcome
from controllers.dta.batching import (
    ListStore,
    PostcardStore,
    SketchStore,
    flush_lists,
    flush_rows,
    restart_list,
)
from controllers.dta.manager.fabric import Area
from experiments.shared.dta.translator_setup import translating
from telemark.network import Network
from telemark.session.run import Run

LISTS, BATCHES, ROWS, SLOTS = 3, 8, 16, 64
KEYS = [0x9E3779B97F4A7C15 * n % (1 << 64) for n in range(1, 9)]


def frame(report: Packet) -> bytes:
    ether = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02")
    ip = IP(src="10.0.0.1", dst="10.0.0.2")
    return bytes(ether / ip / UDP(sport=40041, chksum=0) / DTA() / report)


def lists(sessions: range) -> ListStore:
    return ListStore(4, BATCHES, LISTS, sessions[0])


def test_what_is_gathered_is_written_when_it_is_asked_for(tmp_path: Path) -> None:
    areas = [Area(batch(4), LISTS * BATCHES, lists),
             Area(CHUNK, SLOTS, lambda sessions: PostcardStore(SLOTS, ROWS, sessions))]  # fmt: skip
    reports: list[Packet] = [Append(list=n % LISTS, data=n) for n in range(20)]
    reports += [Postcard(key=key, hop=hop, value=7 + hop) for key in KEYS for hop in (0, 1, 2)]

    async def main(run: Run) -> Network:
        async with translating(run, "gathering", areas) as running:
            await running.send([frame(report) for report in reports], 1000)
            await flush_lists(running.switch, 1, lists(range(1, 2)))
            await flush_rows(running.switch, 1, PostcardStore(SLOTS, ROWS))
            await run.clock.sleep_until(run.clock.now_ns() + 100_000_000)
        return running.net

    outcome: Outcome = virtually(tmp_path, main).applications[0].result
    rings = outcome.records[0].reshape(LISTS, BATCHES)
    assert [Reader(ring).pull().tolist() for ring in rings] == [
        [*range(number, 20, LISTS)] for number in range(LISTS)
    ]
    paths = Postcards(outcome.records[1], range(7, 12), 1).query(key_words(KEYS))
    assert paths.values[:, :3].tolist() == [[7, 8, 9]] * len(KEYS)
    assert outcome.counts.refused == {}


def test_a_list_resumes_after_a_restart_of_the_switch(tmp_path: Path) -> None:
    """After its switch has restarted, a list continues where it ended.

    The second network has a new switch without the state of the first one. The file of the store
    contains this state.
    """
    area = partial(Area, batch(4), BATCHES, lambda sessions: ListStore(4, BATCHES, 1, sessions[0]))

    async def main(run: Run) -> Network:
        for turn in range(2):
            async with translating(run, f"turn-{turn}", [area(file="list")]) as running:
                if turn:
                    ring = np.fromfile(run.folder / "list", batch(4))
                    place = head(ring)
                    await restart_list(running.switch, ListStore(4, BATCHES), 0,
                                       batch_number=place.number, slot=place.slot)  # fmt: skip
                entries = range(20 * turn, 20 * turn + 20)
                await running.send([frame(Append(data=n)) for n in entries], 1000)
        return running.net

    outcome: Outcome = virtually(tmp_path, main).applications[0].result
    assert Reader(outcome.records[0]).pull().tolist() == [*range(12, 40)]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ListStore(3, 8), r"batches of 3: expected one of \(1, 2, 4, 8, 16\)"),
        (lambda: ListStore(4, 1), "rings of 1 batches: expected 2 to"),
        (lambda: ListStore(4, 8, 4000, first=100), "registers 100 to 4099: expected numbers"),
        (lambda: ListStore(4, 8, 0), "registers 0 to -1"),
        (lambda: PostcardStore(3), "3 slots: expected a power of 2"),
        (lambda: PostcardStore(4, 3), "3 rows: expected a power of 2"),
        (lambda: PostcardStore(4, first=1), "registers 1 to 32768"),
        (lambda: SketchStore(12, 1), "12 columns from 0 on: expected multiples of 8"),
        (lambda: SketchStore(8, 1, first=4), "8 columns from 4 on: expected multiples of 8"),
        (lambda: SketchStore(8, 256), "256 reporters: expected 1 to 255"),
        (lambda: SketchStore(8192, 1, 3), "registers 0 to 24575"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()  # type: ignore[operator]
