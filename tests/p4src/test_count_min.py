"""p4src/count_min counts each packet of a flow in each row.

In a row, it uses the same counter as the controller computes.
"""

import struct
from pathlib import Path

import numpy as np
import pytest
import subject
from numpy.typing import NDArray
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from controllers.count_min import COUNTERS, ROWS, CountMin
from minip4.engine.keys import Lpm

PROGRAM = Path(__file__).parents[2] / "p4src" / "count_min" / "count_min.p4"
INGRESS = "CountMinIngress"
WIDTH = 272  # the program's default
CPU_PORT = 255
ANSWER = struct.Struct(">HI6s8Q")
MAC = "02:00:00:00:00:01"


class Sketch:
    """A switch with a sketch. `seed` chooses the hash functions of the sketch."""

    def __init__(self, seed: int) -> None:
        self.control = CountMin(WIDTH, seed)
        self._switch = subject.switch(PROGRAM, ports=(1, 2, CPU_PORT))
        for entry in self.control.entries():
            assert entry.action is not None
            instance, _ = entry.action.name.rsplit(".", 1)
            values = [entry.action.args["a"], entry.action.args["b"]]
            self._switch.table_set_default(
                f"{INGRESS}.{entry.table_id}", f"{INGRESS}.{instance}.choose", values
            )
        self._switch.table_add(
            f"{INGRESS}.routing.routes", [Lpm(0x0A000000, 8)], f"{INGRESS}.routing.send", [2, 2]
        )

    def send(self, packet: Packet) -> None:
        assert len(self._switch.process(1, bytes(Ether(dst=MAC, src=MAC) / packet), 0)) == 1

    def counters(self) -> NDArray[np.int64]:
        """Read all counters by readout packets, as the controller does."""
        columns = [self._ask(index) for index in range(WIDTH)]
        return np.array(columns, dtype=np.int64).T

    def estimate(self, counters: NDArray[np.int64], flow: tuple[str, str, int, int, int]) -> int:
        return self.control.estimate(counters, self.control.places(*flow))

    def _ask(self, index: int) -> tuple[int, ...]:
        request = struct.pack(">HI", COUNTERS, index) + bytes(8)  # min size for simple_switch
        ((port, answer),) = self._switch.process(CPU_PORT, request, 0)
        assert port == CPU_PORT
        return ANSWER.unpack_from(answer)[3 : 3 + ROWS]


FLOWS = {
    ("10.0.0.1", "10.0.0.2", 17, 9, 5000): 7,
    ("10.0.0.1", "10.0.0.2", 17, 9, 5001): 1,
    ("10.0.0.1", "10.0.0.2", 17, 8, 5000): 5,
    ("10.0.0.2", "10.0.0.1", 17, 9, 5000): 3,
    ("10.0.0.1", "10.0.0.2", 6, 9, 5000): 2,
    ("10.255.0.1", "10.0.0.2", 17, 65535, 65535): 4,
}


@pytest.mark.parametrize("seed", [1, 2])
def test_flows_that_share_no_counter_are_counted_exactly(seed: int) -> None:
    sketch = Sketch(seed)
    for (src, dst, protocol, sport, dport), packets in FLOWS.items():
        segment = (UDP if protocol == 17 else TCP)(sport=sport, dport=dport)
        for _ in range(packets):
            sketch.send(IP(src=src, dst=dst) / segment)
    sketch.send(IP(src="10.0.0.1", dst="10.0.0.2") / ICMP())  # not counted, because it has no ports
    counters = sketch.counters()
    assert [*counters.sum(axis=1)] == [sum(FLOWS.values())] * ROWS
    assert {flow: sketch.estimate(counters, flow) for flow in FLOWS} == FLOWS
    assert sketch.estimate(counters, ("10.0.0.1", "10.0.0.2", 17, 9, 5002)) == 0


def test_the_rows_hash_independently() -> None:
    """Flows that share a counter in the first row are spread evenly over the other rows."""
    control = CountMin(WIDTH, seed=3)
    places = np.array(
        [control.places("10.0.0.1", "10.0.0.2", 17, n >> 16, n & 0xFFFF) for n in range(200_000)]
    )
    together = places[places[:, 0] == places[0, 0]]
    assert len(together) == pytest.approx(200_000 / WIDTH, rel=0.2)
    for row in range(1, ROWS):
        counts = np.bincount(together[:, row], minlength=WIDTH)
        assert counts.max() < 20  # mean 2.7: 735 flows in 272 counters
