"""Stores: memory regions for the reports of one primitive. P4: p4src/dta/."""

from dataclasses import dataclass
from typing import Protocol

import finsy as fy

from controllers.roce.queue_pair import QueuePair

MAX_COPIES = 8
NO_REGISTERS = ("none", range(0))
KEY_WRITE_WORDS = (1, 3, 7)
COUNTER_BYTES = 8


class Store(Protocol):
    """Destination of a primitive's reports: one or several sessions.

    If there are several sessions, a hash of the key selects one.
    """

    @property
    def sessions(self) -> range: ...

    @property
    def registers(self) -> tuple[str, range]:
        """Name and range of those registers of the translator that belong to this store."""

    def entries(self, service: int) -> list[fy.P4TableEntry]:
        """Return the translator's table entries for this store.

        `service` is the service number.
        """

    def problem_of(self, session: QueuePair) -> str:
        """Return why a session is unsuitable; "" if it is suitable."""


@dataclass(frozen=True)
class KeyWriteStore:
    """Store for Key-Writes. A value has `words` words.

    Each session has `slots` slots; `slots` is a power of two.

    A checksum has 8 to 31 bits. Raises ValueError for invalid parameters.
    """

    words: int
    slots: int
    checksum_bits: int = 31
    sessions: range = range(1, 2)

    def __post_init__(self) -> None:
        where = f"Key-Write store of {self.words} words"
        if self.words not in KEY_WRITE_WORDS:
            raise ValueError(f"{where}: expected one of {KEY_WRITE_WORDS}")
        if not 8 <= self.checksum_bits <= 31:
            raise ValueError(f"{where}: checksums of {self.checksum_bits} bits: expected 8 to 31")
        check_slots(where, self.slots, self.sessions)

    @property
    def registers(self) -> tuple[str, range]:
        """See Store."""
        return NO_REGISTERS

    @property
    def slot_bytes(self) -> int:
        """Length of a slot in bytes, including the checksum and the data."""
        return 4 + 4 * self.words

    def entries(self, service: int) -> list[fy.P4TableEntry]:
        """See Store."""
        match = fy.Match({"service": service, "words": self.words})
        action = fy.Action(
            "write_key", **spread_over(self.sessions), slot_mask=self.slots - 1,
            checksum_mask=(1 << self.checksum_bits) - 1,
        )  # fmt: skip
        return [fy.P4TableEntry("key_write_stores", match=match, action=action)]

    def problem_of(self, session: QueuePair) -> str:
        """See Store."""
        if session.has_atomics:
            return "it is a CounterSession: expected a WriteSession"
        return too_small(session, self.slots * self.slot_bytes)


@dataclass(frozen=True)
class CounterStore:
    """Store for Key-Increments. A row has `slots` counters, a power of two; copy n is in row n.

    Raises ValueError for invalid parameters.
    """

    slots: int
    rows: int = MAX_COPIES
    sessions: range = range(1, 2)

    def __post_init__(self) -> None:
        where = f"Key-Increment store of {self.rows} rows"
        if not 1 <= self.rows <= MAX_COPIES:
            raise ValueError(f"{where}: expected 1 to {MAX_COPIES}")
        check_slots(where, self.slots, self.sessions)

    @property
    def registers(self) -> tuple[str, range]:
        """See Store."""
        return NO_REGISTERS

    def entries(self, service: int) -> list[fy.P4TableEntry]:
        """See Store."""
        action = fy.Action("add_to_key", **spread_over(self.sessions), slot_mask=self.slots - 1)
        match = fy.Match({"service": service})
        return [fy.P4TableEntry("counter_stores", match=match, action=action)]

    def problem_of(self, session: QueuePair) -> str:
        """See Store."""
        if not session.has_atomics:
            return "it is a WriteSession: expected a CounterSession"
        return too_small(session, self.rows * self.slots * COUNTER_BYTES)


def spread_over(sessions: range) -> dict[str, int]:
    """Return the parameters of an action that distributes reports over sessions by a hash."""
    return {"first_session": sessions[0], "sessions": len(sessions)}


def check_slots(where: str, slots: int, sessions: range) -> None:
    """Check slots and sessions. Raises ValueError; its message begins with `where`."""
    if slots.bit_count() != 1 or slots > 1 << 31:
        raise ValueError(f"{where}: {slots} slots: expected a power of 2 up to 2^31")
    if not sessions or sessions.step != 1 or sessions[0] < 1 or sessions[-1] > 255:
        raise ValueError(f"{where}: {sessions}: expected session numbers from 1 to 255")


def too_small(session: QueuePair, needed: int) -> str:
    """Return an error message if a session's region has less than `needed` bytes; else ""."""
    if session.target.length < needed:
        return f"a region of {session.target.length} bytes: expected at least {needed}"
    return ""
