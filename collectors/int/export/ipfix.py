"""IPFIX messages (RFC 7011). There is one record per flow, with IANA's information elements."""

import struct
from collections.abc import Callable, Iterator
from typing import Any

from collectors.int.application import Findings

VERSION, TEMPLATE_SET = 10, 2
LARGEST = 1400  # maximum number of bytes of a message
TEMPLATES = {4: 256, 6: 257}  # template id by IP version
MS = 1_000_000
# Information elements. Each has a number, a length, and a function. From a flow and its (first,
# last) time in ms, the function computes the value.
Element = tuple[int, int, Callable[[Any, tuple[int, int]], int]]
_ELEMENTS: tuple[Element, ...] = (
    (7, 2, lambda flow, _: flow["key"]["source_port"]),  # sourceTransportPort
    (11, 2, lambda flow, _: flow["key"]["destination_port"]),  # destinationTransportPort
    (4, 1, lambda flow, _: flow["key"]["protocol"]),  # protocolIdentifier
    # packetTotalCount: number of packets with a reported path
    (86, 8, lambda flow, _: flow["paths"] + flow["partial"]),
    (135, 8, lambda flow, _: flow["dropped"]),  # droppedPacketTotalCount
    (152, 8, lambda _, times: times[0]),  # flowStartMilliseconds
    (153, 8, lambda _, times: times[1]),  # flowEndMilliseconds
    (10, 4, lambda flow, _: flow["path"][0]["ingress"]),  # ingressInterface of the first node
    (14, 4, lambda flow, _: flow["path"][max(int(flow["hops"]) - 1, 0)]["egress"]),
)
# (element, length) of source and destination address, by IP version
_ADDRESSES = {4: ((8, 4), (12, 4)), 6: ((27, 16), (28, 16))}


class Exporter:
    """Exporter of one observation domain.

    Messages are numbered per transport session (3.1).
    """

    def __init__(self, domain: int) -> None:
        self._domain = domain
        self._sequence = 0  # number of data records in earlier messages, modulo 2^32

    def messages(self, findings: Findings, epoch_ns: int) -> Iterator[bytes]:
        """Return messages for UDP. Each message contains the templates that it needs.

        `epoch_ns` is added to all times, so that they become Unix times.
        """
        export_s = (findings.time_ns + epoch_ns) // 1_000_000_000
        for version, template in TEMPLATES.items():
            flows = findings.flows[findings.flows["key"]["ip_version"] == version]
            head = _template(version, template)
            width = sum(length for _, length in _ADDRESSES[version]) + sum(e[1] for e in _ELEMENTS)
            at_once = (LARGEST - 16 - len(head) - 4) // width
            for first in range(0, len(flows), at_once):
                some = flows[first : first + at_once]
                records = b"".join(_record(flow, version, epoch_ns) for flow in some)
                data = struct.pack("!HH", template, 4 + len(records)) + records
                yield self._message(head + data, export_s)
                self._sequence = (self._sequence + len(some)) % 2**32

    def _message(self, sets: bytes, export_s: int) -> bytes:
        head = struct.pack(
            "!HHIII", VERSION, 16 + len(sets), export_s, self._sequence, self._domain
        )
        return head + sets


def _template(version: int, number: int) -> bytes:
    """Return a template set (3.4.1)."""
    elements = [*_ADDRESSES[version], *(element[:2] for element in _ELEMENTS)]
    fields = b"".join(struct.pack("!HH", *element) for element in elements)
    return struct.pack("!HHHH", TEMPLATE_SET, 8 + len(fields), number, len(elements)) + fields


def _record(flow: Any, version: int, epoch_ns: int) -> bytes:
    first_ns, last_ns = (int(flow[name]) + epoch_ns for name in ("first_ns", "last_ns"))
    times = first_ns // MS, last_ns // MS
    octets = [flow["key"][name].tobytes()[:length] for name, (_, length) in
              zip(("source", "destination"), _ADDRESSES[version], strict=True)]  # fmt: skip
    values = [int(value(flow, times)).to_bytes(length, "big") for _, length, value in _ELEMENTS]
    return b"".join((*octets, *values))
