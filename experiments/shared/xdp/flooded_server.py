"""TCP server under a flood, with a program at its device.

One core receives all packets to the server, like the interrupt core of the paper. The flood arrives
on this core (emulated_nic.py), and RPS of the kernel directs the packets of the client to the same
core. Client and server share another core.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

from ebpf.datapath.ddos_filter import SOURCE, Filter
from ebpf.datapath.rules import UDP, Rule
from ebpf.loader import Program, attach_xdp, load
from experiments.shared.xdp.dropping import PROGRAMS, count_dropped
from experiments.shared.xdp.emulated_nic import EmulatedNic, Flood
from experiments.shared.xdp.frames import ADDRESS, DEVICE_MAC, PORT
from experiments.shared.xdp.settings import set_realtime_priority
from experiments.shared.xdp.transactions import End
from experiments.shared.xdp.veth_setup import VethPair
from telemark.backends.real.scheduling import set_priority

LAST_NICE = 19
LOOP = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"
SERVER, CLIENT, CLIENT_ADDRESS = "serves", "asks", "10.0.0.2"
EARLY_S = 0.03  # a flood starts this much earlier and ends this much later than transactions
REST_S = 0.04  # pause for other processes; without it the kernel throttles the flood (sched(7))
FLOOD_FIRST, THEN_ENDS = 2, 1  # priorities of SCHED_FIFO
UNFILTERED, FILTERED, UNREAD = "no filter", "XDP filter", "dropped unread"
SERVERS = (UNFILTERED, FILTERED, UNREAD)


class Awake:
    """Process that keeps an idle core awake until close() or until this process exits.

    Otherwise, variations of the RTT would mainly be wake-up latencies: in a virtual machine, the
    host gives a halted core to other machines, and returns it late.
    """

    def __init__(self, core: int) -> None:
        # Pass the process id of the parent, because the parent may exit before the first check.
        command = [sys.executable, "-c", LOOP, str(os.getpid())]
        self._process = subprocess.Popen(command, start_new_session=True)
        os.sched_setaffinity(self._process.pid, {core})
        os.sched_setscheduler(self._process.pid, os.SCHED_IDLE, os.sched_param(0))
        set_priority(self._process.pid, LAST_NICE)  # also of its session, which has a weight

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class FloodResult(NamedTuple):
    """Transaction rate of a server under a flood, and counts of flood frames."""

    round: int
    server: str
    offered_pps: int
    transactions_per_s: float
    arrived: int
    lost_at_nic: int  # frames lost because the ring was full
    others_lost: int  # frames of the client that were lost because the ring was full
    dropped_at_xdp: int
    seen_by_host: int

    @property
    def missing(self) -> int:
        """Number of unaccounted frames of the flood."""
        return self.arrived - self.dropped_at_xdp - self.seen_by_host


class Plan(NamedTuple):
    """Floods of each round in packets/s (0 means no flood), and duration of a flood."""

    floods_pps: Sequence[int]
    seconds: float
    rounds: int
    cores: Sequence[int]  # two cores: that of client and server, and that of packet arrivals


class FloodedServer:
    """Server and client, each in its own namespace."""

    def __init__(self, stack: ExitStack, cores: Sequence[int], name: str) -> None:
        """Set up server and client. Raises TestbedError, LoadError."""
        self.veth, asking = VethPair(), VethPair()
        stack.callback(self.veth.close)
        stack.callback(asking.close)
        _link(self.veth, asking)
        _receive_on(cores[1], self.veth)
        with self.veth.entered():
            self.program, self._dropped = _arrivals(stack, name)
            server = End("serve", ADDRESS, cores[0])
            stack.callback(server.close)
        with asking.entered():
            self.client = End("ask", ADDRESS, cores[0])
            stack.callback(self.client.close)
        for end in (server, self.client):
            set_realtime_priority(end.process_id, THEN_ENDS)
        self.emulated_nic = EmulatedNic(stack, asking, CLIENT)

    def accounting(self) -> tuple[int, int]:
        """Return how many flood frames were dropped at XDP and how many the host received."""
        lines = [line.split() for line in self.veth.run("cat /proc/net/snmp").splitlines()
                 if line.startswith("Udp:")]  # fmt: skip
        udp = dict(zip(*lines, strict=True))
        return self._dropped(), int(udp["NoPorts"])


def _arrivals(stack: ExitStack, name: str) -> tuple[Program, Callable[[], int]]:
    """Return the program for arriving frames, and a function that returns how many it dropped."""
    if name == FILTERED:
        rules = Filter(stack.enter_context(load(SOURCE)))
        rules.add(Rule(protocol=UDP, destination_port=PORT))
        stack.enter_context(attach_xdp(rules.program, SERVER))
        return rules.program, lambda: sum(packets for packets, _ in rules.hits().values())
    whole = stack.enter_context(load(PROGRAMS))
    program = whole.programs["drop_all" if name == UNREAD else "pass_all"]
    return program, lambda: count_dropped(whole)


def _link(serving: VethPair, asking: VethPair) -> None:
    """Connect both hosts by a veth pair.

    With GRO, live frames arrive even if no program is attached.
    """
    with asking.entered():
        there = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        serving.run(f"""ip address flush dev arrives
            ip link add {SERVER} address {DEVICE_MAC.hex(":")} type veth peer {CLIENT} \
                netns /proc/{os.getpid()}/fd/{there}
            ethtool -K {SERVER} tx off gro on
            ip address add {ADDRESS}/24 dev {SERVER}
            echo 0 > /proc/sys/net/ipv4/conf/{SERVER}/rp_filter
            ip link set {SERVER} up""")
    finally:
        os.close(there)
    asking.run(f"""ip address flush dev arrives
        ethtool -K {CLIENT} tx off
        ip address add {CLIENT_ADDRESS}/24 dev {CLIENT}
        ip link set {CLIENT} up""")


def _receive_on(core: int, veth: VethPair) -> None:
    """Let `core` process the packets to the server (RPS), instead of the core of the sender."""
    mask = ",".join([f"{1 << core % 32:x}", *["00000000"] * (core // 32)])
    file = f"/sys/class/net/{SERVER}/queues/rx-0/rps_cpus"
    veth.run(f"unshare --mount sh -ec 'mount -t sysfs sysfs /sys; echo {mask} > {file}'")


def measure_floods(plan: Plan, show_progress: Callable[[str], None]) -> Iterator[FloodResult]:
    """Run all servers under all floods in each round. Raises TestbedError, LoadError."""
    with ExitStack() as stack:
        for core in plan.cores:
            stack.callback(Awake(core).close)
        servers = {name: FloodedServer(stack, plan.cores, name) for name in SERVERS}
        for number in range(1, plan.rounds + 1):
            for name, server in [*servers.items()][:: 1 if number % 2 else -1]:
                show_progress(f"round {number}: {name}")
                with ThreadPoolExecutor(1) as thread:  # a thread in the namespace of the server
                    yield from thread.submit(measure_server, plan, number, name, server).result()


def measure_server(plan: Plan, number: int, name: str, server: FloodedServer) -> list[FloodResult]:
    """Run one server under all floods; this thread sends the floods."""
    os.sched_setaffinity(0, plan.cores[1:])
    set_realtime_priority(0, FLOOD_FIRST)
    with (
        server.veth.entered(),
        server.emulated_nic.polled(server.program, SERVER) as flood,
    ):
        return [_flood_result(plan, (number, name, pps), server, flood) for pps in plan.floods_pps]


def _flood_result(
    plan: Plan,
    of: tuple[int, str, int],
    server: FloodedServer,
    flood: Callable[[int, float], Flood],
) -> FloodResult:
    """Return the result of one flood."""
    time.sleep(REST_S)
    server.client.connect()
    before = server.accounting()
    server.client.ask(plan.seconds, after_s=EARLY_S)
    arrived = flood(of[2], plan.seconds + 2 * EARLY_S) if of[2] else Flood()
    answered = server.client.answered()
    at_xdp, seen = (now - then for now, then in zip(server.accounting(), before, strict=True))
    return FloodResult(*of, answered, *arrived, at_xdp, seen)
