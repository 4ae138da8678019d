"""Received datagrams of an application, as arrays and as single datagrams."""

import numpy as np
import pytest

from minip4.simulator.shared import ARRIVAL
from telemark.traffic.received import Arrivals, Datagram, Datagrams, Frame, Frames, Taken


def taken(*payloads: bytes) -> Taken:
    """Return datagrams received at 100, 101, ... ns from ports 7, 8, ... of 10.0.2.1.

    The datagrams have DSCP 46, ECN 0, 1, ..., and TTL 64, 63, ...
    """
    records = np.zeros(len(payloads), ARRIVAL)
    records["time_ns"] = 100 + np.arange(len(payloads))
    records["length"] = [len(payload) for payload in payloads]
    records["address"] = 0x0A000201
    records["port"] = 7 + np.arange(len(payloads))
    records["tos"] = 46 << 2 | np.arange(len(payloads))
    records["ttl"] = 64 - np.arange(len(payloads))
    return records, b"".join(payloads)


@pytest.mark.parametrize(
    ("payloads", "rows"),
    [
        ((b"abc", b"def"), ["abc", "def"]),
        ((b"abcdef", b"ghijkl"), ["abc", "ghi"]),
        ((b"a", b"bcdefg", b"", b"hi"), ["a\0\0", "bcd", "\0\0\0", "hi\0"]),
        ((b"ab", b"cd"), ["ab\0", "cd\0"]),
        ((b"",), ["\0\0\0"]),
        ((), []),
    ],
)
def test_rows_are_cut_or_filled(payloads: tuple[bytes, ...], rows: list[str]) -> None:
    found = Arrivals(taken(*payloads)).rows(3)
    assert found.shape == (len(payloads), 3)
    assert [row.tobytes().decode() for row in found] == rows


def test_datagrams_and_frames_one_by_one() -> None:
    came = taken(b"ab", b"", b"c")
    datagrams, frames = Datagrams(came), Frames(came)
    assert list(datagrams) == [
        Datagram(100, "10.0.2.1", 7, b"ab", 46, 0, 64),
        Datagram(101, "10.0.2.1", 8, b"", 46, 1, 63),
        Datagram(102, "10.0.2.1", 9, b"c", 46, 2, 62),
    ]
    assert list(frames) == [Frame(100, b"ab"), Frame(101, b""), Frame(102, b"c")]
    assert list(Datagrams(taken())) == list(Frames(taken())) == []


def test_arrays_have_the_numbers_of_all() -> None:
    datagrams = Datagrams(taken(b"ab", b"", b"c"))
    assert len(datagrams) == 3
    assert datagrams.time_ns.tolist() == [100, 101, 102]
    assert datagrams.length.tolist() == [2, 0, 1]
    assert datagrams.address.tolist() == [0x0A000201] * 3
    assert datagrams.port.tolist() == [7, 8, 9]
    assert datagrams.dscp.tolist() == [46, 46, 46]
    assert datagrams.ttl.tolist() == [64, 63, 62]
    assert datagrams.ecn.tolist() == [0, 1, 2]
