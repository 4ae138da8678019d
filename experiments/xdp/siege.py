"""A server of TCP under a flood that arrives at its device, on its core: what the server has there.

A thread there stands for a card and its interrupts: before all else (SCHED_FIFO) it has those
frames arrive that came since its last turn, as live frames; of more than a card's ring has room for
the rest is lost. The client asks over a veth, from the other core, which the flood does not touch:
a sender beside the client would pause whenever that runs, and its requests always find room.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

from ebpf.datapath.ddos_filter import SOURCE, Filter
from ebpf.datapath.rules import UDP, Rule
from ebpf.loader import Program, Sent, attach_xdp, live, load
from xdp.awake import Awake
from xdp.dropping import PROGRAMS, dropped
from xdp.frames import ADDRESS, DEVICE_MAC, PORT, flows
from xdp.ground import OUT, Ground
from xdp.settings import come_first
from xdp.transactions import End

SERVER, CLIENT, CLIENT_ADDRESS = "serves", "asks", "10.0.0.2"
EARLY_S = 0.03  # that a flood begins before, and ends after, what it is to disturb
RING = 4096  # frames that wait at a card at most
TURN_S = 1e-3  # between two turns of what stands for a card: each costs it 20 us, beside its frames
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
    dropped_at_xdp: int
    seen_by_host: int
    busy: float  # part of the server's core that the source took, its XDP programs included

    @property
    def missing(self) -> int:
        """Frames that arrived and are in no book."""
        return self.arrived - self.dropped_at_xdp - self.seen_by_host


class Plan(NamedTuple):
    """Floods in each round (packets a second; 0: none), each for so long."""

    floods_pps: Sequence[int]
    seconds: float
    rounds: int
    cores: Sequence[int]  # the client's, and the server's


class Siege:
    """A server and its client, each in a namespace."""

    def __init__(self, stack: ExitStack, cores: Sequence[int], name: str) -> None:
        """Raises TestbedError, LoadError."""
        self.ground, asking = Ground(), Ground()
        stack.callback(self.ground.close)
        stack.callback(asking.close)
        _link(self.ground, asking)
        with self.ground.entered():
            self.program, self._dropped = _arrivals(stack, name)
            server = End("serve", ADDRESS, cores[1])
            stack.callback(server.close)
        with asking.entered():
            self.client = End("ask", ADDRESS, cores[0])
            stack.callback(self.client.close)
        for end in (server, self.client):
            come_first(end.process_id, THEN_ENDS)

    def books(self) -> tuple[int, int]:
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


def _link(serving: Ground, asking: Ground) -> None:
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


class Flood(NamedTuple):
    """Frames that arrived, those that a ring had no room for, and what that took of a core."""

    arrived: int = 0
    lost: int = 0
    busy: float = 0.0  # by this thread's clock


def flood(arrive: Callable[[int], Sent], pps: int, seconds: float) -> Flood:
    """Frames arrive at a rate, in this thread."""
    began, arrived, lost = time.perf_counter(), 0, 0
    cpu_began_s = time.thread_time()
    while (passed := time.perf_counter() - began) < seconds:
        waiting = int(passed * pps) - arrived - lost
        lost += max(waiting - RING, 0)
        if taken := min(waiting, RING):
            arrive(taken)
            arrived += taken
        time.sleep(max(TURN_S - (time.perf_counter() - began - passed), 0))
    return Flood(arrived, lost, (time.thread_time() - cpu_began_s) / passed)


def under_floods(plan: Plan, told: Callable[[str], None]) -> Iterator[Held]:
    """All servers, under all floods, in each round. Raises TestbedError, LoadError."""
    with ExitStack() as stack:
        for core in plan.cores:
            stack.callback(Awake(core).close)
        sieges = {name: Siege(stack, plan.cores, name) for name in SERVERS}
        for number in range(1, plan.rounds + 1):
            for name, siege in [*sieges.items()][:: 1 if number % 2 else -1]:
                told(f"round {number}: {name}")
                with ThreadPoolExecutor(1) as thread:  # which is in the server's namespace
                    yield from thread.submit(turn, plan, number, name, siege).result()


def turn(plan: Plan, number: int, name: str, siege: Siege) -> list[Held]:
    """One server under all floods, which come in this thread."""
    os.sched_setaffinity(0, plan.cores[1:])
    come_first(0, FLOOD_FIRST)
    with siege.ground.entered(), live(
        siege.program, flows(), ingress=SERVER, held_at=OUT
    ) as arrive:  # fmt: skip
        return [_held(plan, (number, name, pps), siege, arrive) for pps in plan.floods_pps]


def _held(
    plan: Plan, of: tuple[int, str, int], siege: Siege, arrive: Callable[[int], Sent]
) -> Held:
    """What became of one flood."""
    siege.client.connect()
    before = siege.books()
    siege.client.ask(plan.seconds, after_s=EARLY_S)
    came = flood(arrive, of[2], plan.seconds + 2 * EARLY_S) if of[2] else Flood()
    answered = siege.client.answered()
    at_xdp, seen = (now - then for now, then in zip(siege.books(), before, strict=True))
    return Held(*of, answered, came.arrived, came.lost, at_xdp, seen, came.busy)
