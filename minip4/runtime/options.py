"""What a switch is told when it starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minip4.errors import Minip4Error


@dataclass(frozen=True, slots=True)
class Interface:
    port: int
    name: str


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """The link behind a port: rate in bit/s (0: none), probabilities 0..1, queue in packets."""

    port: int
    rate_bps: int = 0
    delay_us: float = 0.0
    jitter_us: float = 0.0
    loss: float = 0.0
    reorder: float = 0.0
    reorder_us: float = 0.0
    queue: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SwitchOptions:
    program: Path
    interfaces: list[Interface]
    device_id: int
    grpc_server_addr: str
    p4info: Path | None
    cpu_port: int | None
    links: list[LinkOptions]
    seed: int
    clock_offset_us: int
    pcap: Path | None
    drop_log: Path | None
    counters: Path | None
    sanitize: bool

    def check(self) -> None:
        """Raise Minip4Error for options that contradict each other."""
        ports = [interface.port for interface in self.interfaces]
        links = [link.port for link in self.links]
        _refuse_twice("port", ports)
        _refuse_twice("interface", [interface.name for interface in self.interfaces])
        _refuse_twice("link of port", links)
        if self.cpu_port in ports:
            raise Minip4Error(f"port {self.cpu_port} cannot be the CPU port and an interface too")
        for port in links:
            if port not in ports:
                raise Minip4Error(f"--link: port {port} has no interface (-i {port}@INTERFACE)")


def _refuse_twice(what: str, values: Sequence[object]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise Minip4Error(f"{what} {value} is given twice")
