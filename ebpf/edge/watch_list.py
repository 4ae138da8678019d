"""The watch list of an edge program: the match keys of flows (watch_list.h)."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Any

import numpy as np

from ebpf.datapath.rules import address_of, length_of
from ebpf.loader import LoadError, ProgramObject

MAX_FLOWS, MAX_MASKS = 1024, 16  # as in watch_list.h
KINDS = ("watched", "unwatched", "tagged", "not_ip", "malformed", "unwritten")  # as in headers.h
ALL_BITS = (1 << 128) - 1

Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Key:
    """Match fields of a flow. None matches any value.

    The two subnets must have the same IP version. `flow_mon_id` is the FlowMonID in the AltMark
    option.
    """

    source: Network
    destination: Network
    protocol: int | None = None
    source_port: int | None = None
    destination_port: int | None = None
    flow_mon_id: int | None = None

    def mask(self, kind: np.dtype[Any]) -> bytes:
        """Return the mask of this key: a `struct flow_key` in which all compared bits are ones."""
        ones = np.zeros(1, kind)
        for name in ("source", "destination"):
            length = length_of(getattr(self, name))
            _put_address(ones, name, ALL_BITS << (128 - length) & ALL_BITS)
        ones["version"] = 0xFF
        for name in ("protocol", "source_port", "destination_port", "flow_mon_id"):
            if getattr(self, name) is not None:
                ones[name] = (1 << 8 * kind[name].itemsize) - 1
        return ones.tobytes()

    def packed(self, kind: np.dtype[Any], mask: int) -> Any:
        """Return this key as a `struct flow_key`. `mask` is the number of its mask."""
        key = np.zeros(1, kind)
        for name in ("source", "destination"):
            _put_address(key, name, address_of(getattr(self, name)))
        key["version"] = self.source.version
        for name in ("protocol", "source_port", "destination_port", "flow_mon_id"):
            key[name] = getattr(self, name) or 0
        key["mask"] = mask
        return key[0]


class WatchList:
    """Watch list of a loaded program, and the program's packet counters."""

    def __init__(self, loaded: ProgramObject) -> None:
        self._masks, self._flows = loaded.maps["masks"], loaded.maps["watched_flows"]
        self._kinds = loaded.maps["kinds"]
        self._shared = loaded.maps[".bss"].mapped()[0]
        self._masks_there: list[bytes] = []  # b"" means that no key uses the mask with this index

    def put(self, flows: Mapping[Key, Mapping[str, int]]) -> None:
        """Watch these flows, and no others.

        The values are fields of the `struct watched` of the program.

        Raises LoadError if there are too many flows or masks.
        """
        kind = self._flows.key
        masks = {key: key.mask(kind) for key in flows}
        slots = [mask if mask in masks.values() else b"" for mask in self._masks_there]
        for mask in dict.fromkeys(masks.values()):
            if mask not in slots:
                free = slots.index(b"") if b"" in slots else len(slots)
                slots[free : free + 1] = [mask]
        if len(flows) > MAX_FLOWS or len(slots) > MAX_MASKS:
            raise LoadError(
                f"no room in an edge program for {len(flows)} flows with {len(slots)} masks; at "
                f"most {MAX_FLOWS} flows and {MAX_MASKS} masks are supported"
            )
        packed = {key: key.packed(kind, slots.index(mask)) for key, mask in masks.items()}
        wanted = {key.tobytes() for key in packed.values()}
        for key, _ in self._flows.items():
            if key.tobytes() not in wanted:
                del self._flows[key]
        for number, mask in enumerate(slots):
            if mask:
                self._masks[number] = np.frombuffer(mask, kind)[0]
        self._masks_there = slots
        self._shared["masks_used"] = len(slots)
        for key, fields in flows.items():
            value = np.zeros(1, self._flows.value)
            for name, number in fields.items():
                value[name] = number
            self._flows[packed[key]] = value[0]

    def kinds(self) -> dict[str, int]:
        """Return the number of packets of each kind. Each packet has exactly one kind."""
        counts = self._kinds.read().sum(axis=1)
        return dict(zip(KINDS, map(int, counts), strict=True))


def _put_address(record: np.ndarray[Any, Any], name: str, address: int) -> None:
    record[name] = np.frombuffer(address.to_bytes(16, "big"), record.dtype[name].base)
