"""The load balancer: services, their reals and Maglev tables, which can change under traffic."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import numpy as np

from ebpf.datapath import maglev
from ebpf.datapath.rules import MAPPED
from ebpf.loader import LoadError, Map, ProgramObject

SOURCE = "ebpf/datapath/load_balancer.bpf.c"
MAX_SERVICES, MAX_REALS = 64, 4096  # as in load_balancer.bpf.c


@dataclass(frozen=True)
class Service:
    """What clients connect to."""

    address: IPv4Address | IPv6Address
    port: int
    protocol: int

    @property
    def key(self) -> bytes:
        """As the program's maps have it."""
        mapped = MAPPED if self.address.version == 4 else 0
        return (
            (int(self.address) | mapped).to_bytes(16, "big")
            + self.port.to_bytes(2, "big") + bytes([self.protocol, 0])
        )  # fmt: skip


class LoadBalancer:
    """Services of a loaded balancer; one LoadBalancer writes to a program's maps, and no other.

    Load it with the constant `balancer_mac`, the address of the device that it is attached to.
    """

    def __init__(self, loaded: ProgramObject) -> None:
        self.program = loaded.programs["load_balancer"]
        self._maps = loaded.maps
        self._tables: dict[Service, Map] = {}
        self._numbers: dict[Service, int] = {}
        self._reals: dict[Service, dict[str, int]] = {}  # by name the place among `reals`
        self._leaving: dict[Service, dict[str, int]] = {}
        self._free = [*range(MAX_REALS - 1, -1, -1)]
        self._next_id = 1

    def serve(self, service: Service, reals: Mapping[str, bytes]) -> None:
        """Have a service's connections go to these reals, MAC addresses by names, from now on.

        Reals that it had and that are not among these get no new connection, and keep those they
        have until remove(). A packet sees the old table or the new one, whole. Raises LoadError
        where there is no room.
        """
        before = self._reals.get(service, {})
        coming = [name for name in reals if name not in before]
        if service not in self._numbers and len(self._numbers) == MAX_SERVICES:
            raise LoadError(f"no room for another service: expected {MAX_SERVICES} at most")
        if not reals or len(coming) > len(self._free):
            raise LoadError(f"{len(reals)} reals: expected 1 to {len(self._free) + len(before)}")
        now = {name: before[name] if name in before else self._added(reals[name]) for name in reals}
        self._write_table(service, now)
        exit_stack = self._leaving.setdefault(service, {})
        exit_stack.update({name: at for name, at in before.items() if name not in now})
        self._reals[service] = now

    def remove(self, service: Service, name: str) -> None:
        """Have a real that serve() left out go: its connections move. Raises KeyError."""
        place = self._leaving[service].pop(name)
        self._maps["reals"][place] = np.zeros_like(self._maps["reals"][place])
        self._maps["tables"][self._numbers[service]] = self._tables[service].fd  # the kernel waits
        self._maps["sent"][place] = np.zeros_like(self._maps["sent"][place])
        self._free.append(place)

    def sent(self, service: Service) -> dict[str, tuple[int, int]]:
        """Packets and bytes that went to each real, of those that leave, too."""
        sent = self._maps["sent"].read()
        packets, size = sent["packets"].sum(axis=1), sent["bytes"].sum(axis=1)
        there = {**self._leaving[service], **self._reals[service]}
        return {name: (int(packets[at]), int(size[at])) for name, at in there.items()}

    def counts(self) -> dict[str, int]:
        """Return the number of packets by outcome."""
        counts = self._maps["counts"].read()[0]
        return {name: int(counts[name].sum()) for name in counts.dtype.names}

    def forgotten(self) -> int:
        """Connections that had to make room for others: those remembered that are not there."""
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
        places = np.array([*reals.values()])[maglev.table([*reals])]
        self._tables[service] = self._maps["tables"].put_new(number, places)
        if before is None:
            services = self._maps["services"]
            services[np.frombuffer(service.key, services.key)[0]] = number
        else:
            os.close(before.fd)
