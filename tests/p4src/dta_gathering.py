"""A translator that batches reports in lists, in its cache of postcards, and in sketches.

The memory that it writes belongs to the same process.
"""

from typing import Any

import numpy as np
from dta_path import CPU_PORT, SERVICE, Translator
from numpy.typing import NDArray

from collectors.dta.append import batch
from collectors.dta.postcarding import CHUNK
from collectors.dta.sketch_merge import COLUMN
from collectors.roce.region import Region
from minip4.engine.keys import Exact

PLAN = "TranslatorIngress.translate.plan_gathering"
LIST, ROW, COLUMNS = 2, 3, 4  # what a flush request can name: see gather.p4
NEIGHBOURS = 8  # number of columns that are written together


class Gatherer(Translator):
    """A translator whose stores have a session and a region each.

    The region of the responder is longer than the region that the translator knows. The translator
    must not write to the rest.
    """

    def __init__(self) -> None:
        super().__init__()
        self.beyond: list[NDArray[np.uint8]] = []

    def lists(
        self, size: int, batches: int, *, count: int = 4, first: int = 0, session: int = 1,
        length: int | None = None,
    ) -> NDArray[np.void]:  # fmt: skip
        """Configure lists 0 to `count` - 1. Return the memory of their rings: (count, batches)."""
        records = self._memory(session, batch(size), count * batches, length)
        self.add(f"{PLAN}.plan_append.list_stores", [Exact(SERVICE)], f"{PLAN}.plan_append.append",
                 [session, first, count, batches, size])  # fmt: skip
        return records.reshape(count, batches)

    def cache(
        self, slots: int = 1 << 12, rows: int = 1 << 15, *, first_row: int = 0, session: int = 2,
        sessions: int = 1,
    ) -> list[NDArray[np.void]]:  # fmt: skip
        """Configure the store of postcards, with a region per session.

        Return the chunks of each region.
        """
        memories = [self._memory(session + n, CHUNK, slots) for n in range(sessions)]
        self.add(f"{PLAN}.plan_postcard.postcard_stores", [Exact(SERVICE)],
                 f"{PLAN}.plan_postcard.collect",
                 [session, sessions, slots - 1, first_row, rows - 1])  # fmt: skip
        return memories

    def sketches(
        self, reporters: int, *, count: int = 2, columns: int = 16, first: int = 0,
        session: int = 3,
    ) -> NDArray[np.void]:  # fmt: skip
        """Configure sketches 0 to `count` - 1, to which `reporters` reporters send columns.

        Return the memory of the columns: (count, columns).
        """
        records = self._memory(session, COLUMN, count * columns)
        self.add(f"{PLAN}.plan_sketch_merge.sketch_stores", [Exact(SERVICE)],
                 f"{PLAN}.plan_sketch_merge.merge",
                 [session, first, count, columns, reporters])  # fmt: skip
        return records.reshape(count, columns)

    def _memory(
        self, session: int, record: np.dtype[Any], count: int, length: int | None = None
    ) -> NDArray[np.void]:
        region = Region(record, 2 * count)
        length = count * record.itemsize if length is None else length
        self.session(session, record, count, length=length, region=region)
        self.beyond.append(region.bytes[length:])
        return region.records[:count]

    def flush(self, record: int, whose: int, service: int = SERVICE) -> int:
        """Flush reports that wait for others.

        Return the number of requests that the translator sends.
        """
        index = service << 24 | whose
        request = record.to_bytes(2, "big") + index.to_bytes(4, "big")
        # an interface of simple_switch rejects frames shorter than an Ethernet header
        return self.report(request.ljust(14, b"\0"), port=CPU_PORT)
