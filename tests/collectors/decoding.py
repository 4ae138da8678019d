"""Decoder output in the format of made_reports."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import made_reports
import numpy as np

from collectors.int.decoder import Decoded, Decoder, Encoding
from collectors.int.native import Bit
from minip4.simulator.shared import ARRIVAL
from telemark.traffic.received import Datagrams

ENCODING = Encoding(port=made_reports.INT_PORT, dscp=made_reports.INT_DSCP,
                    dscp_mask=made_reports.INT_DSCP_BIT)  # fmt: skip
FIELDS = {
    Bit.NODE: ("node",),
    Bit.INTERFACES: ("ingress", "egress"),
    Bit.LATENCY: ("latency_ns",),
    Bit.QUEUE: ("queue", "occupancy"),
    Bit.INGRESS: ("ingress_ns",),
    Bit.EGRESS: ("egress_ns",),
    Bit.INTERFACES2: ("ingress2", "egress2"),
    Bit.UTILISATION: ("utilisation",),
    Bit.BUFFER: ("buffer", "buffer_occupancy"),
    Bit.LAST: ("complement",),
}


def datagrams(payloads: Sequence[bytes], time_ns: int = 0, step_ns: int = 1) -> Datagrams:
    """Return datagrams from 10.0.0.9 as an application receives them, at intervals of `step_ns`."""
    records = np.zeros(len(payloads), ARRIVAL)
    records["time_ns"] = time_ns + step_ns * np.arange(len(payloads))
    records["length"] = [len(payload) for payload in payloads]
    records["address"] = 0x0A000009
    return Datagrams((records, b"".join(payloads)))


def decoded(
    payloads: Sequence[bytes], decoder: Decoder | None = None, encoding: Encoding = ENCODING
) -> Decoded:
    """Decode all datagrams in one part."""
    [part] = (decoder or Decoder(encoding)).decode(datagrams(payloads))
    return part


def words(decoded: Decoded, at: int, count: int) -> bytes:
    """Return `count` words of domain specific metadata, from index `at` on."""
    return decoded.data[at : at + 4 * count]


def hop(decoded: Decoded, index: int) -> dict[str, Any]:
    """Return the available fields of a hop."""
    found = decoded.hops[index]
    values: dict[str, Any] = {
        name: int(found[name]) for bit, names in FIELDS.items() if found["has"] & bit
        for name in names
    }  # fmt: skip
    return {**values, "ds": words(decoded, found["ds_at"], found["ds_words"])}


def report(decoded: Decoded, index: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return all fields of a report, and its hops."""
    found = decoded.reports[index]
    key = found["key"]
    said = {name: int(found[name]) for name in found.dtype.names if name not in ("key", "none")}
    said |= {name: int(key[name]) for name in ("source_port", "destination_port", "protocol",
                                               "ip_version")}  # fmt: skip
    for name in ("source", "destination"):
        octets = key[name].tobytes()
        said[name] = IPv4Address(octets[:4]) if key["ip_version"] == 4 else IPv6Address(octets)
    said["ds"] = words(decoded, said["ds_at"], said["ds_words"])
    said["int_ds"] = words(decoded, said["int_ds_at"], said["int_ds_words"])
    first = said["first_hop"]
    return said, [hop(decoded, number) for number in range(first, first + said["hops"])]
