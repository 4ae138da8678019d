"""One run of a DTA system: start, load, queries and stop."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import finsy as fy
from rich.console import Console

from collectors.dta.load import Load
from collectors.roce.region import Region
from controllers.connection import connections, cpu_ports
from controllers.dta import reporter, translator
from controllers.dta.batching import (
    ListStore,
    PostcardStore,
    SketchStore,
    flush_columns,
    flush_lists,
    flush_rows,
)
from controllers.dta.manager.configuration import Configuration, Kept
from controllers.dta.manager.stores import Memory
from controllers.dta.manager.system import Links, System, file_of, system
from controllers.dta.metrics import Row, publishing, read_events
from controllers.roce import running
from telemark.errors import InvalidRunError, TestbedError
from telemark.network import Network
from telemark.results.files import make_folder
from telemark.results.report import table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import Traffic

# expected drop reasons: a switch drops reports, NACKs and responses after it has handled them
EXPECTED = ("ingress", "miss", "egress")
LEAD_NS, SETTLE_NS = 100_000_000, 500_000_000
CONSOLE = Console()
STORES = "stores"  # subfolder of the results


def run_network(made: Configuration, options: argparse.Namespace, run: Run) -> int:
    """Run a DTA system. Return the exit status. Raises TestbedError."""
    folder = options.out / STORES
    make_folder(folder)
    for host, stores in made.collectors.items():
        for store in stores:
            # an earlier run may have left this file
            (folder / file_of(host, store)).unlink(missing_ok=True)
    try:
        built = system(made, folder)
    except ValueError as error:
        raise TestbedError(f"{options.file}: {error}") from None
    with cli.aftermath(run, options), run.progress:
        run.clock.run(_run(made, built, folder, run))
    return cli.PASSED


async def _run(made: Configuration, built: System, folder: Path, run: Run) -> None:
    topo = Links(made)
    with Network(topo, run, program=built.programs, switch_options=cpu_ports(topo),
                 expected_drops=EXPECTED, capture=run.keeps) as net:  # fmt: skip
        for host, there in built.collectors.items():
            net.run_application(host, there.responder)
        async with connections(net) as switches:
            await reporter.configure(net, switches, made.reporters)
            await translator.configure(net, switches, built.translators)
            for name, place in built.translators.items():
                run.progress.say(f"{name}: up, with {len(place.sessions)} sessions")
            senders = [net.run_application(host, each) for host, each in built.generators.items()]
            async with publishing(run.metrics, switches, built.translators, made.reporters):
                await _load(made, net, run)
            counted = await read_events(switches, built.translators, made.reporters)
            await _flush(built, made, switches)
            await run.clock.sleep_until(run.clock.now_ns() + SETTLE_NS)
            consumed = await _consumed(counted, built, switches)
        memories = open_memories(made, folder)
        CONSOLE.print(table("Reports", ("switch", "reporter", "what", "count"), _shown(counted)))
        _print_answers(made, memories)
        for line in answer_questions(made, memories):
            _print_line(line)
    for each in senders:
        _print_line(f"{each.host}: {each.result}")
    reject_bmv2_drops(net.counters, consumed)


async def _load(made: Configuration, net: Network, run: Run) -> None:
    """Send the flows, and wait until the generators have finished."""
    start_ns = run.clock.now_ns() + LEAD_NS
    async with AsyncExitStack() as stack:
        if made.flows:
            traffic = await stack.enter_async_context(Traffic(net, made.flows))
            await traffic.finish()
    lasts_s = [
        each.load.count / each.rate_per_s if isinstance(each.load, Load)
        else float(each.load.offsets_ns[-1]) / 1e9 if each.load.offsets_ns is not None else 0.0
        for each in made.generators.values()
    ]  # fmt: skip
    await run.clock.sleep_until(start_ns + int(1e9 * max(lasts_s, default=0.0)) + SETTLE_NS)


async def _flush(built: System, made: Configuration, switches: Mapping[str, fy.Switch]) -> None:
    """Make translators write their incomplete batches."""
    for host, stores in built.stores.items():
        switch = switches[made.translator_of(host)]
        for service, store in stores.values():
            if isinstance(store, ListStore):
                await flush_lists(switch, service, store)
            elif isinstance(store, PostcardStore):
                await flush_rows(switch, service, store)
            elif isinstance(store, SketchStore):
                for sketch in range(store.sketches):
                    await flush_columns(switch, service, store, sketch)


def _shown(counted: Sequence[Row]) -> list[tuple[str, str, str, int]]:
    """Return the event counts of reports that are not 0: switch, reporter, event, count."""
    return [
        (row.switch, f"to {row.peer}" if row.role == "reporter" else row.peer, row.event, row.count)
        for row in counted if row.count and row.role != "session"
    ]  # fmt: skip


async def _consumed(
    counted: Sequence[Row], built: System, switches: Mapping[str, fy.Switch]
) -> dict[str, int]:
    """Return, for each translator, how many frames its program received but did not send.

    `counted` are the event counts before stores were flushed, because a flush counts as a report.
    """
    found = {}
    for name, place in built.translators.items():
        own = [row for row in counted if (row.switch, row.role) == (name, "translator")]
        reports = sum(row.count for row in own if row.event in translator.OUTCOMES)
        nacks = sum(row.count for row in own if row.event == "nacked")
        sessions = [await running.events(switches[name], each) for each in place.sessions]
        answers = sum(each[what] for each in sessions for what in running.ANSWERS)
        found[name] = reports + answers - nacks - sum(e["sent"] + e["probed"] for e in sessions)
    return found


def reject_bmv2_drops(
    counters: Mapping[str, Mapping[str, Any]], consumed: Mapping[str, int]
) -> None:
    """Raise InvalidRunError if the bmv2 of a translator dropped frames.

    bmv2 does not count its own drops.

    For `consumed`, see _consumed().
    """
    for name, count in consumed.items():
        inner = counters[name].get("inner")  # minip4 does not have these counters
        if inner is not None and (missing := inner["into"] - inner["out"] - count) > 0:
            raise InvalidRunError(f"{name}: bmv2 dropped {missing:,} frames",
                                  "lower the rates in FILE or use --target minip4")  # fmt: skip


def _print_line(line: str) -> None:
    CONSOLE.print(line, soft_wrap=True, highlight=False, markup=False)


def open_memories(made: Configuration, folder: Path) -> dict[tuple[str, str], Memory]:
    """Open the memory files of all stores. Raises TestbedError if a file is missing."""
    found = {}
    for host, stores in made.collectors.items():
        for store, kept in stores.items():
            path = folder / file_of(host, store)
            if not path.is_file():
                raise TestbedError(
                    f"{path}: no such store file; run the system with this --out first"
                )
            area = kept.kind.area(path.name, 0)
            found[host, store] = Region(area.record, area.count, path).records
    return found


def _print_answers(made: Configuration, memories: Mapping[tuple[str, str], Memory]) -> None:
    """Query each store for all reports that were sent. Print how many answers are right."""
    rows = []
    for host, stores in made.collectors.items():
        loads = [each.load for each in made.generators.values() if each.to == host]
        reported = [
            (load, said) for load in loads if isinstance(load, Load)
            and (said := load.reports().fields) is not None
        ]  # fmt: skip
        for store, kept in stores.items():
            answers = kept.kind.judge(memories[host, store], reported)
            if answers is not None and answers.asked:
                rows.append((host, store, *answers))
    if rows:
        columns = ("collector", "store", "queries", "right", "wrong", "not found")
        CONSOLE.print(table("Queries for all reported keys", columns, rows))


def answer_questions(made: Configuration, memories: Mapping[tuple[str, str], Memory]) -> list[str]:
    """Answer the queries of the configuration file. Raises TestbedError."""
    return [
        format_answer(
            made.collectors[each.collector][each.store],
            memories[each.collector, each.store],
            f"{each.collector} {each.store}",
            key,
        )
        for each in made.questions
        for key in each.keys
    ]


def format_answer(kept: Kept, memory: Memory, name: str, key: str) -> str:
    """Format one answer as a line."""
    return f"{name} {key}: {kept.kind.answer(memory, key)}"
