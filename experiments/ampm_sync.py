"""Clock synchronization for alternate marking: how large may clock errors be for each method?

A flow crosses s1, s2 and s3. The clock of s1 is correct. The clocks of s2 and s3 are wrong by A.
These clocks are ahead in half of the runs and behind in the other half. The controller reads each
switch at times given by that switch's own clock (RFC 9341). Multiplexed marking uses one bit, which
is decoded in two ways. s3 decodes the bit by time slot. s2 takes a packet as the pulse if its bit
differs from the colour according to the clock of s2. A second flow uses double marking with two
bits. Frame captures show which packets are in each block. The captures identify blocks by number.
Colours repeat every two blocks, so a decoder that knows only colours does not detect that a count
belongs to a wrong block.

Claim: Each decoder is exact up to its own limit of the clock error and fails beyond this limit.

Published: RFC 9341, section 5: clocks may differ by half a block, 0.5 s if blocks last 1 s.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import finsy as fy
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Hop, WatchedFlow
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from experiments.shared.ampm.error_bounds import Machine, Workload, machine_for
from experiments.shared.ampm.measurement import (
    MIN_BLOCK_US,
    UDP,
    add_block_option,
    add_common_options,
    flow_count,
    noise,
    shortest_schedule,
    worst,
)
from experiments.shared.ampm.stamps import passages, read_inside
from experiments.shared.ampm.sync import (
    DECODERS,
    DOUBLE,
    ERRORS,
    LINK_DELAY_US,
    LOSS,
    METHODS,
    MULTIPLEXED,
    NAIVE,
    NOISE_US,
    PATH,
    SENT,
    BlockResult,
    Decoder,
    Setting,
    choose_errors,
    exact_percent,
    group_by_error,
    law_packets,
    make_metrics,
    reject_noise,
    relative_scatter,
    result,
    rms_by_run,
    without_unread,
)
from experiments.shared.ampm.truth import read_truths
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.clock import ClockAhead
from telemark.session.run import Run
from telemark.sweep.runs import sweep
from telemark.traffic.flows import Flow, Traffic
from telemark.traffic.patterns import Poisson
from topologies.basic import Line

TOPO = Line(switches=len(PATH), loss_probability=LOSS, delay_us=LINK_DELAY_US)
MARGIN = 3  # extra blocks before and after the measured blocks; clock errors may move packets there

CLAIMED_ERROR_US = 1_000_000  # clock error that the AM-PM talk calls small enough: about one second
CLAIMED_BLOCKS_US = {DOUBLE: 2**21, MULTIPLEXED: 2**23}  # shortest blocks that tolerate this error

# Without time slots, the whole block is a pulse slot: a packet of the other colour is the pulse.
ALWAYS_PULSE_SLOT = fy.P4TableEntry("slots", priority=1, action=fy.Action("pulse_slot"))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--errors", type=cli.not_negative, nargs="+", metavar="A",
        help="clock errors, in block lengths (default: 0 to 2.5)",
    )  # fmt: skip
    cli.add_rate_option(parser, 2000, "each of the two flows")
    parser.add_argument(
        "--blocks", type=cli.positive_int, default=6, metavar="N",
        help="number of complete blocks per run (default: %(default)s)",
    )  # fmt: skip
    add_block_option(parser, 2**20)
    add_common_options(parser)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_virtual = options.time == "virtual"
    options.errors = options.errors or choose_errors(options)
    if max(options.errors) > max(ERRORS):
        raise TestbedError(
            f"--errors {max(options.errors):g}: theory covers at most {max(ERRORS)} block lengths; "
            "use a smaller error"
        )
    options.seeds = options.seeds or ((2 if options.quick else 10) if is_virtual else 1)
    flows = make_flows(options, Schedule(MIN_BLOCK_US))
    load = Workload(TOPO, partial(watch_list, flows=flows), flows)
    machine = await machine_for(load, NOISE_US, options, run)
    schedule = shortest_schedule([*METHODS.values()], machine.bounds(2 * LINK_DELAY_US))
    options.block_us = options.block_us or max(2**18 if options.quick else 2**20, schedule.block_us)
    settings = [
        Setting(-error if number % 2 else error, options.block_us, options.seed + number)
        for error in options.errors
        for number in range(options.seeds)
    ]
    claims = [
        Setting(sign * CLAIMED_ERROR_US / block_us, block_us, options.seed)
        for block_us in CLAIMED_BLOCKS_US.values()
        for sign in (1, -1)
        if is_virtual
    ]
    todo = [(setting, machine, options) for setting in settings + claims]
    found = await sweep(measure, todo, run)
    results = [result for here, _ in found for result in here]
    accounting = [check for _, balance in found for check in balance.checks("all runs")]
    swept = [r for r in results if r.setting in settings]
    claimed = [r for r in results if r.setting in claims]
    return Report(
        samples=[r.row() for r in results],
        checks=[
            *make_checks(swept, machine.delay_us),
            *check_claim(claimed),
            *worst(accounting),
        ],
        metrics=make_metrics(swept),
        figure=draw(swept, options),
        caption=caption(swept, options),
        tables=[summary_table(swept)],
    )


async def measure(
    setting: Setting, machine: Machine, options: argparse.Namespace, run: Run
) -> tuple[list[BlockResult], PacketAccounting]:
    """Send both flows over switches with wrong clocks and decode the blocks of both flows."""
    run = replace(run, seed=setting.seed)
    run.progress.update(f"clock error {setting.error:g} L, seed {setting.seed}")
    schedule = Schedule(setting.block_us)
    flows = make_flows(options, schedule)
    with Network(
        TOPO, run, program=options.program, name=setting.name, switch_options=cpu_ports(TOPO)
    ) as net:
        watched = watch_list(net, flows, setting.ahead_us)
        async with Collector(watched, schedule, run.clock, bounds=None) as collector:
            await collector.watch()
            errors_us = collector.clock_errors_us
            first = schedule.block_at(run.clock.now_ns() // 1000 + 500_000) + MARGIN + 2
            start_us = schedule.start_us(first - MARGIN) - schedule.block_us // 2
            async with Traffic(net, flows, start_ns=1000 * start_us) as traffic:
                reports = await read(collector, setting, first, options.blocks, run)
                records = await traffic.finish()
    problems = [p for right, wrong in reports for p in right.problems + wrong.problems]
    for problem in problems:
        run.progress.say(f"{setting.name}: {problem}")
    methods = {flow: METHODS[flow.id] for flow in flows}
    accounting = PacketAccounting.from_network(net, records)
    truths = read_truths(net, dict.fromkeys(flows, PATH), schedule, methods, records)
    if options.time == "real":
        why = noise(truths.values(), records.values(), problems)
        reject_noise(setting, truths, machine, options.target, why)
    inside = read_inside(net, flows, PATH, errors_us) if net.has_panels else {}
    passed = {number: passages(truth, {}, inside.get(number, {}))
              for number, truth in truths.items()}  # fmt: skip
    results = [
        result(setting, d, both, truths[d.flow], passed[d.flow])
        for both in reports for d in DECODERS
    ]  # fmt: skip
    return results, accounting


def make_flows(options: argparse.Namespace, schedule: Schedule) -> list[Flow]:
    count = flow_count(options.rate, options.blocks + 2 * MARGIN, schedule)
    return [Flow(n, "h1", "h2", options.rate, count, pattern=Poisson()) for n in METHODS]


def watch_list(
    net: Network, flows: Sequence[Flow], ahead_us: int = 0
) -> dict[WatchedFlow, list[Hop]]:
    """Return the flows and their path. The clocks of all switches on it but s1 are ahead."""
    path = []
    for name in PATH:
        entries = forwarding_entries(net, name)
        if name == NAIVE.point.switch:
            entries.append(ALWAYS_PULSE_SLOT)
        wrong_us = 0 if name == SENT.switch else ahead_us
        path.append(Hop(connection(net, name), entries, net.switch(name).clock_offset_us, wrong_us))
    addresses = net.host("h1").IP(), net.host("h2").IP()
    return {
        WatchedFlow(f.id, *addresses, UDP, dst_port=f.port, methods=METHODS[f.id]): path
        for f in flows
    }


async def read(
    collector: Collector, setting: Setting, first: int, count: int, run: Run
) -> list[tuple[BlockReport, BlockReport]]:
    """Read each block from each switch, at times given by that switch's own clock."""
    last = first + count - 1
    own = ClockAhead(run.clock, setting.ahead_us)
    right, wrong = await asyncio.gather(
        listed(collector.blocks(first, last, switches=PATH[:1])),
        listed(collector.blocks(first, last, switches=PATH[1:], clock=own)),
    )
    return list(zip(right, wrong, strict=True))


async def listed(reports: AsyncIterator[BlockReport]) -> list[BlockReport]:
    return [report async for report in reports]


def make_checks(results: Sequence[BlockResult], noise_us: float) -> list[Check]:
    """Check that blocks are exact up to the bound of theory and wrong beyond it.

    The size of errors is checked only if the machine adds no delays.
    """
    checks = []
    results = without_unread(results) if noise_us else results
    for decoder in DECODERS:
        of_decoder = [r for r in results if r.decoder == decoder]
        inside = [r for r in of_decoder if r.setting.is_inside(decoder, noise_us)]
        if inside:
            name = f"{decoder.name}, A + D < {decoder.bound:g} L"
            checks += exact_checks(name, inside, with_delay=not noise_us)
        beyond = [r for r in of_decoder if r.setting.misplaced(decoder) > 0.04]
        unnoticed = {r.setting for r in beyond} - {r.setting for r in beyond if not r.is_exact}
        checks.append(
            Check(f"{decoder.name}, beyond bound: runs without wrong blocks", len(unnoticed), 0)
        )
        if not noise_us:
            checks += law_checks(beyond, decoder)
    return [*checks, *aliasing_checks(results)]


def exact_checks(name: str, results: Sequence[BlockResult], with_delay: bool) -> list[Check]:
    """Check the loss and the pulse of all blocks."""
    checks = [
        Check(f"{name}: blocks with wrong loss", sum(r.error != 0 for r in results), 0),
        Check(f"{name}: blocks with wrong pulse", sum(not r.has_pulse_right for r in results), 0),
    ]
    if with_delay:
        known_us = [abs(r.delay_error_us) for r in results if not np.isnan(r.delay_error_us)]
        worst_us = max(known_us, default=float("nan"))
        checks.append(Check(f"{name}: max delay error, less A (us)", worst_us, 0, tolerance=1))
    return checks


def law_checks(results: Sequence[BlockResult], decoder: Decoder) -> list[Check]:
    """Check that the mean square error equals theory within statistical tolerance."""
    if not results:
        return []
    laws = [law_packets(r.setting, decoder, r.true_sent) for r in results]
    ratio = float(np.mean([(r.error / law) ** 2 for r, law in zip(results, laws, strict=True)]))
    # a square has twice the relative standard deviation
    tolerance = 4 * 2 * relative_scatter(len(results))
    return [
        Check(
            f"{decoder.name}, beyond bound: mean square error (normalized to theory)",
            ratio,
            1,
            tolerance,
        )
    ]


def aliasing_checks(results: Sequence[BlockResult]) -> list[Check]:
    """Check that clocks wrong by two blocks give correct colours, but counts of the wrong block."""
    two_off = [r for r in results if r.setting.is_two_off and r.decoder != NAIVE]
    if not two_off:
        return []
    wrong_number = sum(r.has_count_of(-2 if r.setting.error > 0 else 2) for r in two_off)
    return [
        Check("A = 2 L: blocks with the count of the block two away (%)",
              100 * wrong_number / len(two_off), 100),
        Check("A = 2 L: blocks detected as wrong by number (%)",
              100 * sum(not r.is_exact for r in two_off) / len(two_off), 100),
    ]  # fmt: skip


def check_claim(results: Sequence[BlockResult]) -> list[Check]:
    """Check the AM-PM talk's claim that synchronization to one second is enough."""
    checks = []
    for decoder, block_us in CLAIMED_BLOCKS_US.items():
        found = [r for r in results if (r.decoder, r.setting.block_us) == (decoder, block_us)]
        if found:
            name = f"A = 1 s, {decoder.name}, L = {block_us / 1e6:.3g} s"
            checks += exact_checks(name, found, with_delay=True)
    return checks


def summary_table(results: Sequence[BlockResult]) -> Table:
    """Return a table of exact blocks and rms error, with a row per clock error."""
    by_decoder = [group_by_error(results, decoder) for decoder in DECODERS]
    rows = [
        (
            f"{error:g} L",
            *(f"{exact_percent(found[error]):.0f} %" for found in by_decoder),
            *(float(rms_by_run(found[error]).mean()) for found in by_decoder),
        )
        for error in by_decoder[0]
    ]
    names = ("bit alone", "time slots", "double")
    columns = ("clock error", *(f"{n}: exact" for n in names), *(f"{n}: rms error" for n in names))
    return table("Exact blocks (%) and rms loss error per block (packets)", columns, rows)


def draw(results: Sequence[BlockResult], options: argparse.Namespace) -> Figure:
    """Draw the loss error per block (left) and the fraction of exact blocks (right)."""
    figure, (left, right) = plots.figure(2, height_in=2.8)
    for number, decoder in enumerate(DECODERS):
        style: dict[str, Any] = {"color": plots.COLOURS[number], "marker": plots.MARKERS[number]}
        by_error = group_by_error(results, decoder)
        errors = [*by_error]
        rms = [rms_by_run(found) for found in by_error.values()]
        left.errorbar(
            errors, [r.mean() for r in rms], [r.std() for r in rms], linestyle="",
            label=decoder.name, **style,
        )  # fmt: skip
        packets = float(np.mean([r.true_sent for found in by_error.values() for r in found]))
        fine = np.linspace(0, max(errors), 500)
        law = [law_packets(Setting(e, options.block_us, 0), decoder, packets) for e in fine]
        left.plot(fine, law, color=style["color"], marker="", linewidth=0.8)
        few = relative_scatter(options.blocks)
        left.fill_between(
            fine, np.multiply(law, 1 - few), np.multiply(law, 1 + few),
            color=style["color"], alpha=0.15, linewidth=0,
        )  # fmt: skip
        share = [exact_percent(found) for found in by_error.values()]
        right.plot(errors, share, linestyle="-", linewidth=0.8, label=decoder.name, **style)
    draw_aliases(right, group_by_error(results, DOUBLE))
    for axes in (left, right):
        for decoder in (MULTIPLEXED, DOUBLE):
            colour = plots.COLOURS[DECODERS.index(decoder)]
            axes.axvline(decoder.bound, color=colour, linestyle=":")
        axes.set_xlabel("Clock error A (L)")
    left.set_ylabel("RMS loss error (packets)")
    left.plot([], [], color="black", marker="", linewidth=0.8, label="theory")
    left.plot([], [], color="black", marker="", linestyle=":", label="bound of exactness")
    left.fill_between([], [], [], color="black", alpha=0.15, linewidth=0, label="theory: ±1 sd")
    right.set_ylabel("Exact blocks (%)")
    plots.legend(left, 2)
    plots.legend(right, 2)
    return figure


def draw_aliases(axes: Axes, by_error: dict[float, list[BlockResult]]) -> None:
    """Draw the fraction of double-marking blocks with the count of the block two away."""
    share = [
        100 * sum(r.has_count_of(-2 if r.setting.error > 0 else 2) for r in found) / len(found)
        for found in by_error.values()
    ]
    axes.plot(
        [*by_error], share, linestyle="--", linewidth=0.8, marker="x", color="black",
        label="double, wrong block",
    )  # fmt: skip


def caption(results: Sequence[BlockResult], options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    unknown = sum(bool(np.isnan(r.error)) for r in results)
    missing = f" {unknown} of {len(results)} block records were missing." if unknown else ""
    return (
        f"Effect of clock errors: two flows of {options.rate:,} packets/s, {options.blocks} "
        f"blocks of L = {options.block_us / 1e6:.3g} s, "
        f"{plots.runs(options.seeds, options.time)}. (a) Loss error per block. Theory is the mean "
        "over very many blocks; the shaded range is the standard deviation of a run of "
        f"{options.blocks} blocks, {100 * relative_scatter(options.blocks):.0f} %. (b) Fraction "
        "of blocks with exact loss, pulse and delay. The dashed line shows the fraction of "
        "double-marking blocks that have the count of the block two away, which has the same "
        "colour (rarely, two blocks have the same count by chance)." + missing
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
