"""RoCE packet loss: how many records does one lost packet cost with each recovery mode?

A switch writes records into the memory of a collector by RDMA, and the link between them loses one
record. A reliable connection accepts only the expected packet sequence number (PSN). The first
published switch ignores responses, so 2^24 records are lost until its PSNs wrap around (this
experiment skips most of them). The published DTA translator uses the PSN in the NAK of the
collector and then drops 100,000 reports. The resync mode of Telemark continues immediately, so only
the lost record and the records in flight are lost. If the NAK is lost as well, the switch sends a
probe. An unreliable connection loses only the one record. Captures, the memory of the collector and
the counters of the switch must agree. On bmv2, a capacity probe determines the rates.

Claim: After one lost packet, resync loses the lost record and the records in flight, an unreliable
connection loses one record, and a reliable connection without resync loses 2^24 records.

Published: Beltman and Knossen (INDIS 2020), abstract: after one drop, the NIC ignores 16 million
packets. The published code of Direct Telemetry Access (SIGCOMM 2023) drops 100,000 reports after a
NAK.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from collectors.roce.application import Outcome
from collectors.roce.endpoint import Transport
from controllers.roce.running import events, set_psn, state
from experiments.shared.roce.reporting import (
    DELAY_US,
    PEER,
    PROGRAM,
    Collection,
    Running,
    find_capacity,
    reject_bmv2_drops,
    reporting,
    settle,
)
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep
from telemark.traffic.flows import Flow, Traffic

HOLD_OFF_PROGRAM = "p4src/roce/hold_off.p4"
HOLD_OFF = 100_000
PSNS = 1 << 24
STALLED = 10_000
RATE_BPS = 10_000_000_000
RATES_PPS = (1000, 5000, 20_000, 50_000)
REAL_RATES_PPS = (1000, 2000)
FAST_PPS = 1_000_000  # rate for modes that lose very many records
PATIENCE, ACK_EVERY = 64, 16
MAX_PPS = PATIENCE * 1_000_000 // (2 * DELAY_US)
# the link loses all packets for this time, or for this number of records
REAL_LOSS_NS, MIN_LOST = 20_000_000, 4
SETTLE_NS = 300_000_000  # time until bmv2 has sent all records
BEFORE_S = 0.02  # time for which records are sent before the loss
AFTER, BMV2_AFTER = 2000, 500  # number of records after the recovery
SLOTS = 1 << 16
HELD_US = 1000  # time for which the collector waits, so that it handles many records in one batch
ACK, NAK_SEQUENCE = 0x11, 0x60
BTH, PSN, AETH, LENGTH = 42, 51, 54, 66  # offsets of fields in a frame of RoCEv2


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rate", type=cli.positive_int, nargs="+", metavar="PPS",
        help="rates of recorded packets in packets/s (default: 1000 to 50000)",
    )  # fmt: skip
    cli.add_program_option(parser, PROGRAM)
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class RecoveryMode:
    """How the switch and the collector recover after a loss."""

    program: str | None = None  # None: --program
    transport: Transport = Transport.RC
    listens: bool = True
    nak_is_lost: bool = False
    costs: int = 0  # number of lost records in addition to records in flight


MODES = {
    "resync": RecoveryMode(),
    "resync, NAK lost": RecoveryMode(nak_is_lost=True),
    "UC": RecoveryMode(transport=Transport.UC),
    "hold off 100,000": RecoveryMode(HOLD_OFF_PROGRAM, costs=HOLD_OFF),
    "no resync": RecoveryMode(listens=False, costs=2 * STALLED),
}
"""The last two modes lose so many records that they are measured at one rate, FAST_PPS. The run
without resync is shortened. After the collector has rejected STALLED records as too early, the PSN
of the switch is advanced to STALLED before the expected PSN. The collector would reject all records
in between."""
REAL = ("resync", "UC")
"""Modes for real time, in which the experiment cannot choose the lost record or lose a NAK."""


@dataclass(frozen=True)
class SentRecords:
    """Numbers of records that a switch sent again or late, and of resets.

    The numbers are from captures.
    """

    # number of records (with the lost record) whose PSNs were used again by later records
    again: int
    late: int  # part of `again`: number of records that were sent after a NAK had arrived
    turns: int  # number of times that PSNs were reset


@dataclass(frozen=True)
class Found:
    """Counts of the records of a flow by outcome."""

    mode: str
    rate_pps: float
    packets: int
    lost_by_link: int
    sent: int
    known_lost: int  # lost records, counted by the switch
    skipped: int  # skipped records, see MODES
    responder: Outcome
    sent_records: SentRecords | None  # None without captures or if the mode does not reset PSNs
    accounting: PacketAccounting

    @property
    def written(self) -> int:
        """Return the number of records in memory."""
        return self.responder.counts.accepted.total()

    @property
    def lost(self) -> int:
        """Number of packets without a record, including skipped records."""
        return self.packets - self.written + self.skipped

    @property
    def records_lost_per_drop(self) -> int:
        """Number of lost records per packet drop; consecutive drops of the link count as one."""
        return self.lost - self.lost_by_link + min(self.lost_by_link, 1)

    @property
    def in_flight(self) -> int | None:
        """Number of records that were sent after the lost one and before the reset of PSNs."""
        return None if self.sent_records is None else self.sent_records.again - self.lost_by_link


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_virtual = options.time == "virtual"
    usual = RATES_PPS if is_virtual else REAL_RATES_PPS
    for rate in options.rate or ():
        if rate > MAX_PPS:
            raise TestbedError(
                f"--rate {rate}: more records per RTT than the probe threshold "
                f"({PATIENCE}), so old responses would reset PSNs again; use at most {MAX_PPS}"
            )
    options.rate = options.rate or ([2000, 10_000] if options.quick and is_virtual else [*usual])
    if run.target == "bmv2":
        session = (("ack_every", ACK_EVERY), ("patience", PATIENCE))
        collection = Collection(SLOTS, session=session)
        capacity = await find_capacity(run, collection, max(options.rate), options.program)
        options.rate = [capacity.rate(rate) for rate in options.rate]
    cases = [
        (mode, rate) for rate in options.rate for mode in ([*MODES][:3] if is_virtual else REAL)
    ]
    if is_virtual:
        cases += [(mode, FAST_PPS) for mode in [*MODES][3:]]
    found = await sweep(measure, [(*case, options) for case in cases], run)
    return Report(
        samples=[make_sample(each) for each in found],
        checks=[check for each in found for check in make_checks(each, is_virtual=is_virtual)],
        metrics={"patience": PATIENCE, "ack_every": ACK_EVERY},
        figure=draw(found),
        caption=caption(options),
        tables=[summary_table(found)],
    )


async def measure(name: str, rate_pps: int, options: argparse.Namespace, run: Run) -> Found:
    """Lose one record and wait until the session has recovered."""
    mode, gap_ns = MODES[name], 1_000_000_000 / rate_pps
    lost_at = round(BEFORE_S * rate_pps) + PATIENCE
    after = BMV2_AFTER if run.target == "bmv2" else AFTER
    count = lost_at + mode.costs + 4 * PATIENCE + round(8 * DELAY_US * rate_pps / 1e6) + after
    collection = Collection(
        SLOTS,
        transport=mode.transport,
        session=(("ack_every", ACK_EVERY), ("patience", PATIENCE if mode.listens else 0)),
        hold_us=HELD_US if mode.costs else 0,
    )
    network = f"{name}-{rate_pps}".replace(", ", "-").replace(" ", "-")
    program = mode.program or options.program
    flow = Flow(1, "h1", "h3", rate_pps, count)
    captured = mode.costs == 0
    sets_back = captured and mode.transport is Transport.RC
    async with reporting(
        run, network, collection, RATE_BPS, program, keeps=False, captures=captured
    ) as running:
        net, switch = running.net, running.switch
        if not mode.listens:
            await switch.delete(running.session.entries(net.host("h2").MAC())[-1:])
        async with Traffic(net, [flow]) as traffic:
            lost_ns = traffic.start_ns + round((lost_at - 0.5) * gap_ns)
            is_virtual = options.time == "virtual"
            lasts_ns = gap_ns if is_virtual else max(REAL_LOSS_NS, MIN_LOST * gap_ns)
            await lose(running, run, lost_ns, lasts_ns, mode)
            skipped = 0 if mode.listens else await skip(running, run, lost_ns, lost_at, gap_ns)
            records = await traffic.finish()
        if run.target == "bmv2":
            await settle(run, SETTLE_NS, partial(events, switch, running.session))
        counts = await events(switch, running.session)
        place = await state(switch, running.session)
    reject_bmv2_drops(net, counts)
    accounting = PacketAccounting.from_network(net, records)
    sent = read_sent_records(net) if sets_back else None
    return Found(
        name, rate_pps, count, accounting.lost_by_links[net.interface("s1", "s2")], counts["sent"],
        place.lost, skipped, net.applications[0].result, sent, accounting,
    )  # fmt: skip


async def lose(
    running: Running, run: Run, lost_ns: int, lasts_ns: float, mode: RecoveryMode
) -> None:
    """Lose all packets for `lasts_ns` from `lost_ns` on, and the NAK if the mode requires it."""
    net = running.net
    there, back = (net.switch("s1"), net.port("s1", "s2")), (net.switch("s2"), net.port("s2", "s1"))
    await run.clock.sleep_until(lost_ns)
    there[0].set_link(there[1], loss_probability=1.0)
    await run.clock.sleep_until(lost_ns + round(lasts_ns))
    there[0].set_link(there[1], loss_probability=0.0)
    if mode.nak_is_lost:
        back[0].set_link(back[1], loss_probability=1.0)
        await run.clock.sleep_until(lost_ns + round(3 * lasts_ns) + 2000 * DELAY_US)
        back[0].set_link(back[1], loss_probability=0.0)


async def skip(running: Running, run: Run, lost_ns: int, lost_at: int, gap_ns: float) -> int:
    """Advance the PSN of the switch after a time of rejected records; return the difference."""
    await run.clock.sleep_until(lost_ns + round(STALLED * gap_ns))
    psn = (PEER.psn + lost_at - STALLED) % PSNS
    before = (await state(running.switch, running.session)).psn
    await set_psn(running.switch, running.session, psn)
    return (psn - before) % PSNS


def read_sent_records(net: Network) -> SentRecords:
    """Return the sent records from captures at s1."""
    sent = pcap.read(net.capture("s1", "s2", "out"))
    is_record = sent.bytes[:, LENGTH : LENGTH + 4].any(axis=1)
    times_ns, psns = sent.time_ns[is_record], number(sent.bytes[is_record], PSN, 3)
    back = np.flatnonzero(np.diff(psns) % PSNS != 1)
    again = int(((psns[back] + 1 - psns[back + 1]) % PSNS).sum())
    arrived = pcap.read(net.capture("s1", "s2", "in"))
    is_nak = (arrived.bytes[:, BTH] == ACK) & (arrived.bytes[:, AETH] == NAK_SEQUENCE)
    naks_ns = arrived.time_ns[is_nak]
    late = 0
    if len(back) and len(naks_ns):
        late = int(np.count_nonzero(times_ns[: back[0] + 1] > naks_ns[0]))
    return SentRecords(again, late, len(back))


def number(frames: NDArray[np.uint8], at: int, size: int) -> NDArray[np.int64]:
    """Return the big-endian number at an offset of each frame."""
    found = np.zeros(len(frames), np.int64)
    for byte in frames[:, at : at + size].T:
        found = found << 8 | byte
    return found


def make_checks(found: Found, *, is_virtual: bool) -> list[Check]:
    """Check that up to four counts of lost records agree.

    The counts are from packets without a record, drops of the link, captures at the switch, and the
    switch's counter.
    """
    where, mode = f"{found.mode}, {found.rate_pps:,} packets/s", MODES[found.mode]
    one_lost = found.lost_by_link if is_virtual else min(found.lost_by_link, 1)
    checks = [
        Check(f"{where}: records lost by the link", one_lost, 1, 0),
        *found.accounting.checks(where),
    ]
    accounts = {}
    if not mode.listens:
        accounts["PSN space"] = PSNS
    elif mode.transport is Transport.RC:
        accounts["switch counter"] = found.known_lost + mode.costs
    else:
        accounts["link log"] = found.lost_by_link
    if found.sent_records is not None:
        accounts["captures"] = found.sent_records.again
    # in real time, the link loses more than one record
    if found.sent_records is not None and is_virtual:
        checks += [
            Check(f"{where}: records with old PSNs after the NAK", found.sent_records.late, 0),
            Check(f"{where}: PSN resets", found.sent_records.turns, 1, 0),
        ]
    return checks + [
        Check(f"{where}: lost records (expected: {source})", found.lost, number)
        for source, number in accounts.items()
    ]


def round_trip(rate_pps: float) -> float:
    """Return how many records are sent per RTT.

    The RTT excludes the collector's processing time.
    """
    return 2 * DELAY_US * rate_pps / 1e6


def make_sample(found: Found) -> dict[str, object]:
    """Return the results, one row per run."""
    return {
        "recovery": found.mode, "rate_pps": found.rate_pps, "packets": found.packets,
        "sent": found.sent, "written": found.written, "lost": found.lost,
        "skipped": found.skipped, "lost_by_link": found.lost_by_link,
        "known_lost": found.known_lost,
        "in_flight": found.in_flight, "round_trip_records": round_trip(found.rate_pps),
    }  # fmt: skip


def summary_table(found: Sequence[Found]) -> Table:
    """Return the results, one row per run."""
    rows = [[*make_sample(each).values()] for each in found]
    names = ("recovery", "packets/s", "packets", "records sent", "written", "lost",
             "skipped", "lost by link", "switch counter", "in flight",
             "records per round trip")  # fmt: skip
    return table("Records lost per lost packet", names, rows)


def draw(found: Sequence[Found]) -> Figure:
    """Draw the lost records of each mode, and their dependence on records in flight."""
    figure, (left, right) = plots.figure(2)
    draw_costs(left, found)
    flights = {each.rate_pps: each.in_flight or 0 for each in found if each.mode == "resync"}
    law = np.geomspace(1, 2 * max(1, *flights.values()), 50)
    right.plot(law, 1 + law, "k-", marker="", label="theory: in flight + 1")
    for mode in [*MODES][:3]:
        those = [each for each in found if each.mode == mode]
        lost = [each.records_lost_per_drop for each in those]
        if those:
            right.plot([flights[each.rate_pps] for each in those], lost, linestyle="", label=mode)
    right.set(xscale="log", yscale="log", xlabel="Records in flight",
              ylabel="Records lost")  # fmt: skip
    plots.legend(right, 2)
    return figure


def draw_costs(axes: Axes, found: Sequence[Found]) -> None:
    """Draw the lost records at the highest rate of each mode."""
    worst = {each.mode: each for each in found}
    names = [*worst][::-1]
    lost = [worst[name].records_lost_per_drop for name in names]
    axes.barh(names, lost, color=plots.COLOURS[0], height=0.6)
    for row, count in enumerate(lost):
        axes.annotate(f"{count:,}", (count, row), (3, 0), textcoords="offset points", va="center",
                      fontsize="small")  # fmt: skip
    axes.set(xscale="log", xlabel="Records lost", xlim=(0.5, 10 * max(lost) ** 1.15))


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    fast = f" (last two modes at {FAST_PPS:,})" if options.time == "virtual" else ""
    row = ""
    if options.time == "real":
        row = (
            f" The link loses all records of {REAL_LOSS_NS // 1_000_000} ms, or {MIN_LOST}, which "
            "count as one. "
            "The collector is a process, so more records are in flight until its NAK arrives."
        )
    return (
        f"Lost records if a link with an RTT of {2 * DELAY_US / 1000:g} ms loses one record. One "
        f"of {ACK_EVERY} records requests an ACK, and the switch sends a probe after {PATIENCE} "
        f"records without a response; {plots.runs(1, options.time)}. (a) At "
        f"{max(options.rate):,} records/s{fast}. (b) Lost records for each number of records in "
        "flight: those that the switch sends after the lost one, until it resets PSNs. The number "
        "comes from captures of the run with resync."
        f"{row}"
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
