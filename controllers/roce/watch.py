"""Watch list of the packets that a switch records. P4: p4src/roce/watch.p4."""

from dataclasses import dataclass
from enum import Enum

import finsy as fy

from controllers.flow_keys import known_bits, match, networks


class RecordAction(Enum):
    """Action of a switch for a watched packet.

    The values are names of actions of the watch list.
    """

    RECORD = "record"
    PACKET = "count_packet"  # adds 1 to a counter of the region
    BYTES = "count_bytes"  # adds the length of the packet


@dataclass(frozen=True)
class RecordedFlow:
    """A flow whose packets the switch records, each packet in one session.

    Addresses may be prefixes; None matches anything. If a packet matches several flows, the most
    specific flow applies. `sessions` are consecutive numbers of sessions, and a hash distributes
    flows over them. `cell` is the index of the counter that the packets increment in the region.

    Raises ValueError for invalid parameters.
    """

    src_addr: str
    dst_addr: str
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None
    sessions: range = range(1, 2)
    what: RecordAction = RecordAction.RECORD
    cell: int = 0

    def __post_init__(self) -> None:
        src, dst = networks(self)
        where = f"recorded flow {self.src_addr} -> {self.dst_addr}"
        if src.version != dst.version:
            raise ValueError(f"{where}: the addresses have different IP versions")
        numbers = self.sessions
        if not numbers or numbers.step != 1 or numbers[0] < 1 or numbers[-1] > 255:
            raise ValueError(f"{where}: {self.sessions}: expected session numbers from 1 to 255")
        if self.what is not RecordAction.RECORD and len(self.sessions) != 1:
            raise ValueError(f"{where}: expected one session for counters, got {self.sessions}")

    def entry(self) -> fy.P4TableEntry:
        """Return the entry of the flow for a switch's watch list."""
        first = self.sessions[0]
        given = {"first": first, "count": len(self.sessions)}
        if self.what is not RecordAction.RECORD:
            given = {"session": first, "cell": self.cell}
        table, *names = ("record_list", "ipv4", "protocol")
        if networks(self)[0].version == 6:
            table, *names = ("record_list_ipv6", "ipv6", "next_header")
        return fy.P4TableEntry(
            table, match=match(self, *names), priority=known_bits(self) + 1,
            action=fy.Action(self.what.value, **given),
        )  # fmt: skip
