"""Transfers over TCP in virtual time: what the tests of it share."""

import numpy as np
from lines import START_NS, Line

from minip4.simulator.tcp import TcpResult

SEGMENT, FRAME = 1448, 1514  # bytes of data, and with all headers
KINDS = ("reno", "cubic", "dctcp")


def finished(line: Line, number: int, seconds: float = 100.0) -> TcpResult:
    line.run(seconds)
    return line.virtual.connections.result(number)


def goodput_bps(result: TcpResult, from_s: float, until_s: float) -> float:
    since_s = (result.received["time_ns"] - START_NS) / 1e9
    at = np.searchsorted(since_s, [from_s, until_s])
    return float(8 * np.diff(result.received["bytes"][at])[0] / np.diff(since_s[at])[0])
