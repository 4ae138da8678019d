"""Event counts of DTA switches: as rows, and as Prometheus metrics."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import finsy as fy

from controllers.dta import reporter, translator
from controllers.dta.sender import Sender
from controllers.dta.translator import Translator
from controllers.roce import running
from telemark.metrics import folder as export
from telemark.metrics.folder import MetricsFolder

if TYPE_CHECKING:
    from prometheus_client.core import Metric

OTHERS = "others"  # all reporters that are not tracked


@dataclass(frozen=True)
class Row:
    """An event count of a switch.

    `peer` is a reporter of a translator (its address and number, or OTHERS), a collector of a
    reporter, or a session of a translator.
    """

    switch: str
    role: str  # translator, reporter or session
    peer: str
    event: str
    count: int


async def read_events(
    switches: Mapping[str, fy.Switch], translators: Mapping[str, Translator],
    reporters: Mapping[str, Sender],
) -> list[Row]:  # fmt: skip
    """Read all event counts over P4Runtime."""
    rows: list[Row] = []

    def add(switch: str, role: str, peer: str, counts: Mapping[str, int]) -> None:
        rows.extend(Row(switch, role, peer, event, count) for event, count in counts.items())

    for name, each in translators.items():
        for number, of in enumerate([None, *each.reporters]):
            peer = f"{of.address} {of.number}" if of else OTHERS
            add(name, "translator", peer, await translator.events(switches[name], number))
        for session in each.sessions:
            counts = await running.events(switches[name], session)
            add(name, "session", str(session.number), counts)
    for name, sender in reporters.items():
        for number, to in enumerate(sender.translators, 1):
            add(name, "reporter", to, await reporter.events(switches[name], number))
    return rows


def metrics(rows: Sequence[Row]) -> "Iterator[Metric]":
    """Return event counts as metrics."""
    # takes 0.05 s, which runs without --metrics do not need
    from telemark.metrics.prometheus import counter  # noqa: PLC0415

    def of(role: str, event: str) -> "Iterator[tuple[Sequence[str], float]]":
        return (((r.switch, r.peer), r.count) for r in rows if (r.role, r.event) == (role, event))

    yield counter(
        "dta_reports", "Reports that a translator received, by result.",
        ("switch", "reporter", "result"),
        (((r.switch, r.peer, _snake(r.event)), r.count) for r in rows
         if r.role == "translator" and r.event in translator.OUTCOMES),
    )  # fmt: skip
    for role, peer, events in (
        ("translator", "reporter", [e for e in translator.EVENTS if e not in translator.OUTCOMES]),
        ("reporter", "collector", reporter.EVENTS),
        ("session", "session", running.EVENTS),
    ):
        for event in events:
            yield counter(
                f"dta_{role}_{_snake(event)}", f"Event of a {role}: {event}.", ("switch", peer),
                of(role, event),
            )  # fmt: skip


def publishing(
    folder: MetricsFolder | None, switches: Mapping[str, fy.Switch],
    translators: Mapping[str, Translator], reporters: Mapping[str, Sender],
) -> AbstractAsyncContextManager[None]:  # fmt: skip
    """Publish event counts as metrics of the run, every INTERVAL_S and at the end of the block."""

    async def collect() -> "Iterator[Metric]":
        return metrics(await read_events(switches, translators, reporters))

    return export.publishing(folder, "dta", collect)


def _snake(event: str) -> str:
    return event.replace(" ", "_")
