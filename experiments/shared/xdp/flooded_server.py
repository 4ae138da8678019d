"""A server of TCP under a flood that arrives at its device: what the server has there.

A core receives all that comes to the server, as the paper's does by its card's interrupts: the
flood (card.py), and what the client sends, by the kernel's RPS. Client and server have another
core for both of them.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

from ebpf.datapath.ddos_filter import SOURCE, Filter
from ebpf.datapath.rules import UDP, Rule
from ebpf.loader import Program, attach_xdp, load
from experiments.shared.xdp.card import Card, Flood
from experiments.shared.xdp.dropping import PROGRAMS, dropped
from experiments.shared.xdp.frames import ADDRESS, DEVICE_MAC, PORT
from experiments.shared.xdp.keep_awake import Awake
from experiments.shared.xdp.settings import come_first
from experiments.shared.xdp.transactions import End
from experiments.shared.xdp.veth_setup import VethPair

SERVER, CLIENT, CLIENT_ADDRESS = "serves", "asks", "10.0.0.2"
EARLY_S = 0.03  # that a flood begins before, and ends after, what it is to disturb
REST_S = 0.04  # for other processes, or the kernel gives them the core within a flood (sched(7))
FLOOD_FIRST, THEN_ENDS = 2, 1  # priorities of SCHED_FIFO
UNFILTERED, FILTERED, UNREAD = "no filter", "XDP filter", "dropped unread"
SERVERS = (UNFILTERED, FILTERED, UNREAD)


class Held(NamedTuple):
    """What a server did under a flood, and what became of that."""

    round: int
    server: str
    offered_pps: int
    transactions_per_s: float
    arrived: int
    lost_at_card: int  # its ring was full
    others_lost: int  # the client's, for the same reason
    dropped_at_xdp: int
    seen_by_host: int

    @property
    def missing(self) -> int:
        """Frames that arrived and are in no book."""
        return self.arrived - self.dropped_at_xdp - self.seen_by_host


class Plan(NamedTuple):
    """Floods in each round (packets a second; 0: none), each for so long."""

    floods_pps: Sequence[int]
    seconds: float
    rounds: int
    cores: Sequence[int]  # of client and server, and what packets arrive at


class FloodedServer:
    """A server and its client, each in a namespace."""

    def __init__(self, stack: ExitStack, cores: Sequence[int], name: str) -> None:
        """Raises TestbedError, LoadError."""
        self.ground, asking = VethPair(), VethPair()
        stack.callback(self.ground.close)
        stack.callback(asking.close)
        _link(self.ground, asking)
        _receive_on(cores[1], self.ground)
        with self.ground.entered():
            self.program, self._dropped = _arrivals(stack, name)
            server = End("serve", ADDRESS, cores[0])
            stack.callback(server.close)
        with asking.entered():
            self.client = End("ask", ADDRESS, cores[0])
            stack.callback(self.client.close)
        for end in (server, self.client):
            come_first(end.process_id, THEN_ENDS)
        self.card = Card(stack, asking, CLIENT)

    def accounting(self) -> tuple[int, int]:
        """Frames of the flood so far: dropped at XDP, and seen by the host."""
        lines = [line.split() for line in self.ground.run("cat /proc/net/snmp").splitlines()
                 if line.startswith("Udp:")]  # fmt: skip
        udp = dict(zip(*lines, strict=True))
        return self._dropped(), int(udp["NoPorts"])


def _arrivals(stack: ExitStack, name: str) -> tuple[Program, Callable[[], int]]:
    """What each frame of the flood gets to first, and how many that dropped so far."""
    if name == FILTERED:
        rules = Filter(stack.enter_context(load(SOURCE)))
        rules.add(Rule(protocol=UDP, destination_port=PORT))
        stack.enter_context(attach_xdp(rules.program, SERVER))
        return rules.program, lambda: sum(packets for packets, _ in rules.hits().values())
    whole = stack.enter_context(load(PROGRAMS))
    program = whole.programs["drop_all" if name == UNREAD else "pass_all"]
    return program, lambda: dropped(whole)


def _link(serving: VethPair, asking: VethPair) -> None:
    """A veth between them. GRO lets live frames arrive where no program is attached."""
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


def _receive_on(core: int, ground: VethPair) -> None:
    """Have a core do the protocol work for what comes to the server (RPS), which the sender's
    would."""
    mask = ",".join([f"{1 << core % 32:x}", *["00000000"] * (core // 32)])
    file = f"/sys/class/net/{SERVER}/queues/rx-0/rps_cpus"
    ground.run(f"unshare --mount sh -ec 'mount -t sysfs sysfs /sys; echo {mask} > {file}'")


def under_floods(plan: Plan, told: Callable[[str], None]) -> Iterator[Held]:
    """All servers, under all floods, in each round. Raises TestbedError, LoadError."""
    with ExitStack() as stack:
        for core in plan.cores:
            stack.callback(Awake(core).close)
        servers = {name: FloodedServer(stack, plan.cores, name) for name in SERVERS}
        for number in range(1, plan.rounds + 1):
            for name, server in [*servers.items()][:: 1 if number % 2 else -1]:
                told(f"round {number}: {name}")
                with ThreadPoolExecutor(1) as thread:  # which is in the server's namespace
                    yield from thread.submit(turn, plan, number, name, server).result()


def turn(plan: Plan, number: int, name: str, server: FloodedServer) -> list[Held]:
    """One server under all floods, which come in this thread."""
    os.sched_setaffinity(0, plan.cores[1:])
    come_first(0, FLOOD_FIRST)
    with (
        server.ground.entered(),
        server.card.polled(server.program, SERVER) as flood,
    ):
        return [_held(plan, (number, name, pps), server, flood) for pps in plan.floods_pps]


def _held(
    plan: Plan,
    of: tuple[int, str, int],
    server: FloodedServer,
    flood: Callable[[int, float], Flood],
) -> Held:
    """What became of one flood."""
    time.sleep(REST_S)
    server.client.connect()
    before = server.accounting()
    server.client.ask(plan.seconds, after_s=EARLY_S)
    came = flood(of[2], plan.seconds + 2 * EARLY_S) if of[2] else Flood()
    answered = server.client.answered()
    at_xdp, seen = (now - then for now, then in zip(server.accounting(), before, strict=True))
    return Held(*of, answered, *came, at_xdp, seen)
