"""minip4 as a forwarding candidate: a P4 router between the same veth pairs.

Packet sockets of minip4 receive all frames that arrive at the device. The network stack ignores
them, because their destination address differs from the address of the device. The thread of minip4
runs on the core of packet arrivals after each burst.
"""

import time
from contextlib import ExitStack
from ipaddress import ip_address

from ebpf.statistics.offer import pin_to_core
from experiments.shared.xdp.forwarding import BRIDGE_MAC, DESTINATION, NEXT_HOP_MAC, set_up_stack
from experiments.shared.xdp.interleaved_rounds import Candidate, ReadyCandidate
from experiments.shared.xdp.settings import cores
from experiments.shared.xdp.veth_setup import DEVICE, OUT, VethPair
from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.engine.keys import Lpm
from minip4.ports.driver import Driver
from telemark import REPOSITORY

PROGRAM = REPOSITORY / "p4src/routing/router.p4"
ROUTES, SEND = "RouterIngress.routing.routes", "RouterIngress.routing.send"
BURST = 4096  # packets per burst, a quarter of the ring of the switch
POLL_S, PATIENCE_S = 0.001, 10.0


def _set_up(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
    veth.run(f"ip link set {DEVICE} address {BRIDGE_MAC}")
    ready = set_up_stack(stack)
    engine = Engine(compile_p4(PROGRAM).bmv2_json)
    stack.callback(engine.close)
    network = int(ip_address(DESTINATION)) >> 8 << 8
    next_hop = int.from_bytes(bytes.fromhex(NEXT_HOP_MAC.replace(":", "")), "big")
    engine.table_add(ROUTES, [Lpm(network, 24)], SEND, [next_hop, 2])
    driver = Driver(engine, {1: DEVICE, 2: OUT})
    with pin_to_core(cores()[-1]):
        driver.start()
    stack.callback(driver.stop)
    before = ready.counted()
    arrived = 0

    def take(packets: int) -> None:
        """Wait until all packets have left or were lost. A loss makes the run inconclusive."""
        nonlocal arrived
        arrived += packets
        until = time.monotonic() + PATIENCE_S
        while ready.counted() - before < arrived and time.monotonic() < until:
            time.sleep(POLL_S)

    return ready._replace(
        take=take, burst=BURST, beside_ns=lambda: int(str(driver.counters()["cpu_ns"]))
    )


MINIP4 = Candidate("minip4", _set_up, cores=1)
