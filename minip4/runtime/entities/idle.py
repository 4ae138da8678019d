"""Idle timeouts: notifications of entries without hits (spec 9.1.8, 16.5)."""

import itertools
from collections.abc import Iterator

from finsy.proto import p4r

from minip4.runtime.entities.tables import Tables

MOST_ENTRIES = 500  # entries per notification, which must stay well below a client's limit of 4 MB


class IdleTimeouts:
    """Reports the idle entries of one pipeline.

    An entry is reported each time that its idle timeout passes without a hit.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @property
    def active(self) -> bool:
        """Whether any entry has an idle timeout."""
        return self._tables.has_timeouts

    def collect(self) -> Iterator[p4r.StreamMessageResponse]:
        """Yield the notifications since the last call."""
        idle = self._tables.idle()
        while entries := list(itertools.islice(idle, MOST_ENTRIES)):
            response = p4r.StreamMessageResponse()
            response.idle_timeout_notification.table_entry.extend(entries)
            response.idle_timeout_notification.timestamp = self._tables.now_ns
            yield response
