"""The load balancer: services and their real servers (reals).

Services and reals may change while packets arrive.

Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer" (NSDI 2016), 3.4. Each
real has a preference list, which is a permutation of all slots. The reals take slots in turn. In
its turn, a real takes the first free slot of its list.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import numpy as np
from numpy.typing import NDArray

from ebpf.datapath.rules import MAPPED
from ebpf.loader import LoadError, Map, ProgramObject

SOURCE = "ebpf/datapath/load_balancer.bpf.c"
MAX_SERVICES, MAX_REALS = 64, 4096  # as in load_balancer.bpf.c
PLACES = 65537  # the smaller size in the paper; it is prime, so each skip reaches all slots


def maglev_table(names: Sequence[str], places: int = PLACES) -> NDArray[np.int64]:
    """Return the index of the real for each slot.

    Any two reals have equal numbers of slots, or numbers that differ by one.

    The preference list of a real starts at an offset, and continues in steps (skip). Both are
    hashes of the name of the real. So if a real is added or removed, most slots keep their real.
    `places` is the number of slots; it is a prime larger than len(names).
    """
    offsets, skips = zip(*(_order(name, places) for name in names), strict=True)
    owners = [-1] * places
    at, left = list(offsets), places
    while True:
        for real, skip in enumerate(skips):
            place = at[real]
            while owners[place] >= 0:
                place = (place + skip) % places
            owners[place], at[real] = real, place
            left -= 1
            if not left:
                return np.array(owners)


def _order(name: str, places: int) -> tuple[int, int]:
    digest = hashlib.sha256(name.encode()).digest()
    offset, skip = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")
    return offset % places, skip % (places - 1) + 1


@dataclass(frozen=True)
class Service:
    """A service: the address, the port and the protocol to which clients connect."""

    address: IPv4Address | IPv6Address
    port: int
    protocol: int

    @property
    def key(self) -> bytes:
        """Return the key of the service for the maps of the program."""
        mapped = MAPPED if self.address.version == 4 else 0
        return (
            (int(self.address) | mapped).to_bytes(16, "big")
            + self.port.to_bytes(2, "big") + bytes([self.protocol, 0])
        )  # fmt: skip


class LoadBalancer:
    """The services of a loaded balancer. A loaded program may have only one LoadBalancer.

    When the program is loaded, the constant `balancer_mac` must be the MAC address of its device.
    """

    def __init__(self, loaded: ProgramObject) -> None:
        self.program = loaded.programs["load_balancer"]
        self._maps = loaded.maps
        self._tables: dict[Service, Map] = {}
        self._numbers: dict[Service, int] = {}
        # map from service to (map from name of a real to its index in `reals`)
        self._reals: dict[Service, dict[str, int]] = {}
        self._leaving: dict[Service, dict[str, int]] = {}
        self._free = [*range(MAX_REALS - 1, -1, -1)]
        self._next_id = 1

    def serve(self, service: Service, reals: Mapping[str, bytes]) -> None:
        """Set the reals of a service. `reals` is a map from name to MAC address.

        If an earlier real is not in this map, it gets no new connections, but keeps its old ones
        until remove(). Each packet sees either the old table or the new table. Raises LoadError if
        there is no room.
        """
        before = self._reals.get(service, {})
        coming = [name for name in reals if name not in before]
        if service not in self._numbers and len(self._numbers) == MAX_SERVICES:
            raise LoadError(f"no room for another service; at most {MAX_SERVICES} are supported")
        if not reals or len(coming) > len(self._free):
            raise LoadError(f"{len(reals)} reals: expected 1 to {len(self._free) + len(before)}")
        now = {name: before[name] if name in before else self._added(reals[name]) for name in reals}
        self._write_table(service, now)
        draining = self._leaving.setdefault(service, {})
        draining.update({name: at for name, at in before.items() if name not in now})
        self._reals[service] = now

    def remove(self, service: Service, name: str) -> None:
        """Remove a real. It must not be one of the reals of the last call of serve().

        Its connections move to other reals. Raises KeyError.
        """
        place = self._leaving[service].pop(name)
        self._maps["reals"][place] = np.zeros_like(self._maps["reals"][place])
        # the assignment returns when no packet uses the old table any more
        self._maps["tables"][self._numbers[service]] = self._tables[service].fd
        self._maps["sent"][place] = np.zeros_like(self._maps["sent"][place])
        self._free.append(place)

    def sent(self, service: Service) -> dict[str, tuple[int, int]]:
        """Return the numbers of packets and bytes sent to each real. Removed reals are included."""
        sent = self._maps["sent"].read()
        packets, size = sent["packets"].sum(axis=1), sent["bytes"].sum(axis=1)
        there = {**self._leaving[service], **self._reals[service]}
        return {name: (int(packets[at]), int(size[at])) for name, at in there.items()}

    def counts(self) -> dict[str, int]:
        """Return the number of packets for each outcome."""
        counts = self._maps["counts"].read()[0]
        return {name: int(counts[name].sum()) for name in counts.dtype.names}

    def forgotten(self) -> int:
        """Return how many connections were evicted from the table of connections."""
        return self.counts()["remembered"] - len(self._maps["flows"].read())

    def _added(self, mac: bytes) -> int:
        place = self._free.pop()
        real = np.zeros(1, self._maps["reals"].value)
        real["id"], real["mac"] = self._next_id, np.frombuffer(mac, np.uint8)
        self._maps["reals"][place] = real[0]
        self._next_id += 1
        return place

    def _write_table(self, service: Service, reals: Mapping[str, int]) -> None:
        number = self._numbers.setdefault(service, len(self._numbers))
        before = self._tables.get(service)
        places = np.array([*reals.values()])[maglev_table([*reals])]
        self._tables[service] = self._maps["tables"].put_new(number, places)
        if before is None:
            services = self._maps["services"]
            services[np.frombuffer(service.key, services.key)[0]] = number
        else:
            os.close(before.fd)
