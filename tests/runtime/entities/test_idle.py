"""Notifications about idle entries contain all idle entries, in messages of bounded size."""

from collections.abc import Iterator
from typing import Any, cast

from finsy.proto import p4r

from minip4.runtime.entities.tables import MOST_ENTRIES, IdleTimeouts


class ManyIdle:
    """Tables with `count` idle entries. idle() yields these one by one."""

    def __init__(self, count: int) -> None:
        self.count, self.now_ns = count, 1000

    def idle(self) -> Iterator[p4r.TableEntry]:
        for number in range(self.count):
            self.now_ns += 1
            yield p4r.TableEntry(priority=number)


def test_idle_entries_are_reported_in_several_messages_of_limited_size() -> None:
    tables = ManyIdle(2 * MOST_ENTRIES + 1)
    idle = IdleTimeouts(cast(Any, tables))
    sent = [response.idle_timeout_notification for response in idle.collect()]
    assert [len(some.table_entry) for some in sent] == [MOST_ENTRIES, MOST_ENTRIES, 1]
    assert [e.priority for some in sent for e in some.table_entry] == [*range(tables.count)]
    assert [some.timestamp for some in sent] == [
        1000 + MOST_ENTRIES, 1000 + 2 * MOST_ENTRIES, 1000 + tables.count,
    ]  # fmt: skip
    tables.count = 0
    assert not [*idle.collect()]
