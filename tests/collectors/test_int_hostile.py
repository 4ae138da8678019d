"""Hostile reports: the decoder reads no byte after a datagram, and all results are in bounds.

test_sanitized.py also runs these tests with AddressSanitizer.
"""

import random

import made_reports
import numpy as np
import pytest
from decoding import decoded

from collectors.int.decoder import Decoded
from collectors.int.native import ParseStatus

NUMBER = 1000
FILLER = bytes(600)  # long enough for malloc(), so that a sanitizer checks its end


def mutated(rng: random.Random) -> bytes:
    """Return a datagram of some reports, with some bits, bytes and lengths changed."""
    if rng.random() < 0.2:
        payload = made_reports.old_datagram(rng, 1, 2)[0]
    else:
        payload = made_reports.datagram(rng, 1, 2, rng.randrange(1, 4))[0]
    data = bytearray(payload)
    for _ in range(rng.randrange(6)):
        at = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del data[at : at + rng.randrange(1, 5)]
        else:
            del data[at:]
        if not data:
            break
    return bytes(data)


def without_neighbours(part: Decoded, which: list[int]) -> list[object]:
    """Return all results for some of the datagrams, independently of the other datagrams."""
    groups = part.groups[np.isin(part.groups["datagram"], which)]
    is_ours = np.isin(part.groups["datagram"][part.reports["group"]], which)
    reports = part.reports[is_ours].copy()
    hops = part.hops[is_ours[part.hops["report"]]].copy()
    for array, name in ((reports, "group"), (reports, "first_hop"), (hops, "report")):
        array[name] = 0  # indices depend on the other datagrams
    faults = part.faults[np.isin(part.faults["datagram"], which)]
    return [array.tobytes() for array in (groups, reports, hops, faults)]


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_read_of_neighbours(seed: int) -> None:
    rng = random.Random(seed)
    payloads = [mutated(rng) for _ in range(NUMBER)]
    ours = [*range(0, 2 * NUMBER, 2)]
    found = []
    good = made_reports.datagram(rng, 7, 7, 1)[0][:40].ljust(40)
    for neighbour in (b"\xff" * 40, b"\0" * 40, good):
        parts = decoded([each for payload in payloads for each in (payload, neighbour)])
        found.append(without_neighbours(parts, ours))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("seed", range(2))
def test_what_is_found_lies_within(seed: int) -> None:
    rng = random.Random(100 + seed)
    part = decoded([mutated(rng) for _ in range(NUMBER)])
    reports, hops = part.reports, part.hops
    assert len(reports) == part.groups["reports"].sum() > NUMBER // 2
    ends = reports["first_hop"] + reports["hops"].astype(np.uint32)
    assert (reports["first_hop"][1:] == ends[:-1]).all()
    assert ends[-1] == len(hops)
    assert (np.repeat(np.arange(len(reports)), reports["hops"]) == hops["report"]).all()
    for array, at, count in ((reports, "ds_at", "ds_words"), (hops, "ds_at", "ds_words"),
                             (reports, "int_ds_at", "int_ds_words")):  # fmt: skip
        assert (array[at] + 4 * array[count].astype(np.uint64) <= len(part.data)).all()
    assert set(part.faults["parse_status"]) > {ParseStatus.PACKET_CUT, ParseStatus.REPORT_LENGTH}


def test_the_end_of_all_bytes_is_the_end() -> None:
    rng = random.Random(200)
    for _ in range(100):
        part = decoded([FILLER, mutated(rng)])
        assert (part.groups["datagram"] <= 1).all()


def test_random_bytes() -> None:
    rng = random.Random(300)
    payloads = [bytes([rng.choice((0x10, 0x20))]) + rng.randbytes(rng.randrange(200))
                for _ in range(NUMBER)]  # fmt: skip
    part = decoded(payloads)
    assert len(part.faults) > NUMBER // 2
