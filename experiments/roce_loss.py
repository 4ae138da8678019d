"""Records lost for one lost packet: what does each way cost to go on after a loss?

A switch writes records into a collector's memory by RDMA, and the link between them loses one. A
reliable connection takes nothing until the sequence number (PSN) comes that it expects. The first
published switch does not listen: 2^24 records are lost, until its PSNs come round (most of these
are skipped here). DTA's translator
takes the PSN from the collector's NAK, and then drops 100,000 reports. Ours goes on at once: lost
are the record and those in flight. Where the NAK is lost, too, it asks. An unreliable connection
loses the one record. What captures tell must be what the collector lacks, and what the switch says.

Claim: For one lost packet, resync loses what was in flight, an unreliable connection one record,
and no resync 2^24.

Published: Beltman and Knossen (INDIS 2020), abstract: after one drop the card ignores 16 million
packets. The published code of Direct Telemetry Access (SIGCOMM 2023) drops 100,000 reports after a
NAK.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from collectors.roce.application import Outcome
from collectors.roce.endpoint import Transport
from controllers.roce.running import events, require_minip4, set_psn, state
from experiments.shared.roce.reporting import (
    DELAY_US,
    PEER,
    PROGRAM,
    Collection,
    Running,
    reporting,
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
FAST_PPS = 1_000_000  # where very many records are lost
PATIENCE, ACK_EVERY = 64, 16
MOST_PPS = PATIENCE * 1_000_000 // (2 * DELAY_US)
REAL_LOSS_NS = 20_000_000
BEFORE_S = 0.02  # of records, before one is lost
AFTER = 2000  # records when all is well again
SLOTS = 1 << 16
HELD_US = 1000  # by the collector, where so many come that one by one would take minutes
ACK, NAK_SEQUENCE = 0x11, 0x60
BTH, PSN, AETH, LENGTH = 42, 51, 54, 66  # where they begin in a frame of RoCEv2


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rate", type=cli.positive_int, nargs="+", metavar="PPS",
        help="packets a second that are recorded (default: 1000 to 50000)",
    )  # fmt: skip
    cli.add_program_option(parser, PROGRAM)


@dataclass(frozen=True)
class Way:
    """A way to go on after a loss."""

    program: str | None = None  # None: the one that was asked for
    transport: Transport = Transport.RC
    listens: bool = True
    nak_is_lost: bool = False
    costs: int = 0  # records that it loses whatever is in flight


WAYS = {
    "resync": Way(),
    "resync, NAK lost": Way(nak_is_lost=True),
    "UC": Way(transport=Transport.UC),
    "hold off 100,000": Way(HOLD_OFF_PROGRAM, costs=HOLD_OFF),
    "no resync": Way(listens=False, costs=2 * STALLED),
}
"""The last two lose so many that they are measured at one rate, FAST_PPS. Without resync it is even
shortened: when the collector has refused STALLED records as too early, the switch's PSNs are set on
to STALLED before those that it takes. The ones between it would all have refused."""
REAL = ("resync", "UC")
"""In real time nobody can choose which record is lost, nor that its NAK is: some are."""


@dataclass(frozen=True)
class WentOut:
    """What a switch sent, by captures."""

    again: int  # records whose PSNs others had later: from the lost one to the last before these
    late: int  # of them those that left after a NAK had come
    turns: int  # times that PSNs were set back


@dataclass(frozen=True)
class Found:
    """What became of a flow's records."""

    way: str
    rate_pps: float
    packets: int
    lost_by_link: int
    sent: int
    known_lost: int  # as the switch counts
    skipped: int  # records that were left out: see WAYS
    responder: Outcome
    went_out: WentOut | None  # None: nothing was captured, or nothing sets PSNs back
    accounting: PacketAccounting

    @property
    def written(self) -> int:
        """Records in memory."""
        return self.responder.counts.accepted.total()

    @property
    def lost(self) -> int:
        """Packets without a record, and those that were skipped."""
        return self.packets - self.written + self.skipped

    @property
    def records_lost_per_drop(self) -> int:
        """The same where the link loses one alone: of those that it lost in a row one counts."""
        return self.lost - self.lost_by_link + min(self.lost_by_link, 1)

    @property
    def in_flight(self) -> int | None:
        """Records that left behind what the link lost, until PSNs were set back: by captures."""
        return None if self.went_out is None else self.went_out.again - self.lost_by_link


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    require_minip4(run)
    is_virtual = options.time == "virtual"
    usual = RATES_PPS if is_virtual else REAL_RATES_PPS
    for rate in options.rate or ():
        if rate > MOST_PPS:
            raise TestbedError(
                f"--rate {rate}: a round trip holds more records than those after which the switch "
                f"asks ({PATIENCE}), and old answers set it back again: take {MOST_PPS} at most"
            )
    options.rate = options.rate or ([2000, 10_000] if options.quick and is_virtual else [*usual])
    cases = [(way, rate) for rate in options.rate for way in ([*WAYS][:3] if is_virtual else REAL)]
    if is_virtual:
        cases += [(way, FAST_PPS) for way in [*WAYS][3:]]
    found = await sweep(measure, [(*case, options) for case in cases], run)
    return Report(
        samples=[sample_of(each) for each in found],
        checks=[check for each in found for check in checks_of(each, is_virtual=is_virtual)],
        metrics={"patience": PATIENCE, "ack_every": ACK_EVERY},
        figure=draw(found),
        caption=caption(options),
        tables=[summary_table(found)],
    )


async def measure(name: str, rate_pps: int, options: argparse.Namespace, run: Run) -> Found:
    """Lose one record, and wait until the session has gone on."""
    way, gap_ns = WAYS[name], 1_000_000_000 / rate_pps
    lost_at = round(BEFORE_S * rate_pps) + PATIENCE
    count = lost_at + way.costs + 4 * PATIENCE + round(8 * DELAY_US * rate_pps / 1e6) + AFTER
    collection = Collection(
        SLOTS,
        transport=way.transport,
        session=(("ack_every", ACK_EVERY), ("patience", PATIENCE if way.listens else 0)),
        hold_us=HELD_US if way.costs else 0,
    )
    network = f"{name}-{rate_pps}".replace(", ", "-").replace(" ", "-")
    program = way.program or options.program
    flow = Flow(1, "h1", "h3", rate_pps, count)
    captured = way.costs == 0
    sets_back = captured and way.transport is Transport.RC
    async with reporting(
        run, network, collection, RATE_BPS, program, keeps=False, captures=captured
    ) as running:
        net, switch = running.net, running.switch
        if not way.listens:
            await switch.delete(running.session.entries(net.host("h2").MAC())[-1:])
        async with Traffic(net, [flow]) as traffic:
            lost_ns = traffic.start_ns + round((lost_at - 0.5) * gap_ns)
            lasts_ns = gap_ns if options.time == "virtual" else REAL_LOSS_NS
            await lose(running, run, lost_ns, lasts_ns, way)
            skipped = 0 if way.listens else await skip(running, run, lost_ns, lost_at, gap_ns)
            records = await traffic.finish()
        counts = await events(switch, running.session)
        place = await state(switch, running.session)
    accounting = PacketAccounting.from_network(net, records)
    sent = went_out(net) if sets_back else None
    return Found(
        name, rate_pps, count, accounting.lost_by_links[net.interface("s1", "s2")], counts["sent"],
        place.lost, skipped, net.applications[0].result, sent, accounting,
    )  # fmt: skip


async def lose(running: Running, run: Run, lost_ns: int, lasts_ns: float, way: Way) -> None:
    """What leaves in `lasts_ns` from `lost_ns` on: in virtual time one record; and its NAK."""
    net = running.net
    there, back = (net.switch("s1"), net.port("s1", "s2")), (net.switch("s2"), net.port("s2", "s1"))
    await run.clock.sleep_until(lost_ns)
    there[0].set_link(there[1], loss_probability=1.0)
    await run.clock.sleep_until(lost_ns + round(lasts_ns))
    there[0].set_link(there[1], loss_probability=0.0)
    if way.nak_is_lost:
        back[0].set_link(back[1], loss_probability=1.0)
        await run.clock.sleep_until(lost_ns + round(3 * lasts_ns) + 2000 * DELAY_US)
        back[0].set_link(back[1], loss_probability=0.0)


async def skip(running: Running, run: Run, lost_ns: int, lost_at: int, gap_ns: float) -> int:
    """Set the switch's PSNs on, when records were refused for a while; by how many."""
    await run.clock.sleep_until(lost_ns + round(STALLED * gap_ns))
    psn = (PEER.psn + lost_at - STALLED) % PSNS
    before = (await state(running.switch, running.session)).psn
    await set_psn(running.switch, running.session, psn)
    return (psn - before) % PSNS


def went_out(net: Network) -> WentOut:
    """By captures at s1."""
    sent = pcap.read(net.capture("s1", "s2", "out"))
    is_record = sent.bytes[:, LENGTH : LENGTH + 4].any(axis=1)
    times_ns, psns = sent.time_ns[is_record], number(sent.bytes[is_record], PSN, 3)
    back = np.flatnonzero(np.diff(psns) % PSNS != 1)
    again = int(((psns[back] + 1 - psns[back + 1]) % PSNS).sum())
    came = pcap.read(net.capture("s1", "s2", "in"))
    is_nak = (came.bytes[:, BTH] == ACK) & (came.bytes[:, AETH] == NAK_SEQUENCE)
    naks_ns = came.time_ns[is_nak]
    late = 0
    if len(back) and len(naks_ns):
        late = int(np.count_nonzero(times_ns[: back[0] + 1] > naks_ns[0]))
    return WentOut(again, late, len(back))


def number(frames: NDArray[np.uint8], at: int, size: int) -> NDArray[np.int64]:
    """Of each frame the big-endian number there."""
    found = np.zeros(len(frames), np.int64)
    for byte in frames[:, at : at + size].T:
        found = found << 8 | byte
    return found


def checks_of(found: Found, *, is_virtual: bool) -> list[Check]:
    """What is lost, by up to four accounts: packets without a record, the link, captures at the
    switch, and the switch itself."""
    where, way = f"{found.way}, {found.rate_pps:,} packets/s", WAYS[found.way]
    one_lost = found.lost_by_link if is_virtual else min(found.lost_by_link, 1)
    checks = [
        Check(f"{where}: records that the link lost", one_lost, 1, 0),
        *found.accounting.checks(f"{where}: accounting"),
    ]
    accounts = {}
    if not way.listens:
        accounts["all PSNs there are"] = PSNS
    elif way.transport is Transport.RC:
        accounts["the switch"] = found.known_lost + way.costs
    else:
        accounts["the link"] = found.lost_by_link
    if found.went_out is not None:
        accounts["captures"] = found.went_out.again
    if found.went_out is not None and is_virtual:  # in real time more is lost than one record
        checks += [
            Check(f"{where}: records after the NAK with old PSNs", found.went_out.late, 0),
            Check(f"{where}: times that PSNs were set back", found.went_out.turns, 1, 0),
        ]
    return checks + [
        Check(f"{where}: records lost, against {whose}", found.lost, number)
        for whose, number in accounts.items()
    ]


def round_trip(rate_pps: float) -> float:
    """Records that leave while others go to and fro, without what the collector takes."""
    return 2 * DELAY_US * rate_pps / 1e6


def sample_of(found: Found) -> dict[str, object]:
    """A row for each run."""
    return {
        "way": found.way, "rate_pps": found.rate_pps, "packets": found.packets,
        "sent": found.sent, "written": found.written, "lost": found.lost,
        "skipped": found.skipped, "lost_by_link": found.lost_by_link,
        "known_lost": found.known_lost,
        "in_flight": found.in_flight, "round_trip_records": round_trip(found.rate_pps),
    }  # fmt: skip


def summary_table(found: Sequence[Found]) -> Table:
    """A row for each run."""
    rows = [[*sample_of(each).values()] for each in found]
    names = ("way", "packets/s", "packets", "records sent", "written", "lost",
             "skipped", "by the link", "as the switch counts", "in flight",
             "records a round trip")  # fmt: skip
    return table("Records lost for one lost packet", names, rows)


def draw(found: Sequence[Found]) -> Figure:
    """What each way costs, and how that depends on what is in flight."""
    figure, (left, right) = plots.figure(2)
    draw_costs(left, found)
    flights = {each.rate_pps: each.in_flight or 0 for each in found if each.way == "resync"}
    law = np.geomspace(1, 2 * max(1, *flights.values()), 50)
    right.plot(law, 1 + law, "k-", marker="", label="those, and itself")
    for way in [*WAYS][:3]:
        those = [each for each in found if each.way == way]
        lost = [each.records_lost_per_drop for each in those]
        if those:
            right.plot([flights[each.rate_pps] for each in those], lost, linestyle="", label=way)
    right.set(xscale="log", yscale="log", xlabel="Records in flight",
              ylabel="Records lost")  # fmt: skip
    plots.legend(right, 2)
    return figure


def draw_costs(axes: Axes, found: Sequence[Found]) -> None:
    """At the highest rate of each way."""
    worst = {each.way: each for each in found}
    names = [*worst][::-1]
    lost = [worst[name].records_lost_per_drop for name in names]
    axes.barh(names, lost, color=plots.COLOURS[0], height=0.6)
    for row, count in enumerate(lost):
        axes.annotate(f"{count:,}", (count, row), (3, 0), textcoords="offset points", va="center",
                      fontsize="small")  # fmt: skip
    axes.set(xscale="log", xlabel="Records lost", xlim=(0.5, 10 * max(lost) ** 1.15))


def caption(options: argparse.Namespace) -> str:
    """What the figure shows."""
    fast = f" (the last two ways at {FAST_PPS:,})" if options.time == "virtual" else ""
    row = ""
    if options.time == "real":
        row = (
            f" The link loses all records of {REAL_LOSS_NS // 1_000_000} ms, and of these one is "
            "counted here. The collector is a process, and what its NAK takes is in flight, too."
        )
    return (
        f"Records lost when a link of {2 * DELAY_US / 1000:g} ms round trip loses one; an ACK is "
        f"asked for with one of {ACK_EVERY}, and after {PATIENCE} without an answer the switch "
        f"asks; {plots.runs(1, options.time)}. (a) At {max(options.rate):,} records/s{fast}. (b) "
        "By what is in flight: records that, by captures of the run with resync, left behind the "
        f"lost one until PSNs were set back.{row}"
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
