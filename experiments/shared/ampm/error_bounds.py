"""Bounds of the delay and clock error that a machine and target add; capacity of bmv2.

minip4 switches share one clock and sustain the rates of all experiments. A bmv2 switch has its own
clock, adds more delay and sustains lower rates. A capacity probe of the network measures these
values.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mininet.topo import Topo

from controllers.ampm.collector import Collector
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, FlowPath, Hop, WatchedFlow
from controllers.connection import cpu_ports
from experiments.shared.ampm.measurement import Setting, watched_paths
from telemark.backends.real.targets.bmv2 import Bmv2Switch
from telemark.capacity_probe import probe
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow

# Bound of the queueing delay in all bmv2 switches of a path: the larger of this minimum and a
# multiple of the delay in the probe. The probe is too short to see the max delay.
MIN_WAIT_US, WAIT_FACTOR = 150_000.0, 4

Watching = Callable[[Network], Mapping[WatchedFlow, FlowPath[Hop]]]


@dataclass(frozen=True)
class Machine:
    """Bounds of the delay added to a path and of the clock error between two switches."""

    delay_us: float = 0.0
    clock_error_us: float = 0.0

    def bounds(self, delay_us: float) -> Bounds:
        """Return the bounds of a path; `delay_us` is its delay without the delay of the machine."""
        return Bounds(self.clock_error_us, delay_us + self.delay_us)


@dataclass(frozen=True)
class Workload:
    """Topology, watch list and flows of a network."""

    topo: Topo
    watching: Watching
    flows: Sequence[Flow]

    @classmethod
    def of(cls, setting: Setting) -> "Workload":
        """Return the workload of a setting."""
        flows = [*setting.watched, *setting.background]
        return cls(setting.topo, partial(watched_paths, setting=setting), flows)


async def machine_for(
    load: Workload, noise_us: float, options: argparse.Namespace, run: Run
) -> Machine:
    """Return the machine of a network; on bmv2, reduce `options.rate` to the capacity of bmv2.

    `noise_us` is the max delay that a loaded machine may add to a minip4 path in real time.
    """
    if run.target != "bmv2":
        return Machine(0.0 if options.time == "virtual" else noise_us)
    with Network(
        load.topo, run, program=options.program, name="probe",
        switch_options=cpu_ports(load.topo),
    ) as net:  # fmt: skip
        any_schedule = Schedule(2**20)
        async with Collector(load.watching(net), any_schedule, run.clock, bounds=None) as collector:
            await collector.watch()
            capacity = await probe(net, load.flows, run)
    net.discard()
    options.rate = capacity.rate(options.rate)
    # twice the error of one clock, because two clocks may be wrong in opposite directions
    machine = Machine(
        max(MIN_WAIT_US, WAIT_FACTOR * capacity.queueing_delay_us), 2 * Bmv2Switch.clock_error_us
    )
    run.progress.say(
        f"probe: the run uses {options.rate:g} packets/s per flow and blocks that tolerate a "
        f"queueing delay of {machine.delay_us / 1000:.0f} ms"
    )
    return machine
