"""Packets through a veth to a detector and a filter, and what became of each attack."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebpf.datapath.ddos_filter import SOURCE, Filter
from ebpf.loader import Program, Sent, attach_xdp, live, load
from ebpf.threats.alerts import Alert, Kind
from ebpf.threats.detector import Limits, Setting, detecting
from ebpf.threats.mitigation import Mitigation
from experiments.shared.xdp.attacks import Label
from experiments.shared.xdp.veth_setup import DEVICE, PEER
from telemark.errors import InvalidRunError

PROGRAMS = Path(__file__).parent / "threats.bpf.c"
PLACES = ("leave", "arrive", "behind")
STEP, STEPS = 512, 8  # packets of a call, which takes a grace period of the kernel; in a window
WINDOW = STEP * STEPS
# An attack has 1,024 packets a window or more, and so 512 in one of two, wherever these are cut:
# limits are below that.
LIMITS = Limits(openings=500, answers=50_000)
PATIENCE_S = 20.0
Counts = NDArray[np.int64]  # (places, labels)


class Acted(NamedTuple):
    """What came of a window: its alerts, and when they were told and their rules in force."""

    window: int
    alerts: list[Alert]
    reported_ns: int
    ruled_ns: int


class Told(NamedTuple):
    """All of a stream."""

    acted: list[Acted]
    began_ns: int  # when the first packet of the attack left; 0: there was none
    before: list[Counts]  # at the beginning of each window, and at the end
    blocked_from: Counts | None  # when the first packet left that all rules were in force for


class Scene:
    """A device at which each packet comes to a counter, the detector, the filter, a counter.

    Windows end by packets sent, and are read while the next one's come. Who sends is never more
    than one window ahead of that, however slow the machine: so how late an alert is, and what it
    leads to, are bounded in packets.
    """

    def __init__(self, stack: ExitStack, seed: int) -> None:
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
        """Packets so far, by places and labels."""
        return np.array(self._counted, np.int64)

    def stream(
        self, clean: Sequence[bytes], mixed: Sequence[bytes], windows: int, onset: int,
        window_s: float,
    ) -> Told:  # fmt: skip
        """Have windows of clean packets come, from step `onset` on with an attack among them.

        Raises TestbedError where a packet got lost: then nobody knows what the detector saw.
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
        return Told([each.result() for each in reading], began_ns, before, blocked_from)

    def _act(self, window: int) -> Acted:
        alerts = self.detector.poll()
        reported_ns = time.monotonic_ns()
        self.mitigation.act(alerts)
        return Acted(window, alerts, reported_ns, time.monotonic_ns())

    def _send(self, arrive: Callable[[int], Sent], step_s: float) -> None:
        """One step, which takes its time; all of it has arrived when this returns."""
        until = time.monotonic() + step_s
        arrive(STEP)
        left, arrived = self._counted[0], self._counted[1]
        behind, dropped = self._counted[2], 0
        while arrived.sum() < left.sum() or behind.sum() + dropped < left.sum():
            if time.monotonic() > until + PATIENCE_S:
                raise InvalidRunError(f"of {left.sum()} packets {arrived.sum()} arrived")
            dropped = self.filter.counts()["dropped"]
        time.sleep(max(until - time.monotonic(), 0))


def _is_acted(reading: Sequence[Future[Acted]]) -> bool:
    """Whether the last windows that were read out have their rules: none is being made."""
    return all(each.done() for each in reading)


def first_of(told: Told, kind: Kind) -> Acted | None:
    """When an alert of this kind came first."""
    return next((each for each in told.acted
                 if any(alert.kind is kind for alert in each.alerts)), None)  # fmt: skip


def lost(counts: Counts) -> int:
    """Packets that left and did not arrive, or are not ours."""
    place = {name: number for number, name in enumerate(PLACES)}
    return int((counts[place["leave"]] - counts[place["arrive"]]).sum() + counts[:, 0].sum())


def passed(counts: Counts, label: Label) -> tuple[int, int]:
    """Packets of a label that arrived, and that came out behind the filter."""
    return int(counts[1, label]), int(counts[2, label])


def summary(told: Told, kind: Kind) -> dict[str, Any]:
    """What is known of an attack's run; times in ms."""
    found = first_of(told, kind)
    first_window = int(np.argmax([after[1, Label.ATTACK] > 0 for after in told.before[1:]]))
    last = told.before[-1]
    attack, through = passed(last, Label.ATTACK)
    clean, clean_through = passed(last, Label.CLEAN)
    opening, opening_through = passed(last, Label.OPENING)
    others = sum(alert.kind is not kind for each in told.acted for alert in each.alerts)
    blocked = told.blocked_from
    return {
        "kind": kind.value, "packets": int(last[0].sum()), "lost": lost(last),
        "windows_to_alert": found.window - first_window + 1 if found else len(told.acted),
        "ms_to_alert": (found.reported_ns - told.began_ns) / 1e6 if found else None,
        "ms_to_rules": (found.ruled_ns - found.reported_ns) / 1e6 if found else None,
        "attack": attack, "attack_through": through,
        "through_after_rules": through if blocked is None
        else through - passed(blocked, Label.ATTACK)[1],
        "clean": clean, "clean_stopped": clean - clean_through,
        "openings": opening, "openings_stopped": opening - opening_through,
        "false_alarms": others,
    }  # fmt: skip
