"""Access lists of INT switches; the P4 side is p4src/int/ingress.p4."""

from dataclasses import dataclass

import finsy as fy

from controllers.flow_keys import known_bits, match, networks


@dataclass(frozen=True)
class Denied:
    """IPv4 packets that switches drop; their drop reports say "access list".

    Addresses may be prefixes, and what is None is left open: of a packet as it is between switches,
    where INT's own port may have taken the place of the original one. `switches` are those that
    drop; None: all. Raises ValueError for what cannot be.
    """

    src_addr: str = "0.0.0.0/0"
    dst_addr: str = "0.0.0.0/0"
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None
    switches: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if any(network.version != 4 for network in networks(self)):
            raise ValueError(
                f"denied {self.src_addr} -> {self.dst_addr}: expected addresses of IPv4"
            )

    def is_at(self, switch: str) -> bool:
        """Whether a switch has it on its access list."""
        return self.switches is None or switch in self.switches

    def entry(self) -> fy.P4TableEntry:
        """Its entry in a switch's access list."""
        return fy.P4TableEntry(
            "access_list", match=match(self, "ipv4", "protocol"), priority=known_bits(self) + 1,
            action=fy.Action("deny"),
        )  # fmt: skip
