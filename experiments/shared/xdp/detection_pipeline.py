"""Pipeline of a veth pair, a detector and a filter, with the results of each attack."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebpf.datapath.ddos_filter import SOURCE, Filter
from ebpf.datapath.rules import Rule
from ebpf.loader import Program, Sent, attach_xdp, live, load
from ebpf.threats.alerts import Alert, Kind
from ebpf.threats.detector import Limits, Setting, detecting
from ebpf.threats.mitigation import Mitigation
from experiments.shared.xdp.attacks import Label
from experiments.shared.xdp.veth_setup import DEVICE, PEER
from telemark.errors import note_invalid
from telemark.watch.display import Display

PROGRAMS = Path(__file__).parent / "threats.bpf.c"
PLACES = ("leave", "arrive", "behind")
# packets per call (each call waits for a grace period of the kernel), and steps per window
STEP, STEPS = 512, 8
WINDOW = STEP * STEPS
# An attack has at least 1,024 packets per window, so it has at least 512 packets in one of its
# first two windows. The limits of the detector are lower.
LIMITS = Limits(openings=500, answers=50_000)
PATIENCE_S = 20.0
Counts = NDArray[np.int64]  # shape (measuring points, labels)


class Acted(NamedTuple):
    """Reaction to a window: its alerts, and the times at which alerts and rules were ready."""

    window: int
    alerts: list[Alert]
    reported_ns: int
    ruled_ns: int


class StreamResult(NamedTuple):
    """Result of one stream of packets."""

    acted: list[Acted]
    began_ns: int  # departure time of the first attack packet; 0 if there is no attack
    before: list[Counts]  # counts at the start of each window and at the end
    blocked_from: Counts | None  # counts at the time when all rules were in force


class Scene:
    """Device on which each packet passes a counter, the detector, the filter and another counter.

    A window is a fixed number of sent packets. A window is read while the packets of the next
    window arrive. The sender is never more than one window ahead of the reader, even on a slow
    machine. So the delay of an alert and of its rules has a bound, in packets.
    """

    def __init__(self, stack: ExitStack, seed: int, display: Display | None) -> None:
        self._display = display
        wholes = {place: stack.enter_context(load(PROGRAMS)) for place in PLACES}
        self.filter = Filter(stack.enter_context(load(SOURCE)))
        self.detector = stack.enter_context(detecting(Setting(LIMITS, seed=seed)))
        self.mitigation = Mitigation(self.filter)
        self._counted = [whole.maps[".bss"].mapped()["packets"][0] for whole in wholes.values()]
        self.leave = wholes["leave"].programs["leave"]
        chain: Sequence[Program] = (
            wholes["arrive"].programs["arrive"], self.detector.at_xdp, self.filter.program,
            wholes["behind"].programs["behind"],
        )  # fmt: skip
        for order, program in enumerate(chain):
            stack.enter_context(attach_xdp(program, DEVICE, order=order))
        stack.enter_context(attach_xdp(self.leave, PEER))
        self._worker = stack.enter_context(ThreadPoolExecutor(1))

    def counts(self) -> Counts:
        """Return the number of packets counted up to now, by measuring point and label."""
        return np.array(self._counted, np.int64)

    def stream(
        self, clean: Sequence[bytes], mixed: Sequence[bytes], windows: int, onset: int,
        window_s: float,
    ) -> StreamResult:  # fmt: skip
        """Send windows of clean packets; an attack starts at step `onset`.

        The run is inconclusive if a packet is lost, because the input of the detector is then
        unknown.
        """
        reading: list[Future[Acted]] = []
        before: list[Counts] = []
        began_ns, blocked_from = 0, None
        with live(self.leave, clean, ingress=PEER) as quiet, \
                live(self.leave, mixed, ingress=PEER) as attacked:  # fmt: skip
            for step in range(windows * STEPS):
                if not step % STEPS:
                    before.append(self.counts())
                    if len(reading) > 1:
                        reading[-2].result()
                if blocked_from is None and self.mitigation.rules and _is_acted(reading):
                    blocked_from = self.counts()
                if step == onset:
                    began_ns = time.monotonic_ns()
                self._send(attacked if step >= onset else quiet, window_s / STEPS)
                if not (step + 1) % STEPS:
                    reading.append(self._worker.submit(self._act, step // STEPS))
        before.append(self.counts())
        return StreamResult([each.result() for each in reading], began_ns, before, blocked_from)

    def _act(self, window: int) -> Acted:
        alerts = self.detector.poll()
        reported_ns = time.monotonic_ns()
        rules = self.mitigation.act(alerts)
        acted = Acted(window, alerts, reported_ns, time.monotonic_ns())
        if self._display is not None:
            for alert in alerts:
                self._display.alert("eBPF detector", acted.reported_ns, str(alert))
            for rule in rules:
                self._display.alert("eBPF filter", acted.ruled_ns, f"new rule: {_describe(rule)}")
        return acted

    def _send(self, arrive: Callable[[int], Sent], step_s: float) -> None:
        """Send the packets of one step at its rate; return after all of them have arrived."""
        until = time.monotonic() + step_s
        arrive(STEP)
        left, arrived = self._counted[0], self._counted[1]
        behind, dropped = self._counted[2], 0
        while arrived.sum() < left.sum() or behind.sum() + dropped < left.sum():
            if time.monotonic() > until + PATIENCE_S:
                note_invalid(f"{left.sum()} packets sent, but {arrived.sum()} arrived")
                break
            dropped = self.filter.counts()["dropped"]
        time.sleep(max(until - time.monotonic(), 0))


def _describe(rule: Rule) -> str:
    """Return the fields that a rule matches, and its action."""
    values = {each.name: getattr(rule, each.name) for each in fields(rule) if each.name != "action"}
    matched = (f"{name} {value}" for name, value in values.items() if value is not None)
    return f"{rule.action.name.lower()} {', '.join(matched)}"


def _is_acted(reading: Sequence[Future[Acted]]) -> bool:
    """Return whether the rules of all windows read so far are in force."""
    return all(each.done() for each in reading)


def first_alert(result: StreamResult, kind: Kind) -> Acted | None:
    """Return the first reaction that has an alert of this kind."""
    return next((each for each in result.acted
                 if any(alert.kind is kind for alert in each.alerts)), None)  # fmt: skip


def lost(counts: Counts) -> int:
    """Return the number of packets that were lost, plus packets from outside of the experiment."""
    place = {name: number for number, name in enumerate(PLACES)}
    return int((counts[place["leave"]] - counts[place["arrive"]]).sum() + counts[:, 0].sum())


def passed(counts: Counts, label: Label) -> tuple[int, int]:
    """Return how many packets with a label arrived, and how many passed the filter."""
    return int(counts[1, label]), int(counts[2, label])


def summary(result: StreamResult, kind: Kind) -> dict[str, Any]:
    """Return the results of a run with an attack; times are in ms."""
    found = first_alert(result, kind)
    first_window = int(np.argmax([after[1, Label.ATTACK] > 0 for after in result.before[1:]]))
    last = result.before[-1]
    attack, through = passed(last, Label.ATTACK)
    clean, clean_through = passed(last, Label.CLEAN)
    opening, opening_through = passed(last, Label.OPENING)
    others = sum(alert.kind is not kind for each in result.acted for alert in each.alerts)
    blocked = result.blocked_from
    return {
        "kind": kind.value, "packets": int(last[0].sum()), "lost": lost(last),
        "windows_to_alert": found.window - first_window + 1 if found else len(result.acted),
        "ms_to_alert": (found.reported_ns - result.began_ns) / 1e6 if found else None,
        "ms_to_rules": (found.ruled_ns - found.reported_ns) / 1e6 if found else None,
        "attack": attack, "attack_through": through,
        "through_after_rules": through if blocked is None
        else through - passed(blocked, Label.ATTACK)[1],
        "clean": clean, "clean_stopped": clean - clean_through,
        "openings": opening, "openings_stopped": opening - opening_through,
        "false_alarms": others,
    }  # fmt: skip
