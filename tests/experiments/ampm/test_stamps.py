"""The order of a packet's times: correct times pass; each wrong time violates the order."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scripts import module

from controllers.ampm.records import Point
from controllers.connection import connection
from controllers.forwarding import forwarding_entries
from telemark.backends.virtual.clock import VirtualClock
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import Line

stamps = module("experiments.shared.ampm.stamps")
truth_module = module("experiments.shared.ampm.truth")
PATH = ("s1", "s2")
PROGRAM = "p4src/ampm/ampm.p4"
LINK_US = 1000.0
COUNT = 5
LOST_ON_LINK, LOST_IN_QUEUE = 3, 4
ORDER_US = {  # times of one packet
    "sent": 0, "s1 arrivals": 10, "handed": 20, "s1 taken": 25, "s1 departures": 30,
    "s1 sending": 1040, "s2 arrivals": 1050, "s1 sent": 1060, "s2 taken": 1070,
    "s2 departures": 1080, "s2 sending": 1085, "received": 1090, "s2 sent": 1100,
}  # fmt: skip


def packets(wrong: str = "", by_us: int = 0) -> tuple[object, dict[str, object]]:
    """Return packets at intervals of 1 ms, two of which are lost.

    If `wrong` names a time, this time of the first packet is wrong by `by_us`.
    """
    times = {
        what: 1000 * (us + 1000 * np.arange(COUNT, dtype=np.int64) + 5)
        for what, us in ORDER_US.items()
    }
    if wrong:
        times[wrong][0] += 1000 * by_us
    places = [*ORDER_US]
    for packet, last in ((LOST_ON_LINK, "s1 departures"), (LOST_IN_QUEUE, "s1 taken")):
        for what in places[places.index(last) + 1 :]:
            times[what][packet] = truth_module.NEVER
    points = {Point(s, n): times[f"{s} {n}"] for s in PATH for n in ("arrivals", "departures")}
    block = np.zeros(COUNT, np.int64)
    truth = truth_module.Truth(
        PATH, block, block > 0, points, times["sent"], times["handed"], times["received"]
    )
    handling = {s: stamps.Handling(*(times[f"{s} {n}"] for n in ("taken", "sending", "sent")))
                for s in PATH}  # fmt: skip
    return truth, handling


def broken(truth: object, handling: dict[str, object]) -> set[str]:
    """Return the steps whose order is violated."""
    found = {what: [pair] for what, pair in stamps.steps(truth, handling, [LINK_US]).items()}
    return {check.name for check in stamps.order_checks(found) if not check.passed}


def test_packets_that_are_right_and_some_that_are_lost_break_nothing() -> None:
    assert broken(*packets()) == set()


@pytest.mark.parametrize(
    ("wrong", "by_us", "what"),
    [
        ("s1 arrivals", 200, "packets at s1 after their send call"),
        ("s1 arrivals", -200, "packets at s1 before their send call"),
        ("s1 departures", 200, "packets sent by s1 before departure plus link delay"),
        ("s1 departures", -200, "packets leaving s1 before they were taken"),
        ("s1 sending", -200, "packets sent by s1 before departure plus link delay"),
        ("s2 arrivals", 200, "packets at s2 after their send call"),
        ("s2 arrivals", -200, "packets at s2 before their send call"),
        ("s2 departures", 200, "packets received before departure from s2"),
        ("s2 departures", -200, "packets leaving s2 before they were taken"),
        ("received", 200, "packets received after the send call of s2"),
        ("received", -200, "packets received before departure from s2"),
        ("s2 taken", -200, "packets taken by s2 before arrival"),
    ],
)
def test_one_wrong_time_of_one_packet_is_found_out(wrong: str, by_us: int, what: str) -> None:
    assert what in broken(*packets(wrong, by_us))


def test_a_time_that_never_recorded_is_found_out() -> None:
    truth, handling = packets()
    never = np.full(COUNT, truth_module.NEVER)
    handling["s2"] = replace(handling["s2"], taken_ns=never)
    assert "packets leaving s2 before they were taken" in broken(truth, handling)


def test_bounds_of_delays_come_from_other_switches() -> None:
    """A wrong timestamp of a switch does not change the bounds of the delay that is checked."""
    first, last = Point("s1", "arrivals"), Point("s2", "departures")
    for wrong in ("", "s1 arrivals", "s1 departures", "s2 arrivals", "s2 departures"):
        found = stamps.passages(*packets(wrong, 10_000), {})
        min_us, max_us = stamps.between_us(found[first], found[last])
        assert list(min_us[:3]) == [1040 - 20] * 3
        assert list(max_us[:3]) == [1090 - 0] * 3
        assert np.isnan([min_us[3:], max_us[3:]]).all()


def test_in_virtual_time_hosts_know_it_exactly() -> None:
    truth, _ = packets("s2 departures", 10_000)
    found = stamps.passages(replace(truth, handed_ns=truth.sent_ns), {}, {})
    spans = stamps.between_us(found[Point("s1", "arrivals")], found[Point("s2", "departures")])
    assert [list(span[:3]) for span in spans] == [[1090] * 3] * 2


def test_on_bmv2_a_packet_is_stamped_while_it_is_inside() -> None:
    """On bmv2, both timestamps of a packet lie between its entry into bmv2 and its exit.

    The times that the panel has captured do not change these bounds.
    """
    truth, handling = packets("s1 arrivals", 10_000)
    inside = {s: (truth.time_ns[Point(s, "arrivals")] - 3000,
                  truth.time_ns[Point(s, "departures")] + 3000) for s in PATH}  # fmt: skip
    found = stamps.passages(truth, handling, inside)
    for switch in PATH:
        for name in ("arrivals", "departures"):
            assert found[Point(switch, name)] is inside[switch]
    min_us, max_us = stamps.between_us(
        found[Point("s1", "departures")], found[Point("s2", "arrivals")]
    )
    assert (min_us[1], max_us[1]) == (1050 - 30 - 6, 1080 - 10 + 6)


def test_when_a_packet_was_inside_is_read_from_the_panel_s_captures(tmp_path: Path) -> None:
    """The time of a packet inside bmv2 comes from captures behind the panel.

    The bounds of this time include the clock error. In this test, captures of a switch's own ports
    replace the captures behind the panel.
    """
    run = Run("test", tmp_path, 1, clock=VirtualClock())
    flow = Flow(1, "h1", "h2", rate_pps=1000, count=COUNT)

    async def send() -> Network:
        with Network(Line(switches=1), run, program=PROGRAM) as net:
            async with connection(net, "s1") as switch:
                await switch.write([+entry for entry in forwarding_entries(net, "s1")])
                async with Traffic(net, [flow]) as traffic:
                    await traffic.finish()
        return net

    net = run.clock.run(send())
    own = {("h1", "out"): net.capture("s1", "h1", "in"),
           ("h2", "in"): net.capture("s1", "h2", "out")}  # fmt: skip
    panel = SimpleNamespace(capture=lambda _switch, node, what, inner: own[node, what])
    found = stamps.read_inside(panel, [flow], ["s1"], {"s1": 40.5})
    into_ns, out_ns = found[1]["s1"]
    assert len(into_ns) == COUNT
    assert list(out_ns - into_ns) == [2 * 41_500] * COUNT  # twice clock error and resolution
    assert list(np.diff(into_ns)) == [1_000_000] * (COUNT - 1)
