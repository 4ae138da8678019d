"""Idle timeouts: which entries no packet has hit for so long (spec 9.1.8, 16.5)."""

from finsy.proto import p4r

from minip4.runtime.tables import Tables


class IdleTimeouts:
    """Watches the entries of one pipeline that have an idle timeout.

    An entry is reported once for each time that its timeout passes without a hit.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._reported: dict[bytes, int] = {}  # an entry, and how many timeouts it has been idle

    @property
    def active(self) -> bool:
        """Whether any entry has an idle timeout."""
        return self._tables.has_timeouts

    def collect(self) -> p4r.StreamMessageResponse | None:
        """What is to be told since the last call."""
        response = p4r.StreamMessageResponse()
        notification = response.idle_timeout_notification
        idle_for: dict[bytes, int] = {}
        for entry, passed in self._tables.idle():
            key = entry.SerializeToString(deterministic=True)
            idle_for[key] = passed
            if passed > self._reported.get(key, 0):
                notification.table_entry.append(entry)
        self._reported = idle_for
        notification.timestamp = self._tables.now_ns
        return response if notification.table_entry else None
