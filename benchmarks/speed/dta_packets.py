"""DTA with ten million random keys in a P4 translator: is every query result correct or empty?

In virtual time, a P4 translator converts each report to RDMA requests; the responder checks the
iCRC of each request and executes it. The memory must then equal a model byte for byte. The
benchmark queries all keys and the same number of keys that were not reported. The results are
compared with theory.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from mininet.topo import SingleSwitchTopo
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from benchmarks.speed.dta_stores import BITS, Filled, query_all, report, slots_for
from collectors.dta.hashes import Words
from collectors.dta.key_write import Store, slot
from collectors.dta.load import Load, Reports
from collectors.dta.packets import PORT
from collectors.roce.endpoint import Counts
from collectors.roce.region import Region
from controllers.connection import connections, cpu_ports
from controllers.dta.manager.fabric import Area, collector
from controllers.dta.stores import KeyWriteStore
from controllers.dta.translator import Translator, configure
from telemark.network import Network
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

REPORTS, QUICK_REPORTS = 10_000_000, 50_000
SHARE = 50_000  # number of reports between two progress messages
COPIES = 2
INTERVAL_NS = 1000
LEAD_NS, SETTLE_NS = 1_000_000, 10_000_000
HEADERS_BYTES = 42
FILE = "store"


class Translated(NamedTuple):
    """Reports in the order of sending, and counters of the responder."""

    keys: Words  # shape (n, 4)
    data: Words  # shape (n, 1)
    counts: Counts
    reports_per_s: float


def make_frames(reports: Reports) -> list[bytes]:
    """Return the frames from h1 to h2. All of them have the same length and headers."""
    ends = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02")
    ip = IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=PORT, dport=PORT, chksum=0)
    head = bytes(ends / ip / Raw(reports.payloads[0]))[:HEADERS_BYTES]
    return [head + payload for payload in reports.payloads]


async def translate_reports(count: int, run: Run) -> Translated:
    """Send `count` reports in batches; the translator writes each key twice to the store."""
    slots = slots_for(count)
    area = Area(slot(1), slots, partial(KeyWriteStore, 1, slots, BITS), file=FILE)
    there = collector("h2", "10.0.0.2", [area], run.folder)
    keys, data = np.empty((count, 4), np.uint32), np.empty((count, 1), np.uint32)
    begun = time.perf_counter()
    topo = SingleSwitchTopo(2)
    with Network(topo, run, program="p4src/dta/translator.p4", capture=False,
                 switch_options=cpu_ports(topo),
                 expected_drops=["ingress", "miss", "egress"]) as net:  # fmt: skip
        net.run_application("h2", there.responder)
        async with connections(net) as switches:
            await configure(net, switches, {"s1": Translator(there.sessions, [there.service])})
            for first in range(0, count, SHARE):
                run.progress.update(f"translating {count:,} reports, starting at {first:,}")
                part = slice(first, min(first + SHARE, count))
                load = Load(part.stop - first, redundancy=COPIES, seed=run.seed + first)
                reports = load.reports()
                assert reports.fields is not None
                keys[part], data[part] = reports.fields.key, reports.fields.words[:, :1]
                start_ns = run.clock.now_ns() + LEAD_NS
                times = [start_ns + n * INTERVAL_NS for n in range(load.count)]
                net.send_frames("h1", times, make_frames(reports))
                await run.clock.sleep_until(times[-1] + SETTLE_NS)
    taken_s = time.perf_counter() - begun
    counts = net.applications[0].result.counts
    return Translated(keys, data, counts, count / taken_s)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "virtual", "real time would lose some reports")
    count = QUICK_REPORTS if options.quick else REPORTS
    return make_report(await translate_reports(count, run), run)


def make_report(found: Translated, run: Run) -> Report:
    """Compare the memory with the model and the query results with theory."""
    count, slots = len(found.keys), slots_for(len(found.keys))
    memory, model = Region(slot(1), slots, run.folder / FILE), Region(slot(1), slots)
    Store(model.records, BITS).write(found.keys, found.data, COPIES)
    rng = np.random.default_rng([run.seed, count])  # must differ from the seed of the reports
    others = rng.integers(1 << 32, size=(count, 4), dtype=np.uint32)
    made = Filled(Store(memory.records, BITS), found.keys, found.data, others, COPIES)
    answers = report([query_all(made, which) for which in ("written", "absent")])
    carried_out, refused = found.counts.accepted.total(), found.counts.refused.total()
    columns = ("reports", "requests", "refused", "reports/s of this machine")
    shown = [(count, carried_out, refused, found.reports_per_s)]
    checks = [
        *answers.checks,
        Check("bytes of memory that differ from the model",
              int((memory.bytes != model.bytes).sum()), 0),
        Check("executed requests", carried_out, COPIES * count),
        Check("requests refused", refused, 0),
    ]  # fmt: skip
    return replace(
        answers, checks=checks, tables=[*answers.tables, table("Packets", columns, shown)]
    )


if __name__ == "__main__":
    cli.main(f"benchmark_{Path(__file__).name}", __doc__, experiment)
