"""The interface between P4Runtime and a data plane; the engine implements it.

Tables, actions and other objects have the names that the program gives them. Methods raise
EngineError (minip4/engine/errors.py), whose subclasses map to P4Runtime codes. The data plane
assigns the handles of entries, members and groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from minip4.engine.keys import ColourCounts, Digest, Entry, MatchKey, Rates
from minip4.engine.model import Program


class TableCalls(Protocol):
    """Tables, their default actions, and the direct resources of entries."""

    def table_add(self, table: str, key: Sequence[MatchKey], action: str, params: Sequence[int],
                  priority: int = 0) -> int:  # fmt: skip
        """Add an entry and return its handle.

        If several entries match a packet, the entry with the largest priority wins.
        """

    def table_add_member(
        self, table: str, key: Sequence[MatchKey], member: int, priority: int = 0
    ) -> int: ...

    def table_add_group(
        self, table: str, key: Sequence[MatchKey], group: int, priority: int = 0
    ) -> int: ...

    def table_find(self, table: str, key: Sequence[MatchKey], priority: int = 0) -> int | None: ...

    def table_modify(self, table: str, handle: int, action: str, params: Sequence[int]) -> None: ...

    def table_modify_member(self, table: str, handle: int, member: int) -> None: ...

    def table_modify_group(self, table: str, handle: int, group: int) -> None: ...

    def table_delete(self, table: str, handle: int) -> None: ...

    def table_entry(self, table: str, handle: int, *, time_ns: int = 0) -> Entry:
        """Return an entry with its state at the given time (see clock())."""

    def table_entries(self, table: str, *, time_ns: int = 0) -> list[Entry]: ...

    def table_set_default(self, table: str, action: str, params: Sequence[int]) -> None: ...

    def table_reset_default(self, table: str) -> None:
        """Restore the default action of the program."""

    def table_default(self, table: str) -> tuple[str | None, tuple[int, ...]]: ...

    def table_set_timeout(self, table: str, handle: int, timeout_ns: int) -> None:
        """Set the idle timeout of an entry; 0 disables it."""

    def table_has_timeouts(self, table: str) -> bool: ...

    def table_idle(self, table: str, time_ns: int) -> Iterator[tuple[Entry, int]]:
        """Yield each idle entry that was not reported yet, with the number of its timeouts."""

    def direct_counter_write(self, table: str, handle: int, packets: int, size: int) -> None: ...

    def direct_meter_set(self, table: str, handle: int, rates: Rates | None) -> None:
        """Set the meter rates of an entry; None makes all packets green."""

    def direct_meter_get(self, table: str, handle: int) -> Rates | None: ...

    def direct_meter_counts(self, table: str, handle: int) -> ColourCounts: ...

    def direct_meter_set_counts(self, table: str, handle: int, counts: ColourCounts) -> None: ...


class ProfileCalls(Protocol):
    """Action profiles: members and groups."""

    def member_add(self, profile: str, action: str, params: Sequence[int]) -> int: ...

    def member_modify(
        self, profile: str, member: int, action: str, params: Sequence[int]
    ) -> None: ...

    def member_delete(self, profile: str, member: int) -> None: ...

    def group_add(self, profile: str) -> int: ...

    def group_set_members(self, profile: str, group: int, members: Sequence[int]) -> None:
        """Set the members of a group; the weight of a member is how often it occurs."""

    def group_delete(self, profile: str, group: int) -> None: ...


class StateCalls(Protocol):
    """Counters, registers, meters, value sets and digests."""

    def counter_size(self, name: str) -> int: ...

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        """Return the packet count and the byte count of a counter cell."""

    def counter_read_all(self, name: str) -> list[tuple[int, int]]: ...

    def counter_write(
        self, name: str, index: int, packets: int, size: int, *, count: int = 1
    ) -> None:
        """Write `count` cells, starting with cell `index`."""

    def register_read(self, name: str, index: int) -> int: ...

    def register_read_all(self, name: str) -> list[int]: ...

    def register_write(self, name: str, index: int, value: int, *, count: int = 1) -> None: ...

    def meter_set_rates(self, name: str, index: int, rates: Rates | None) -> None: ...

    def meter_get_rates(self, name: str, index: int) -> Rates | None: ...

    def meter_counts(self, name: str, index: int) -> ColourCounts: ...

    def meter_set_counts(self, name: str, index: int, counts: ColourCounts) -> None: ...

    def value_set_set(self, name: str, values: Sequence[int]) -> None: ...

    def digests(self) -> list[Digest]:
        """Return the digests since the last call."""


class ReplicationCalls(Protocol):
    """Multicast groups and clone sessions; replicas are (port, instance) pairs."""

    def multicast_set(self, group: int, replicas: Sequence[tuple[int, int]]) -> None: ...

    def multicast_delete(self, group: int) -> None: ...

    def mirror_set(
        self, session: int, replicas: Sequence[tuple[int, int]], truncate_bytes: int = 0
    ) -> None: ...

    def mirror_delete(self, session: int) -> None: ...


class PortCalls(Protocol):
    """Ports, links and queues. P4Runtime cannot change them; `minip4 control` can."""

    def set_port(self, port: int, is_up: bool) -> None: ...

    def set_link(
        self, port: int, *, rate_bps: int, delay_ns: int, jitter_ns: int, loss: float,
        reorder: float, reorder_ns: int, seed: int,
    ) -> None: ...  # fmt: skip

    def set_priorities(self, count: int) -> None: ...

    def deflect_on_drop(self, *, is_on: bool) -> None: ...

    def set_cpu_port(self, port: int) -> None: ...

    def set_queue(
        self, port: int, priority: int, *, depth_packets: int, depth_bytes: int, rate_pps: int,
        rate_bps: int,
    ) -> None: ...  # fmt: skip

    def queues(self, port: int, count: int) -> dict[str, dict[str, int]]: ...

    def drops(self) -> dict[str, dict[str, int]]:
        """Return the number of dropped packets by port (if known) and reason (DROP_REASONS)."""

    def counters(self) -> dict[str, Any]: ...

    def port_counters(self, port: int) -> dict[str, Any]: ...

    def holds(self) -> dict[str, dict[str, int]]: ...

    def packets_waited(self) -> tuple[int, int]: ...


class Dataplane(TableCalls, ProfileCalls, StateCalls, ReplicationCalls, PortCalls, Protocol):
    """A running program."""

    @property
    def program(self) -> Program: ...

    @property
    def clock(self) -> Callable[[], int]:
        """Return the time of the data plane, in nanoseconds."""

    def batch(self) -> AbstractContextManager[None]:
        """Apply the writes of a `with` block atomically when the block ends."""

    def close(self) -> None:
        """Free the data plane."""


D = TypeVar("D", bound=Dataplane)
