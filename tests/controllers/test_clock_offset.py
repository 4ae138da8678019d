"""Readout packets measure the offset of a switch's clock within the bound that they report."""

import random
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from ampm_path import PROGRAM
from loaded import StartExperiment
from virtual_networks import COMPILED

from controllers.connection import connection
from controllers.readout import CLOCK, MOST_ROUNDS, Readout, Readouts
from telemark.backends.virtual.clock import VirtualClock
from telemark.network import Network
from telemark.session.run import Run
from topologies.basic import Line

WRAP = 1 << 48
ROUNDING_US = 2**-5  # rounding error of a float below 2^48
CPU = ["--cpu-port", "255"]


def switch_us(now_ns: int, offset_us: int, drift_ppb: int) -> float:
    """Return the time of a switch's clock in virtual time, with unlimited resolution."""
    return now_ns / 1000 + offset_us + now_ns * drift_ppb / 1e12


def distance_us(first_us: float, second_us: float) -> float:
    """Return the distance of two times modulo 2^48."""
    return abs((first_us - second_us + WRAP / 2) % WRAP - WRAP / 2)


class Trips(Readouts):
    """Readouts over a channel with separate delays in both directions."""

    def __init__(self, rng: random.Random, offset_us: int) -> None:
        self._rng = rng
        self._offset_us = offset_us
        self._now_ns = rng.randrange(2**50)

    def now_ns(self) -> int:
        return self._now_ns

    async def sleep_until(self, time_ns: int) -> None:
        self._now_ns = time_ns

    async def read(self, record: int, index: int = 0) -> Readout:
        assert record == CLOCK
        self._now_ns += self._rng.choice([0, self._rng.randrange(2_000_000)])
        stamp = (self._now_ns // 1000 + self._offset_us) % WRAP
        self._now_ns += self._rng.choice([0, self._rng.randrange(2_000_000)])
        return Readout(stamp, (0, 0, 0, 0), (0, 0, 0, 0))


@pytest.mark.parametrize("rounds", [1, 5])
def test_offset_is_within_the_bound_for_any_delays(rounds: int) -> None:
    bounds_us = []
    for seed in range(300):
        rng = random.Random(seed)
        offset_us = rng.randrange(-(10**12), 10**12)
        clock = VirtualClock()
        trips = Trips(rng, offset_us)
        found_us, bound_us = clock.run(trips.clock_offset(trips, rounds))
        assert distance_us(found_us, -offset_us) <= bound_us + ROUNDING_US
        bounds_us.append(bound_us)
    assert min(bounds_us) == 0.5
    assert max(bounds_us) > (1500 if rounds == 1 else 500)


def test_on_a_busy_machine_there_are_more_round_trips_until_one_is_quick() -> None:
    class Busy(Trips):
        trips = 0

        async def read(self, record: int, index: int = 0) -> Readout:
            self.trips += 1
            self._now_ns += 9_000_000 if self.trips != self.quick else 300_000
            return Readout(self._now_ns // 1000, (0, 0, 0, 0), (0, 0, 0, 0))

        def __init__(self, quick: int) -> None:
            super().__init__(random.Random(1), 0)
            self.quick = quick

    for quick, good_us, trips, bound_us in (
        (50, 500, 50, 150.5),
        (50, 10_000, 20, 4500.5),  # the first round trips are good enough
        (0, 500, MOST_ROUNDS, 4500.5),  # no round trip is fast, so the reported bound is large
    ):
        busy = Busy(quick)
        found = VirtualClock().run(busy.clock_offset(busy, 20, good_us))
        assert (busy.trips, found[1]) == (trips, bound_us)


@pytest.mark.parametrize("control_delay_us", [0.0, 250.5])
@pytest.mark.parametrize(("offset_us", "drift_ppb"), [(0, 0), (-70_000, 50_000), (10**9, -90_000)])
def test_switches_in_virtual_time(
    offset_us: int, drift_ppb: int, control_delay_us: float, tmp_path: Path
) -> None:
    clock = VirtualClock()

    async def main() -> None:
        run = Run("test", tmp_path, 1, clock=clock, programs=COMPILED)
        options = ["--clock-offset-us", str(offset_us), "--clock-drift-ppb", str(drift_ppb)]
        settings = {"s1": CPU, "s2": [*CPU, *options], "s3": CPU}
        net = Network(
            Line(), run, program=PROGRAM, switch_options=settings,
            control_delay_us=control_delay_us,
        )  # fmt: skip
        async with AsyncExitStack() as stack:
            stack.enter_context(net)
            for name, offset, drift in (("s1", 0, 0), ("s2", offset_us, drift_ppb)):
                switch = await stack.enter_async_context(connection(net, name))
                readouts = await stack.enter_async_context(Readouts(switch))
                for time_s in (10, 100, 5000):
                    await clock.sleep_until(time_s * 10**9 + 123_456)
                    start_ns = clock.now_ns()
                    found_us, bound_us = await readouts.clock_offset(clock)
                    now_ns = clock.now_ns()
                    drifted_us = abs(now_ns - start_ns) * abs(drift) / 1e12
                    true_us = now_ns / 1000 - switch_us(now_ns, offset, drift)
                    assert bound_us == control_delay_us + 0.5
                    assert distance_us(found_us, true_us) <= bound_us + drifted_us

    clock.run(main())


REAL = f"""
options = {{"s2": ["--cpu-port", "255", "--clock-offset-us", "-123456789",
                   "--clock-drift-ppb", "80000"]}}
checks = []
before_ns = run.clock.now_ns()
with Network(Line(), run, program={str(PROGRAM)!r}, switch_options=options) as net:
    up_ns = run.clock.now_ns()
    began_ns = (before_ns + up_ns) / 2  # the switch, and with it the drift: in between
    async with connection(net, "s2") as switch, Readouts(switch) as readouts:
        for number in range(3):
            start_ns = run.clock.now_ns()
            found_us, bound_us = await readouts.clock_offset(run.clock)
            now_ns = run.clock.now_ns()
            drifted_us = (now_ns - start_ns) * 80_000 / 1e12
            true_us = 123_456_789 - (now_ns - began_ns) * 80_000 / 1e12
            error_us = (found_us - true_us + 2**47) % 2**48 - 2**47
            unknown_us = (up_ns - before_ns) / 2 * 80_000 / 1e12
            allowed_us = bound_us + drifted_us + unknown_us + 1  # drift is in whole microseconds
            checks.append(Check(f"error of {{found_us}}", error_us, 0, allowed_us))
            # Of some round trips, one after the other, the shortest is no longer than their mean.
            checks.append(Check("bound", bound_us, 0, (now_ns - start_ns) / 2000 / ROUNDS + 1))
return Report([], checks)
"""


def test_switch_in_real_time(start_experiment: StartExperiment) -> None:
    head = """
from controllers.connection import connection
from controllers.readout import Readouts
from telemark.network import Network
from topologies.basic import Line
ROUNDS = 20  # that clock_offset() takes at least
"""
    process = start_experiment(REAL, head=head)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
