"""DTA on bmv2: reports are sent in windows, and drops make a run inconclusive."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scripts import run, samples

from controllers.dta.manager.runner import reject_bmv2_drops
from controllers.dta.translator import EVENTS, OUTCOMES
from experiments.shared.dta import fabric, lossy_reports, translator_setup
from telemark.backends.real.targets.bmv2 import PROGRAM
from telemark.backends.virtual.clock import VirtualClock
from telemark.errors import InvalidRunError
from telemark.session.run import Run


class Translator:
    """A bmv2 whose program has received all frames sent so far, except `dropped` frames."""

    def __init__(self, clock: VirtualClock, dropped: int = 0, delay_ns: int = 0) -> None:
        self.sent: list[int] = []
        self.at_once: list[int] = []
        self.requests: Iterator[int] = iter((4, 9, 9, 9, 9))
        self._clock, self._dropped, self._delay_ns = clock, dropped, delay_ns

    def send_frames(self, _host: str, times: list[int], _frames: list[bytes]) -> None:
        self.at_once.append(len(times))
        self.sent += times

    async def events(self, _switch: Any, number: int) -> dict[str, int]:
        now_ns = self._clock.now_ns() - self._delay_ns
        received = sum(time <= now_ns for time in self.sent) - self._dropped
        counts = dict.fromkeys(EVENTS, 0)
        if number == 0:
            counts |= {"translated": max(received, 0) - 1, "malformed": 1, "nacked": 70}
        return counts

    async def requested(self, _switch: Any, _session: Any) -> dict[str, int]:
        return {"sent": next(self.requests)}


def send(
    translator: Translator, clock: VirtualClock, target: str, folder: Path,
    monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(translator_setup, "events", translator.events)
    monkeypatch.setattr(translator_setup.roce, "events", translator.requested)
    translator.sent.append(0)  # a malformed report
    net: Any = SimpleNamespace(name="net", send_frames=translator.send_frames)
    session: Any = None
    running = translator_setup.Running(
        net, session, [session], 1, Run("test", folder, 1, clock=clock, target=target)
    )
    clock.run(running.send([b""] * 150, 1000))


def test_bmv2_gets_the_next_window_when_it_has_translated_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    translator = Translator(clock, delay_ns=400_000_000)
    send(translator, clock, "bmv2", tmp_path, monkeypatch)
    assert translator.at_once == [64, 64, 22]
    assert translator.sent[65] - translator.sent[64] > 400_000_000
    # the sender waited until the counters no longer changed
    assert [*translator.requests] == [9, 9]


def test_minip4_gets_all_reports_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    translator = Translator(clock)
    send(translator, clock, "minip4", tmp_path, monkeypatch)
    assert translator.at_once == [150]
    assert next(translator.requests) == 4  # the sender did not read the counters


def test_a_report_that_bmv2_dropped_makes_a_run_inconclusive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    translator = Translator(clock)

    def send_frames(_host: str, times: list[int], _frames: list[bytes]) -> None:
        translator.sent += times[2:]

    monkeypatch.setattr(translator, "send_frames", send_frames)
    with pytest.raises(InvalidRunError, match="net: bmv2 dropped 2 of 64 reports"):
        send(translator, clock, "bmv2", tmp_path, monkeypatch)


RECEIVED = {
    ("s1", "h1", "out"): 50, ("s1", "s2", "out"): 3, ("s2", "s1", "out"): 53,
    ("s1", "s2", "in"): 54, ("s2", "s1", "in"): 3, ("s2", "h2", "in"): 54,
}  # fmt: skip


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        (("s1", "h1", "out"), 2, "net: s1 dropped 2 frames from h1"),
        (("s1", "s2", "out"), 1, "net: s1 dropped 1 frames from s2"),
        (("s2", "s1", "out"), 5, "net: s2 dropped 5 frames from s1"),
        (("s1", "s2", "in"), -1, "net: s1 dropped 1 frames to s2"),
        (("s2", "s1", "in"), -2, "net: s2 dropped 2 frames to s1"),
        (("s2", "h2", "in"), -1, "net: s2 dropped 1 frames to h2"),
        (("s1", "h1", "out"), 0, None),
    ],
)
def test_loss_of_links_and_drops_of_bmv2_are_distinguished(
    place: tuple[str, str, str], change: int, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = {**RECEIVED, place: RECEIVED[place] + change}
    net: Any = SimpleNamespace(
        name="net", capture=lambda switch, neighbour, what, *, inner: (switch, neighbour, what)
    )
    monkeypatch.setattr(
        lossy_reports.pcap, "read", lambda at: SimpleNamespace(time_ns=np.zeros(frames[at]))
    )
    translated = dict.fromkeys(EVENTS, 0) | {"translated": 50, "duplicate": 3, "nacked": 3,
                                             "recovered": 4}  # fmt: skip
    arguments = (net, {"sent": 50, "resent": 4, "nacked": 3}, translated,
                 {"sent": 50, "probed": 4})  # fmt: skip
    if message is None:
        lossy_reports._reject_bmv2_drops(*arguments)
        arguments[3]["sent"] -= 1
        frames["s2", "h2", "in"] -= 1
        with pytest.raises(InvalidRunError, match="net: s2 dropped 1 requests in its queue"):
            lossy_reports._reject_bmv2_drops(*arguments)
    else:
        with pytest.raises(InvalidRunError, match=message):
            lossy_reports._reject_bmv2_drops(*arguments)


@pytest.mark.parametrize(
    ("switch", "port", "message"),
    [
        ("edge", fabric.USER_PORT, "net: edge: bmv2 dropped 1 frames"),
        ("core", fabric.DTA_PORT, "net: core: bmv2 dropped 1 frames"),
        ("edge", fabric.DTA_PORT, None),  # the edge switch sends reports, and receives none
        ("core", 9, None),  # a packet that is not a report
    ],
)
def test_each_switch_of_a_fabric_forwards_what_it_receives(
    switch: str, port: int, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = {
        ("edge", "in"): [fabric.USER_PORT] * 3 + [fabric.DTA_PORT] * 2,
        ("edge", "out"): [fabric.USER_PORT] * 3,
        ("core", "in"): [fabric.USER_PORT] + [fabric.DTA_PORT] * 2,
        ("core", "out"): [fabric.USER_PORT] + [fabric.DTA_PORT] * 2,
        (fabric.TRANSLATOR, "out"): [fabric.DTA_PORT] * 2,
    }
    frames[switch, "out"] = [*frames[switch, "out"], port]
    if port == fabric.DTA_PORT and switch == "edge":
        frames[switch, "out"].pop()
    topo = SimpleNamespace(routers=["edge", "core"], edges=["edge"], switch=lambda *_place: "core")
    net = SimpleNamespace(
        name="net", neighbours=lambda _switch: ["other"],
        capture=lambda switch, _neighbour, what, *, inner: (switch, what),
    )  # fmt: skip

    def read(place: tuple[str, str]) -> Any:
        frame = np.zeros((len(frames[place]), 60), np.uint8)
        frame[:, fabric.DST_PORT : fabric.DST_PORT + 2] = (
            np.array(frames[place], ">u2")[:, np.newaxis].view(np.uint8)
        )  # fmt: skip
        return SimpleNamespace(bytes=frame)

    monkeypatch.setattr(fabric.pcap, "read", read)
    tracing: Any = SimpleNamespace(net=net, topo=topo)
    if message is not None:
        with pytest.raises(InvalidRunError, match=message):
            fabric.reject_bmv2_drops(tracing, 2)
        return
    fabric.reject_bmv2_drops(tracing, 2)
    with pytest.raises(InvalidRunError, match="s21: bmv2 dropped 1 frames"):
        fabric.reject_bmv2_drops(tracing, 1)


def test_the_manager_reports_drops_of_bmv2() -> None:
    counters = {"s1": {"inner": {"into": 9, "out": 2}}, "s2": {"inner": {"into": 50, "out": 40}}}
    reject_bmv2_drops(counters, {"s2": 10})
    reject_bmv2_drops({"s2": {}}, {"s2": 9})  # minip4
    with pytest.raises(InvalidRunError, match="s2: bmv2 dropped 1 frames; lower the rates"):
        reject_bmv2_drops(counters, {"s2": 9})


def test_each_report_has_one_outcome() -> None:
    assert OUTCOMES == ["malformed", "out of range", "not configured", "duplicate", "out of order",
                        "too fast", "column twice", "translated"]  # fmt: skip


@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not on PATH")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dta_keywrite", ("--slots", "256", "--model-slots", "4096")),
        ("dta_append", ("--reports", "128")),
        ("dta_loss", ("--loss", "0.1", "--reports", "100")),
        ("dta_int", ("--slots", "256")),
    ],
)
def test_experiments_pass_on_bmv2(name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    done = run(name, "--quick", *options, "--target", "bmv2", "--out", str(tmp_path))
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert samples(tmp_path)


@pytest.mark.parametrize(
    ("seed", "one", "other"), [(103, 356, 383), (105, 266, 272)],
    ids=["a cell of a sink", "a row of the translator"],
)  # fmt: skip
def test_flows_that_share_registers_are_not_in_one_window(seed: int, one: int, other: int) -> None:
    """Flows that share a register are sent in different windows.

    Under load, packets of these flows were mixed: a path was reported twice, or was incomplete.
    """
    keys = fabric.flows(fabric.users(2), 512, np.random.default_rng(seed))[256:]
    found = fabric.windows(keys, 32)
    assert np.concatenate([np.arange(256)[window] for window in found]).tolist() == [*range(256)]
    assert max(window.stop - window.start for window in found) == 32
    window = next(window for window in found if window.start <= other - 256 < window.stop)
    assert window.start > one - 256
