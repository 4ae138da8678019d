"""Kinds of reports of a DTA reporter, and watched flows. P4: p4src/dta/reporter_*.p4."""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

import finsy as fy

from controllers.dta.stores import KEY_WRITE_WORDS, MAX_COPIES
from controllers.flow_keys import known_bits, match, networks

ALL = (1 << 32) - 1  # full sampling
RECORD_WORDS = 7
NODES = 1 << 24
NEVER_US = (1 << 48) - 1


class ReportKind(enum.IntFlag):
    """Kinds of reports about a flow."""

    START = 0x01  # Append: the flow is new, or was idle
    RESENT = 0x02  # Append: TCP retransmission
    DROPPED = 0x04  # Append: the switch dropped a packet
    MOVED = 0x08  # Append: the path changed; INT sinks only
    COUNT = 0x10  # Key-Increment: packet or byte counts
    DATA = 0x20  # Key-Write: words of the flow's record
    POSTCARD = 0x40  # Postcarding: node id of the switch


class Word(enum.IntEnum):
    """Words of a flow's record."""

    PORTS = 0  # ingress port (16 bits) and egress port
    PACKETS = 1
    BYTES = 2
    LATENCY = 3  # in us
    QUEUE = 4  # queue number (8 bits) and number of waiting packets
    NODE = 5
    TIME = 6  # time of the common clock in us, modulo 2^32


@dataclass(frozen=True)
class WatchedFlow:
    """A flow on the watch list: its match key, and the kinds of reports about it.

    Addresses may be prefixes; None matches anything. If a packet matches several flows, the most
    specific flow applies. Raises ValueError for invalid parameters.
    """

    src_addr: str
    dst_addr: str
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None
    wanted: ReportKind = ReportKind.DATA

    def __post_init__(self) -> None:
        where = f"watched flow {self.src_addr} -> {self.dst_addr}"
        if {network.version for network in networks(self)} != {4}:
            raise ValueError(f"{where}: expected IPv4 addresses")
        if not self.wanted:
            raise ValueError(f"{where}: wanted is empty; expected some of {[*ReportKind]}")

    def entry(self) -> fy.P4TableEntry:
        """Return the flow's entry in a reporter's watch list."""
        return fy.P4TableEntry(
            "watch_list", match=match(self, "ipv4", "protocol"), priority=known_bits(self) + 1,
            action=fy.Action("watch", wanted=int(self.wanted)),
        )  # fmt: skip


@dataclass(frozen=True)
class Data:
    """Key-Write reports of `words` words of a flow's record, from word `first` on.

    A flow is reported when it is new, and when masked bits of a word in `changes` change. In
    addition, a fraction `share` of the packets triggers reports. Raises ValueError for invalid
    parameters.
    """

    words: int = RECORD_WORDS
    first: Word = Word.PORTS
    changes: tuple[tuple[Word, int], ...] = ((Word.PORTS, 0xFFFFFFFF),)
    share: float = 0.0
    redundancy: int = 2
    immediate: bool = False
    retransmittable: bool = False

    def __post_init__(self) -> None:
        if self.words not in KEY_WRITE_WORDS or self.first + self.words > RECORD_WORDS:
            raise ValueError(
                f"data of {self.words} words from {self.first.name} on: expected one of "
                f"{KEY_WRITE_WORDS} words, within the {RECORD_WORDS} words of a record"
            )
        if not 0 <= self.share <= 1:
            raise ValueError(f"share {self.share}: expected 0 to 1")
        for word, mask in self.changes:
            if not 0 <= mask < 1 << 32:
                raise ValueError(f"mask {mask:#x} of {word.name}: expected 32 bits")
        _check_redundancy(self.redundancy)

    @property
    def mask(self) -> int:
        """Mask of those bits of the record whose change triggers a report."""
        return sum(mask << 32 * (RECORD_WORDS - 1 - word) for word, mask in self.changes)

    def entry(self, plan: str) -> fy.P4TableEntry:
        """Return the entry that enables these reports in the control `plan`."""
        return _default(f"{plan}.data_reports", f"{plan}.write_data", redundancy=self.redundancy,
                        words=self.words, **_flags(self))  # fmt: skip


@dataclass(frozen=True)
class Paths:
    """Key-Write reports of paths. INT sinks send them.

    Each report has one path, in seven data words (collectors/dta/int_paths.py).

    Raises ValueError for invalid parameters.
    """

    redundancy: int = 2
    immediate: bool = False
    retransmittable: bool = False

    def __post_init__(self) -> None:
        _check_redundancy(self.redundancy)

    def entry(self, plan: str) -> fy.P4TableEntry:
        """See Data."""
        return _default(f"{plan}.data_reports", f"{plan}.write_data", redundancy=self.redundancy,
                        words=RECORD_WORDS, **_flags(self))  # fmt: skip


@dataclass(frozen=True)
class Counts:
    """Key-Increment reports of the packet counts or byte counts of a flow.

    Raises ValueError for invalid parameters.
    """

    in_bytes: bool = False
    redundancy: int = 2
    immediate: bool = False
    retransmittable: bool = False

    def __post_init__(self) -> None:
        _check_redundancy(self.redundancy)

    def entry(self, plan: str) -> fy.P4TableEntry:
        """See Data."""
        name = "count_bytes" if self.in_bytes else "count_packets"
        return _default(f"{plan}.count_reports", f"{plan}.{name}", redundancy=self.redundancy,
                        **_flags(self))  # fmt: skip


@dataclass(frozen=True)
class Postcards:
    """Postcards about a flow from this switch.

    Each event that triggers a report of Data also triggers a postcard.

    The hop number is the number of routers that the packet passed before this switch. The switch
    derives it from the TTL. The value of the postcard is the `node_id` of the switch. An INT sink
    knows the whole path, and sends the postcards of all hops. Raises ValueError for invalid
    parameters.
    """

    redundancy: int = 2
    immediate: bool = False
    retransmittable: bool = False

    def __post_init__(self) -> None:
        _check_redundancy(self.redundancy)

    def entry(self, plan: str) -> fy.P4TableEntry:
        """See Data."""
        return _default(f"{plan}.postcards", f"{plan}.write_postcard", redundancy=self.redundancy,
                        **_flags(self))  # fmt: skip


@dataclass(frozen=True)
class EventList:
    """List to which one kind of events is appended.

    The list is at the nth translator of the reporter; n starts at 1.
    """

    number: int
    translator: int = 1
    immediate: bool = False
    retransmittable: bool = True

    def entry(self, plan: str, want: ReportKind) -> fy.P4TableEntry:
        """Return the entry that enables Appends of one kind of events in the control `plan`."""
        match = fy.Match({"event": _EVENTS[want]})
        action = fy.Action(f"{plan}.append", translator=self.translator, number=self.number,
                           **_flags(self))  # fmt: skip
        return fy.P4TableEntry(f"{plan}.event_lists", match=match, action=action)


Reports = Data | Paths | Counts | Postcards | EventList
"""Configuration of a kind of report."""
_EVENTS = {ReportKind.START: 0, ReportKind.RESENT: 1, ReportKind.DROPPED: 2, ReportKind.MOVED: 3}
_TABLES = {
    ReportKind.DATA: "data_reports",
    ReportKind.COUNT: "count_reports",
    ReportKind.POSTCARD: "postcards",
}


def entries_of(
    plan: str, reports: Mapping[ReportKind, Reports | None]
) -> Iterator[fy.P4TableEntry]:
    """Return the entries that enable reports in the control `plan`.

    A kind of report whose configuration is None is disabled.
    """
    for want, how in reports.items():
        if isinstance(how, EventList):
            yield how.entry(plan, want)
        elif how is not None:
            yield how.entry(plan)
    for want, table in _TABLES.items():
        if reports.get(want) is None:
            yield _default(f"{plan}.{table}", f"{plan}.no_report")


def flow_key(
    src_addr: str, dst_addr: str, ports: tuple[int, int], protocol: int = 17, node: int = 0
) -> int:
    """Return the 128-bit key of a flow in reports. `node` is the `key_node` of the reporter."""
    addresses = int(IPv4Address(src_addr)) << 32 | int(IPv4Address(dst_addr))
    return (addresses << 32 | ports[0] << 16 | ports[1]) << 32 | protocol << 24 | node


def _default(table: str, action: str, **parameters: int) -> fy.P4TableEntry:
    return fy.P4TableEntry(table, action=fy.Action(action, **parameters), is_default_action=True)


def _flags(reports: Reports) -> dict[str, int]:
    return {
        "immediate": int(reports.immediate), "retransmittable": int(reports.retransmittable)
    }  # fmt: skip


def _check_redundancy(redundancy: int) -> None:
    if not 1 <= redundancy <= MAX_COPIES:
        raise ValueError(f"redundancy {redundancy}: expected 1 to {MAX_COPIES}")
