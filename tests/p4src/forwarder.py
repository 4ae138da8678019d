"""Common parts of the switches that run in this process."""

import random
from collections.abc import Iterable

from scapy.layers.inet import IP
from scapy.packet import Packet
from simple_switch import Twins

from minip4.engine.engine import Engine

IN, OUT, TO_COLLECTOR, CPU_PORT = 1, 2, 3, 255


class Forwarder:
    """A switch. Frames arrive at port 1 and leave by port 2, and reports by port 3."""

    engine: Engine | Twins

    def send(self, frame: bytes, time_us: int = 0, port: int = IN) -> list[tuple[int, bytes]]:
        """Return all frames that the switch sends for this frame, ordered by port, then by time."""
        return sorted(self.engine.process(port, frame, 1000 * time_us), key=lambda out: out[0])

    def pass_on(self, frame: bytes, time_us: int = 0) -> bytes:
        """Return the forwarded frame. Assert that the switch sends nothing else."""
        ((port, out),) = self.send(frame, time_us)
        assert port == OUT
        return out

    def send_report(self, frame: bytes, time_us: int = 0) -> tuple[bytes, bytes]:
        """Return the forwarded frame, and its report. Assert that the switch sends nothing else."""
        (port, out), (to_collector, report) = self.send(frame, time_us)
        assert (port, to_collector) == (OUT, TO_COLLECTOR)
        return out, report

    def count_events(self, names: Iterable[str], *counters: str, first: int = 0) -> dict[str, int]:
        """Return the events whose count is not 0. The first one is in cell `first` of counters."""
        sums = {name: sum(self.engine.counter_read(counter, first + number)[0]
                          for counter in counters)
                for number, name in enumerate(names)}  # fmt: skip
        return {name: count for name, count in sums.items() if count}


def check_ipv4_checksum(packet: Packet) -> None:
    """Assert that the checksum of the IPv4 header is correct."""
    again = packet[IP].copy()
    del again.chksum
    assert IP(bytes(again)).chksum == packet[IP].chksum


def damaged(frame: bytes, rng: random.Random, start: int = 14) -> bytes:
    """Return the frame with some changed bytes from `start` on. Some frames are truncated."""
    data = bytearray(frame)
    for _ in range(rng.randrange(1, 6)):
        data[rng.randrange(start, len(data))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
    return bytes(data[: rng.choice((len(data), len(data), rng.randrange(start, len(data))))])
