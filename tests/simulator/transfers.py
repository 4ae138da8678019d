"""Functions for tests of transfers over TCP in virtual time."""

import numpy as np
from lines import ADDRESS, MAC, START_NS, Line
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from minip4.simulator.tcp import TcpResult

SEGMENT, FRAME = 1448, 1514  # bytes of a segment's data, and of its whole frame
KINDS = ("reno", "cubic", "dctcp")
ISN, PEER_ISN = 2**32 - 5000, 77  # initial sequence numbers of Line.tcp()


def finished(line: Line, number: int, seconds: float = 100.0) -> TcpResult:
    line.run(seconds)
    return line.virtual.connections.result(number)


def send(line: Line, of: int, after_ms: float, data: int = 0, **fields: object) -> None:
    """Let host `of` send another segment in the connection of Line.tcp(), at this time."""
    ports = (49152, 5001) if of == 0 else (5001, 49152)
    tcp = TCP(sport=ports[0], dport=ports[1], **fields)
    addresses = IP(src=ADDRESS[of], dst=ADDRESS[1 - of])
    frame = Ether(src=MAC[of], dst=MAC[1 - of]) / addresses / tcp / Raw(bytes(data))
    line.virtual.send_frames(line.hosts[of], [START_NS + round(after_ms * 1e6)], [bytes(frame)])


def goodput_bps(result: TcpResult, from_s: float, until_s: float) -> float:
    since_s = (result.received["time_ns"] - START_NS) / 1e9
    at = np.searchsorted(since_s, [from_s, until_s])
    return float(8 * np.diff(result.received["bytes"][at])[0] / np.diff(since_s[at])[0])
