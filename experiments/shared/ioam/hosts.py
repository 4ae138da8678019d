"""Applications of hosts: a collector that stores reports, and a receiver that stores frames."""

from typing import NamedTuple

from collectors.ioam.options import (
    NodeData,
    Option,
    OptionError,
    OptionType,
    parse_options,
)
from telemark.apps.application import Application, Host
from telemark.traffic.received import Datagrams, Frames

HOLD_US = 1000
GROUP_BYTES, HEAD_BYTES = 8, 12  # group header; the rest of the fixed part of a report
LABEL_MASK = 0xFFFFF


class NodeReport(NamedTuple):
    """One report: node, report number, label of the packet, options, and data of the node."""

    node: int
    sequence: int
    label: int
    option_type: OptionType
    options: tuple[Option, ...]  # as the node received them
    data: NodeData


def decode_report(payload: bytes) -> NodeReport:
    """Decode the only report of a datagram (collectors/ioam/options.py). Raises OptionError."""
    fixed = GROUP_BYTES + HEAD_BYTES
    head = payload[GROUP_BYTES:fixed]
    if len(head) < HEAD_BYTES or head[7] not in [*OptionType]:
        raise OptionError("report: shorter than its header, or of an unknown option type")
    data, size = NodeData.decode(int.from_bytes(head[8:11], "big"), payload[fixed:])
    packet = payload[fixed + size :]
    return NodeReport(
        node=int.from_bytes(payload[4:8], "big"),
        sequence=int.from_bytes(payload[:4], "big") & 0x3FFFFF,
        label=int.from_bytes(packet[:4], "big") & LABEL_MASK,
        option_type=OptionType(head[7]),
        options=tuple(parse_options(packet[40:])[1]),
        data=data,
    )


class ReportKeeper(Application):
    """Collector that stores all reports; its result is a list of NodeReport."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._payloads: list[bytes] = []

    def start(self, host: Host) -> None:
        """Listen."""
        host.udp(self._port, self._keep, hold_us=HOLD_US)

    def _keep(self, datagrams: Datagrams) -> None:
        self._payloads += [each.payload for each in datagrams]

    def result(self) -> list[NodeReport]:
        """Return all reports in order of arrival."""
        return [decode_report(payload) for payload in self._payloads]


class FrameKeeper(Application):
    """Receiver that stores all frames in order; its result is a list of bytes."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []

    def start(self, host: Host) -> None:
        """Listen."""
        host.frames(self._keep, hold_us=HOLD_US)

    def _keep(self, frames: Frames) -> None:
        self._frames += [bytes(each.frame) for each in frames]

    def result(self) -> list[bytes]:
        """Return all frames."""
        return self._frames
