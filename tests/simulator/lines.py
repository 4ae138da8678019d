"""A line of switches in virtual time. They forward all frames, and there is a host at each end."""

import os
from ctypes import c_uint64, c_void_p
from functools import cache
from pathlib import Path

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.runtime.switch.options import LinkOptions
from minip4.runtime.switch.port_settings import set_link
from minip4.simulator.shared import Stop
from minip4.simulator.tcp import TcpSpec
from minip4.simulator.virtual import FlowSpec, Virtual

PROGRAMS = Path(__file__).parents[1] / "telemark" / "programs"
WIRE, MARKING = PROGRAMS / "wire.p4", PROGRAMS / "marking.p4"
START_NS = 10**9
MAC = ("00:00:00:00:00:01", "00:00:00:00:00:02")
ADDRESS = ("10.0.0.1", "10.0.0.2")


@cache
def wire(program: Path = WIRE) -> Engine:
    """Return the engine of a program, built on the first call.

    With SANITIZE in the environment, its C code has sanitizers: see test_sanitized.py.
    """
    return Engine(compile_p4(program).bmv2_json, sanitize="SANITIZE" in os.environ)


class Line:
    """h1 - s1 - s2 - ... - h2. Each switch forwards frames from port 1 to port 2, and back.

    `links[i]` are the properties of the link of port 2 of switch i. `back` are the properties of
    the links of port 1 of each switch. The folder `captures` contains the frames that h1 sends
    (in.pcap) and receives (out.pcap).
    """

    def __init__(
        self, *links: dict[str, float], seed: int = 1, back: dict[str, float] | None = None,
        program: Path = WIRE, captures: Path | None = None, threads: int = 1,
    ) -> None:  # fmt: skip
        self._program = program
        self.virtual = Virtual(START_NS, threads=threads, sanitize="SANITIZE" in os.environ)
        self.hosts = [self.virtual.add_host(*host, 1500) for host in zip(MAC, ADDRESS, strict=True)]
        self.engines: list[Engine] = []
        self.switches = [self.virtual.add_switch() for _ in links]
        before, port = self.hosts[0], 0
        for switch in self.switches:
            self.virtual.connect(before, port, switch, 1)
            before, port = switch, 2
        self.virtual.connect(before, port, self.hosts[1], 0)
        for what in ("in", "out") if captures else ():
            self.virtual.capture(self.switches[0], 1, what, captures / f"{what}.pcap")
        for number, (switch, link) in enumerate(zip(self.switches, links, strict=True)):
            engine = self.engine({"seed": seed + number, **link})
            if back:
                set_link(engine, LinkOptions(1, seed=seed + 100 + number, **back))  # type: ignore[arg-type]
            self.virtual.install(switch, engine)
            self.engines.append(engine)

    def engine(self, link: dict[str, float]) -> Engine:
        engine = self.virtual.prepare(wire(self._program).another())
        options = LinkOptions(2, **link)  # type: ignore[arg-type]
        if link:
            set_link(engine, options)
        if options.queue_packets is not None:
            engine.set_queue(2, 0, depth_packets=options.queue_packets)
        return engine

    def change(self, number: int, port: int, **link: float) -> None:
        """Change the properties of the link of a switch's port."""
        set_link(self.engines[number], LinkOptions(port, **link))  # type: ignore[arg-type]
        self.virtual.refresh(self.switches[number])

    def flow(self, count: int, rate_pps: float = 1e5, payload: int = 22, **more: object) -> int:
        return self.virtual.add_flow(
            FlowSpec(*self.hosts, 7, 1000, 5007, 0, payload, count, START_NS, rate_pps, **more)  # type: ignore[arg-type]
        )

    def tcp(
        self, size_bytes: int = 0, congestion: str = "reno", port: int = 5001, **more: object
    ) -> int:
        """Add a TCP flow from h1 to h2. By default, it starts at START_NS. Return its number."""
        values = {"isn": (2**32 - 5000, 77), "source_port": 49152, "tos": 0, "ecn": False,
                  "duration_ns": 0, "start_ns": START_NS, **more}  # fmt: skip
        return self.virtual.connections.add(
            TcpSpec(*self.hosts, destination_port=port, size_bytes=size_bytes,
                    congestion=congestion, **values)  # type: ignore[arg-type]
        )  # fmt: skip

    def limit_packets(self, count: int) -> None:
        """Limit the number of packets in the network to `count`."""
        pool = self.virtual._library.virtual_pool(self.virtual._handle)
        wire(self._program).library.packet_pool_set_limit(c_void_p(pool), c_uint64(count))

    def run(self, seconds: float = 100.0) -> None:
        assert self.virtual.run(START_NS + round(seconds * 1e9)) is Stop.REACHED
