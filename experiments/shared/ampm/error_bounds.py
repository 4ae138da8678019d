"""What the machine and the target add to delays, and what they bear: known, or found by a probe.

minip4's switches have one clock, and forward whatever experiments send. A bmv2 has a clock of its
own, takes longer, and bears less: a probe of the network at hand says how much.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mininet.topo import Topo

from controllers.ampm.collector import Collector
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, WatchedFlow
from controllers.connection import cpu_ports
from experiments.shared.ampm.measurement import Setting, watched_paths
from telemark.backends.real.targets.bmv2 import Bmv2Switch
from telemark.capacity_probe import probe
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow

# What packets may wait in bmv2s, one after the other: so much, or so many times what they did in
# the probe, which is short and so does not see the worst.
LEAST_WAIT_US, WAITS = 150_000.0, 4

Watching = Callable[[Network], Mapping[WatchedFlow, Sequence[Hop]]]


@dataclass(frozen=True)
class Machine:
    """What may be added to a path's delay, and by how much two switches' clocks may differ."""

    delay_us: float = 0.0
    clock_error_us: float = 0.0

    def bounds(self, delay_us: float) -> Bounds:
        """What may be promised of a path that takes so long by itself."""
        return Bounds(self.clock_error_us, delay_us + self.delay_us)


@dataclass(frozen=True)
class Workload:
    """A network, what is watched there, and what is sent."""

    topo: Topo
    watching: Watching
    flows: Sequence[Flow]

    @classmethod
    def of(cls, setting: Setting) -> "Workload":
        """That of a setting."""
        flows = [*setting.watched, *setting.background]
        return cls(setting.topo, partial(watched_paths, setting=setting), flows)


async def machine_for(
    load: Workload, noise_us: float, options: argparse.Namespace, run: Run
) -> Machine:
    """The machine that a network is on; on bmv2 `options.rate` becomes what it bears.

    `noise_us` is what a busy machine may add to a path of minip4's in real time.
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
    # Two switches' clocks may be wrong, each the other way.
    wait_us = max(LEAST_WAIT_US, WAITS * capacity.queueing_delay_us)
    machine = Machine(wait_us, 2 * Bmv2Switch.clock_error_us)
    run.progress.say(
        f"probe: {options.rate:g} packets/s a flow, and blocks that bear waits of "
        f"{machine.delay_us / 1000:.0f} ms"
    )
    return machine
