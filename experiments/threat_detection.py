"""Threat detection and mitigation: how fast are attacks detected and blocked, and at what cost?

Packets cross a veth pair and then pass a detector and a DDoS filter, both at XDP. Clean traffic
comes from hosts that open connections and send DNS queries. An attack starts at a random step of a
window: a heavy hitter, a superspreader, a port scan, a SYN flood, or an amplification attack. The
statistics of a window are read while packets of the next window arrive, and each alert becomes a
rule of the filter. Senders label each packet. Packets are counted per label on departure, on
arrival and after the filter. A run in which packets are lost on the veth pair is invalid. Checks
count packets and windows, which do not depend on the load of the machine. Times in milliseconds
depend on the machine.

Claim: Each of five threats is detected no later than one window after the window in which it
starts. There are no false alarms, and no attack packet passes when the rules are in force.

Published: no comparable figures. "Network Telemetry at the SmartNIC" proposes programs that detect
threats, but has no measurements.
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
from experiments.shared.xdp.detection_pipeline import (
    STEPS,
    WINDOW,
    Scene,
    StreamResult,
    lost,
    summary,
)
from experiments.shared.xdp.settings import require_real_time
from experiments.shared.xdp.veth_setup import VethPair
from telemark.errors import note_invalid
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.watch.display import Display

RUNS, QUICK_RUNS = 10, 2
CLEAN_WINDOWS, QUICK_CLEAN_WINDOWS = 200, 30
WINDOWS = 8  # windows per run; the attack starts in the third window
WINDOW_S = 0.1
NAMES = {kind: kind.value.replace("_", " ").replace("syn", "SYN") for kind in Kind}
Row = dict[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=cli.positive_int, metavar="N", help=f"runs per threat (default: {RUNS})"
    )


def experiment(options: argparse.Namespace, run: Run) -> Report:
    require_real_time(options)
    options.runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    windows = QUICK_CLEAN_WINDOWS if options.quick else CLEAN_WINDOWS
    rng = np.random.default_rng(run.seed)
    clean, rows, detected = attacks.clean(), [], {}
    for kind in Kind:
        mixed = attacks.mixed(kind)
        for number in range(options.runs):
            run.progress.update(f"{NAMES[kind]}, run {number + 1}")
            onset = 2 * STEPS + int(rng.integers(STEPS))
            detected[kind] = streamed(
                clean, mixed, WINDOWS, onset, run.seed + number, display=run.display
            )
            rows.append({"run": number, "onset_step": onset, **summary(detected[kind], kind)})
    run.progress.update("clean traffic")
    quiet = streamed(clean, clean, windows, windows * STEPS, run.seed, display=run.display)
    return report(rows, quiet, detected, options)


def streamed(
    clean: Sequence[bytes], mixed: Sequence[bytes], windows: int, onset: int, seed: int, *,
    display: Display | None = None,
) -> StreamResult:  # fmt: skip
    """Run a stream on a new veth pair; the run is inconclusive if packets are lost."""
    veth = VethPair()
    try:
        with veth.entered(), ExitStack() as stack:
            scene = Scene(stack, seed, display)
            detected = scene.stream(clean, mixed, windows, onset, WINDOW_S)
    finally:
        veth.close()
    if lost(detected.before[-1]):
        note_invalid(f"the veth pair lost {lost(detected.before[-1])} packets")
    return detected


def report(
    rows: Sequence[Row],
    quiet: StreamResult,
    detected: dict[Kind, StreamResult],
    options: argparse.Namespace,
) -> Report:
    """Return the report; `detected`: last run of each threat; `quiet`: run with clean traffic."""
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
            Check("windows until detection, at most 2",
                  max(row["windows_to_alert"] for row in rows), 0, 2),
            Check("attack packets passed after rules were in force",
                  total["through_after_rules"], 0),
            Check("false alarms",
                  total["false_alarms"] + alarms, 0),
            Check("clean packets blocked (without connection attempts to the flooded service)",
                  total["clean_stopped"], 0),
        ],
        metrics={"clean_windows": len(quiet.acted), **times},
        figure=draw(rows, detected),
        caption=caption(options, len(quiet.acted)),
        tables=[kinds_table(rows)],
    )  # fmt: skip


def of(rows: Sequence[Row], kind: Kind, name: str) -> list[Any]:
    """Return the values of column `name` for one threat, except missing values."""
    return [row[name] for row in rows if row["kind"] == kind.value and row[name] is not None]


def kinds_table(rows: Sequence[Row]) -> Table:
    """Return a table with a row per threat."""
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
    columns = ("threat", "windows", "ms to alert", "ms to rules", "passed", "connection attempts")
    return table("Detection, mitigation and blocked connection attempts", columns, lines)


def draw(rows: Sequence[Row], detected: dict[Kind, StreamResult]) -> Figure:
    """Draw the detection time of each threat, and the fraction of attack packets that passed."""
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
    soon.set_xlabel("Detection time (ms)")
    # Shift the curves horizontally, because most threats are blocked in the same window.
    for number, (kind, each) in enumerate(detected.items()):
        counts = np.diff(np.array(each.before), axis=0)[:, :, Label.ATTACK]
        began = int(np.argmax(counts[:, 1] > 0))
        share = counts[began:, 2] / counts[began:, 1]
        beside = np.arange(len(share)) + 0.06 * (number - (len(detected) - 1) / 2)
        through.plot(beside, share, linestyle=":", label=NAMES[kind])
    through.set(xlabel="Windows since start of attack", ylabel="Attack packets passed (ratio)")
    plots.legend(through, 2)
    return figure


def caption(options: argparse.Namespace, windows: int) -> str:
    """Return the caption of the figure."""
    return (
        f"{options.runs} runs of each threat. The attack starts at a random time in a window of "
        f"{WINDOW:,} packets and {1e3 * WINDOW_S:g} ms. A quarter of the packets are attack "
        "packets (heavy hitter: three fifths). (a) Detection time; dotted: one and two windows. "
        "(b) Fraction of attack packets that passed the filter, in one run of each threat. The "
        "kernel generates the packets (BPF_PROG_TEST_RUN with live frames) and sends them through "
        f"a veth pair. Clean traffic lasted {windows} windows."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
