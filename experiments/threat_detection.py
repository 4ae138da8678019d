"""From an attack to its rule: how soon is it told, how soon stopped, and what else is hit?

Packets cross a veth to a detector and behind it a DDoS filter, both at XDP. Hosts that connect and
ask names make up the clean traffic; at a random step of a window an attack begins among it: a heavy
hitter, a superspreader, a port scan, a SYN flood, an amplification. Windows are read while the
next one's packets come; alerts become rules of the filter. Who sends says in each packet what it
is, and counters where packets leave, arrive, and come out behind the filter count by that alone: a
run in which a packet got lost between them is invalid. What is checked is counted in packets and
windows, which no load of the machine changes; the milliseconds are this machine's.

Claim: Each of five threats is told by the end of the window after the one that it began in, nothing
else is told, and once its rules are in force not one of its packets comes through.

Published: no figure that could be compared: "Network Telemetry at the SmartNIC" asks for programs
that flag threats, and measures none.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from ebpf.threats.alerts import Kind
from experiments.shared.xdp import attacks
from experiments.shared.xdp.attacks import Label
from experiments.shared.xdp.detection_pipeline import STEPS, WINDOW, Scene, Told, lost, summary
from experiments.shared.xdp.settings import require_real_time
from experiments.shared.xdp.veth_setup import VethPair
from telemark.errors import InvalidRunError
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

RUNS, QUICK_RUNS = 10, 2
CLEAN_WINDOWS, QUICK_CLEAN_WINDOWS = 200, 30
WINDOWS = 8  # of a run: the attack begins in the third one
WINDOW_S = 0.1
NAMES = {kind: kind.value.replace("_", " ") for kind in Kind}
Row = dict[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=cli.positive_int, metavar="N", help=f"of each threat (default: {RUNS})"
    )


def experiment(options: argparse.Namespace, run: Run) -> Report:
    require_real_time(options)
    options.runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    windows = QUICK_CLEAN_WINDOWS if options.quick else CLEAN_WINDOWS
    rng = np.random.default_rng(run.seed)
    clean, rows, told = attacks.clean(), [], {}
    for kind in Kind:
        mixed = attacks.mixed(kind)
        for number in range(options.runs):
            run.progress.update(f"{NAMES[kind]}, run {number + 1}")
            onset = 2 * STEPS + int(rng.integers(STEPS))
            told[kind] = streamed(clean, mixed, WINDOWS, onset, run.seed + number)
            rows.append({"run": number, "onset_step": onset, **summary(told[kind], kind)})
    run.progress.update("clean traffic")
    quiet = streamed(clean, clean, windows, windows * STEPS, run.seed)
    return report(rows, quiet, told, options)


def streamed(
    clean: Sequence[bytes], mixed: Sequence[bytes], windows: int, onset: int, seed: int
) -> Told:
    """A stream at a device of its own. Raises TestbedError where packets got lost."""
    ground = VethPair()
    try:
        with ground.entered(), ExitStack() as stack:
            told = Scene(stack, seed).stream(clean, mixed, windows, onset, WINDOW_S)
    finally:
        ground.close()
    if lost(told.before[-1]):
        raise InvalidRunError(f"{lost(told.before[-1])} packets got lost on the veth")
    return told


def report(
    rows: Sequence[Row], quiet: Told, told: dict[Kind, Told], options: argparse.Namespace
) -> Report:
    """`told` has the last run of each threat, `quiet` that of clean traffic."""
    alarms = sum(len(each.alerts) for each in quiet.acted)
    total = {name: sum(row[name] for row in rows)
             for name in ("through_after_rules", "clean_stopped", "false_alarms")}  # fmt: skip
    times = {
        f"{name}_{kind.value}": float(np.median([
            row[name] for row in rows if row["kind"] == kind.value and row[name] is not None
        ] or [np.nan]))
        for name in ("ms_to_alert", "ms_to_rules") for kind in Kind
    }  # fmt: skip
    return Report(
        samples=rows,
        checks=[
            Check("windows until a threat is told, at most 2",
                  max(row["windows_to_alert"] for row in rows), 0, 2),
            Check("packets of threats that came through once rules were in force",
                  total["through_after_rules"], 0),
            Check("alerts of what was not there, beside threats and without",
                  total["false_alarms"] + alarms, 0),
            Check("clean packets that were stopped, but for openings of the flooded service",
                  total["clean_stopped"], 0),
        ],
        metrics={"clean_windows": len(quiet.acted), **times},
        figure=draw(rows, told),
        caption=caption(options, len(quiet.acted)),
        tables=[kinds_table(rows)],
    )  # fmt: skip


def of(rows: Sequence[Row], kind: Kind, name: str) -> list[Any]:
    """A column, of one threat, where it is known."""
    return [row[name] for row in rows if row["kind"] == kind.value and row[name] is not None]


def kinds_table(rows: Sequence[Row]) -> Table:
    """A row for each threat."""
    lines = []
    for kind in Kind:
        alert, rules = of(rows, kind, "ms_to_alert"), of(rows, kind, "ms_to_rules")
        through = sum(of(rows, kind, "attack_through")) / sum(of(rows, kind, "attack"))
        stopped = sum(of(rows, kind, "openings_stopped"))
        lines.append((
            NAMES[kind], f"{max(of(rows, kind, 'windows_to_alert'))}",
            f"{np.median(alert):.0f}" if alert else "never",
            f"{np.median(rules):.1f}" if rules else "never", f"{100 * through:.0f} %", stopped,
        ))  # fmt: skip
    columns = ("threat", "windows", "ms to alert", "ms to rules", "came through", "openings")
    return table("Until told and stopped; openings to be repeated", columns, lines)


def draw(rows: Sequence[Row], told: dict[Kind, Told]) -> Figure:
    """How soon each threat was told, and how much of it came through, window by window."""
    figure, (soon, through) = plots.figure(2)
    places = np.arange(len(Kind))
    for place, kind in zip(places, Kind, strict=True):
        alert = of(rows, kind, "ms_to_alert")
        soon.plot(alert, [place] * len(alert), "o", alpha=0.5, color=plots.COLOURS[0])
    for windows in (1, 2):
        soon.axvline(1e3 * WINDOW_S * windows, color=plots.COLOURS[1], linestyle=":")
    soon.set_yticks(places, list(NAMES.values()))
    soon.invert_yaxis()
    soon.set_xlim(left=0)
    soon.set_xlabel("From the first packet to the alert (ms)")
    # Beside each other: most threats are stopped in the same window.
    for number, (kind, each) in enumerate(told.items()):
        counts = np.diff(np.array(each.before), axis=0)[:, :, Label.ATTACK]
        began = int(np.argmax(counts[:, 1] > 0))
        share = counts[began:, 2] / counts[began:, 1]
        beside = np.arange(len(share)) + 0.06 * (number - (len(told) - 1) / 2)
        through.plot(beside, share, linestyle=":", label=NAMES[kind])
    through.set(xlabel="Windows since it began", ylabel="Share that came through")
    plots.legend(through, 2)
    return figure


def caption(options: argparse.Namespace, windows: int) -> str:
    """What the figure shows."""
    return (
        f"{options.runs} runs of each threat, which begins anywhere in a window of {WINDOW:,} "
        f"packets and {1e3 * WINDOW_S:g} ms; a quarter of the packets, or of a heavy hitter three "
        "fifths, are then its own. (a) Time until an alert; dotted: one window, and two. (b) What "
        "of it came out behind the filter, in one run of each. Packets are live frames of the "
        f"kernel's own test run, sent through a veth. {windows} windows of clean traffic beside."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
