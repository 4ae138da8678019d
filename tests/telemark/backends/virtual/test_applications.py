"""Applications in virtual time: callbacks at exact times, the same in each run."""

from pathlib import Path
from typing import Any

import pytest
from applications import Counter, Echo, Restless, Sender, Timers
from virtual_networks import WIRE, Pair, virtually

from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic

MS = 1_000_000


def test_what_comes_is_handed_over_at_its_instant_or_later_and_together(tmp_path: Path) -> None:
    """Datagrams are delivered when they arrive, or later as a batch if `hold_us` is set.

    Three datagrams arrive at intervals of 1 ms, and a fourth one just before the end. The delay of
    the link is 500 us in each direction.
    """

    async def main(run: Run) -> Any:
        with Network(Pair(delay_us=500), run, program=WIRE) as net:
            first_ns, after_ns = run.clock.now_ns() + MS, [MS, 2 * MS, 3 * MS, 30 * MS]
            started = [
                net.run_application("h2", Counter(5000)),
                net.run_application("h2", Counter(5001, hold_us=1500)),
                net.run_application("h2", Echo(5002, hold_us=250)),
                net.run_application("h2", Counter(5003, hold_us=1e6)),
                net.run_application(
                    "h1", Sender(after_ns, net.host("h2").IP(), 5000, 5001, 5002, 5003)
                ),
            ]
            await run.clock.sleep_until(first_ns + 29 * MS)
        assert PacketAccounting.from_network(net, {}).unaccounted_frames == 0
        return first_ns, [each.result for each in started]

    first_ns, results = virtually(tmp_path, main)
    calls = [[(at - first_ns, count) for at, count in result[0]] for result in results[:4]]
    half = MS // 2
    assert calls[0] == [(half, 1), (MS + half, 1), (2 * MS + half, 1), (29 * MS + half, 1)]
    # the end of the network does not wait for `hold_us`
    assert calls[1] == [(2 * MS, 2), (4 * MS, 1), (29 * MS + half, 1)]
    assert calls[3] == [(29 * MS, 3), (29 * MS + half, 1)]
    assert calls[2] == [(at + MS // 4, count) for at, count in calls[0][:3]] + [calls[0][3]]
    _due_ns, called_ns, answers = results[4]
    assert [at - first_ns for at in called_ns] == [0, MS, 2 * MS, 29 * MS]
    assert [each.time_ns - at for each, at in zip(answers, called_ns, strict=True)] == [
        MS + MS // 4, MS + MS // 4, MS + MS // 4, MS,
    ]  # fmt: skip
    assert virtually(tmp_path / "again", main) == (first_ns, results)


def test_timers_come_in_the_order_of_their_times_and_end_with_the_network(tmp_path: Path) -> None:
    async def main(run: Run) -> Any:
        with Network(Pair(), run, program=WIRE) as net:
            timers = net.run_application("h1", Timers(run.clock.now_ns()))
            await run.clock.sleep_until(run.clock.now_ns() + 20)
        return timers.result

    assert virtually(tmp_path, main) == [("now", 0), ("b", 10), ("a", 10), ("soon", 10), ("c", 20)]


def test_a_timer_that_is_always_due_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemark.backends.virtual.applications.MAX_CALLS", 100)

    async def main(run: Run) -> None:
        with Network(Pair(), run, program=WIRE) as net:
            net.run_application("h1", Restless())
            await run.clock.sleep_until(run.clock.now_ns() + MS)

    with pytest.raises(
        TestbedError, match="virtual time stands still at 1 s: a callback of an app"
    ):
        virtually(tmp_path, main)


def test_the_copy_that_runs_leaves_the_experiments_own_alone(tmp_path: Path) -> None:
    """An application runs as a copy; the experiment's own object does not change.

    In real time, the copy runs in another process. If virtual time used no copy, the same code
    could give different results.
    """

    async def main(run: Run) -> None:
        counter = Counter(6000)
        with Network(Pair(), run, program=WIRE) as net:
            running = net.run_application("h2", counter)
            net.run_application("h1", Sender([0], net.host("h2").IP(), 6000))
            with pytest.raises(RuntimeError, match="Counter at h2: no result before"):
                print(running.result)
            await run.clock.sleep_until(run.clock.now_ns() + MS)
        assert len(running.result[1]) == 1
        assert not counter.came

    virtually(tmp_path, main)


def test_where_an_application_cannot_run_is_reported(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(), run, program=WIRE) as net:
            with pytest.raises(TestbedError, match="network network: no node h9"):
                net.run_application("h9", Counter(1))
            with pytest.raises(
                TestbedError, match=r"Counter.* is not an application; expected an instance"
            ):
                net.run_application("h1", Counter)  # type: ignore[arg-type]
            flow = Flow(1, "h1", "h2", rate_pps=1000, count=10)
            net.run_application("h2", Counter(flow.port))
            words = "flow 1: UDP port 5001 of its destination is in use"
            with pytest.raises(TestbedError, match=words):
                async with Traffic(net, [flow]) as traffic:
                    await traffic.finish()

    virtually(tmp_path, main)
