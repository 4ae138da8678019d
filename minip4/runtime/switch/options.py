"""Options of a switch process."""

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
    """The link of a port.

    Rate 0 means unlimited; probabilities are between 0 and 1.
    """

    port: int
    rate_bps: int = 0
    delay_us: float = 0.0
    jitter_us: float = 0.0
    loss_probability: float = 0.0
    reorder_probability: float = 0.0
    reorder_us: float = 0.0
    queue_packets: int | None = None
    seed: int = 0

    @property
    def is_seed_alone(self) -> bool:
        """Return whether only the seed is given. Such a link can be added at run time."""
        return self == LinkOptions(self.port, seed=self.seed)


def link_fault(link: LinkOptions) -> str | None:
    """Return an error message if the options of a link contradict each other; otherwise None."""
    if link.jitter_us > link.delay_us:
        return f"jitter_us {link.jitter_us:g} is above delay_us {link.delay_us:g}"
    return None


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """The settings of one queue of a port.

    `priority` None means all queues of the port. In other fields, None means unchanged. Depths are
    in packets and bytes (0: no limit), rates in packets/s and bit/s (0: no limit).
    """

    port: int
    priority: int | None = None
    depth: int | None = None
    bytes: int | None = None
    rate_pps: int | None = None
    rate_bps: int | None = None


@dataclass(frozen=True, slots=True)
class SwitchOptions:
    program: Path
    interfaces: list[Interface]
    device_id: int
    grpc_server_addr: str
    grpc_server_ssl: bool
    grpc_server_cert: Path | None
    grpc_server_key: Path | None
    grpc_server_cacert: Path | None
    grpc_server_with_client_auth: bool
    p4info: Path | None
    cpu_port: int | None
    links: list[LinkOptions]
    queues: list[QueueOptions]
    priority_queues: int
    deflect_on_drop: bool
    seed: int
    clock_offset_us: int
    clock_drift_ppb: int
    pcap: Path | None
    snaplen: int
    drop_log: Path | None
    stamp_log: Path | None
    counters: Path | None
    sanitize: bool
    control: Path | None
    trace: Path | None

    def check(self) -> None:
        """Raise Minip4Error if options contradict each other."""
        ports = [interface.port for interface in self.interfaces]
        links = [link.port for link in self.links]
        _refuse_twice("port", ports)
        _refuse_twice("interface", [interface.name for interface in self.interfaces])
        _refuse_twice("link of port", [link.port for link in self.links if not link.is_seed_alone])
        for port in links:
            if port not in ports:
                raise Minip4Error(f"--link: port {port} has no interface (-i {port}@INTERFACE)")
        self._check_tls()

    def _check_tls(self) -> None:
        """Check that TLS options are complete.

        A switch never uses less security than requested.
        """
        given = {
            "--grpc-server-cert": self.grpc_server_cert is not None,
            "--grpc-server-key": self.grpc_server_key is not None,
            "--grpc-server-cacert": self.grpc_server_cacert is not None,
            "--grpc-server-with-client-auth": self.grpc_server_with_client_auth,
        }
        for option, is_given in given.items():
            if is_given and not self.grpc_server_ssl:
                raise Minip4Error(f"{option} needs --grpc-server-ssl")
        if self.grpc_server_ssl and not (self.grpc_server_cert and self.grpc_server_key):
            raise Minip4Error("--grpc-server-ssl needs --grpc-server-cert and --grpc-server-key")
        if (self.grpc_server_cacert is not None) != self.grpc_server_with_client_auth:
            raise Minip4Error(
                "use --grpc-server-cacert and --grpc-server-with-client-auth "
                "together; clients then need a certificate of that CA"
            )


def _refuse_twice(what: str, values: Sequence[object]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise Minip4Error(f"{what} {value} is given twice")
