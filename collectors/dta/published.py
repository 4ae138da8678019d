"""The load of the published generator's scripts: what those of its DTA reports are as a Load, and
three kinds of reports that are no DTA, which a collector's CPU has to take.

Its keys count up (Keys.SEQUENTIAL), and its lists are one more than there are.
"""

import numpy as np
from numpy.typing import NDArray

from collectors.dta.hashes import HOPS
from collectors.dta.load import Format, Keys, Load, Reports
from collectors.dta.packets import Op

CARD_PORT, PATH_PORT = 1337, 5002  # UDP's
LISTS = 4

FLOW_CARD = np.dtype([
    ("src_addr", ">u4"), ("dst_addr", ">u4"), ("src_port", ">u2"), ("dst_port", ">u2"),
    ("protocol", "u1"), ("data", ">u4"),
])  # fmt: skip
CARD = np.dtype([("key", ">u4"), ("data", ">u4")])
PATH = np.dtype([
    ("src_addr", ">u4"), ("dst_addr", ">u4"), ("protocol", "u1"), ("src_port", ">u2"),
    ("dst_port", ">u2"), ("hops", ">u4", HOPS),
])  # fmt: skip
_RANGES = {"src_addr": 10**7, "dst_addr": 10**7, "src_port": 0xFFFF, "dst_port": 0xFFFF,
           "protocol": 2, "hops": 10**4}  # fmt: skip
"""Random numbers from 1 to this; all else counts up."""


def dta_load(op: Op, count: int) -> Load:
    """Key-Write, Append or Key-Increment, with the prototype's tracking of losses."""
    copies = 1 if op is Op.APPEND else 4
    return Load(count, {op: 1}, format=Format.TRACKED, keys=Keys.SEQUENTIAL, redundancy=copies,
                lists=range(LISTS + 1))  # fmt: skip


def flow_cards(count: int, seed: int = 1) -> Reports:
    """A word about a flow."""
    return _reports(FLOW_CARD, CARD_PORT, count, seed)


def cards(count: int, seed: int = 1) -> Reports:
    """A word about a key."""
    return _reports(CARD, CARD_PORT, count, seed)


def int_paths(count: int, seed: int = 1) -> Reports:
    """The five hops of a flow's path."""
    return _reports(PATH, PATH_PORT, count, seed)


def _reports(dtype: np.dtype[np.void], port: int, count: int, seed: int) -> Reports:
    rng = np.random.default_rng(seed)
    rows: NDArray[np.void] = np.zeros(count, dtype)
    for name in dtype.names or ():
        shape = rows[name].shape
        rows[name] = (rng.integers(1, _RANGES[name] + 1, shape) if name in _RANGES
                      else np.arange(count))  # fmt: skip
    return Reports([row.tobytes() for row in rows], [port] * count)
