"""Random networks of routers in virtual time. All kinds of events occur in them."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path

import numpy as np
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.engine.keys import Lpm
from minip4.runtime.switch.options import LinkOptions
from minip4.runtime.switch.port_settings import set_link
from minip4.simulator.shared import Stop
from minip4.simulator.tcp import TcpSpec
from minip4.simulator.virtual import FlowSpec, Partition, Virtual

ROUTER = Path(__file__).parents[2] / "p4src" / "routing" / "router.p4"
START_NS, LASTS_NS = 10**9, 15 * 10**6
ROUTERS, CHORDS, UDP_FLOWS, TCP_FLOWS, PINGS = 10, 6, 12, 3, 10
# ASKED is the number of the router whose controller receives packets.
HOST_PORT, CPU_PORT, ASKED = 1, 510, 3
LINKS = (
    {"delay_us": 2},
    {"delay_us": 5, "rate_bps": 10**9},
    {"delay_us": 5, "rate_bps": 10**8, "queue_packets": 20},
    {"delay_us": 10, "loss_probability": 0.02},
    {"delay_us": 10, "jitter_us": 4},
    {"delay_us": 20, "reorder_probability": 0.1, "reorder_us": 30},
    {},  # a link without delay, so that both ends are in the same partition
)
# PORT is the UDP port of applications. The controller of router ASKED gets packets to FAR.
PORT, FAR = 7000, "10.9.9.9"


@cache
def router() -> Engine:
    """Return the engine of the router, built on the first call.

    With SANITIZE in the environment, its C code has sanitizers: see test_sanitized.py.
    """
    return Engine(compile_p4(ROUTER).bmv2_json, sanitize="SANITIZE" in os.environ)


def address(number: int) -> str:
    return str(IPv4Address("10.0.0.1") + number)


def mac(number: int) -> str:
    return f"00:00:00:00:00:{number + 1:02x}"


@dataclass
class Mesh:
    """A ring of routers with chords. The seed determines everything in this network.

    Each direction of a link has its own properties.
    """

    seed: int
    threads: int = 1
    placing: int | None = None  # seed of a random choice of each node's partition
    is_stopped: bool = True  # whether the network stops for controllers and applications
    captures: Path | None = None
    is_parallel: bool = True  # use all threads also on a machine whose cores are busy
    log: list[object] = field(default_factory=list)  # state of the network whenever it stopped

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.virtual = Virtual(START_NS, threads=self.threads, sanitize="SANITIZE" in os.environ)
        if self.is_parallel:
            self.virtual.stay_parallel()
        self.hosts = [self.virtual.add_host(mac(i), address(i), 1500) for i in range(ROUTERS)]
        cpu = {ASKED: CPU_PORT} if self.is_stopped else {}
        self.switches = [self.virtual.add_switch(cpu.get(i)) for i in range(ROUTERS)]
        self.engines = [self.virtual.prepare(router().another(seed=i)) for i in range(ROUTERS)]
        self.neighbours: list[dict[int, int]] = [{} for _ in range(ROUTERS)]  # neighbour -> port
        pairs = {(i, (i + 1) % ROUTERS) for i in range(ROUTERS)}
        while len(pairs) < ROUTERS + CHORDS:
            a, b = sorted(int(x) for x in rng.choice(ROUTERS, 2, replace=False))
            pairs.add((a, b))
        for host, switch in zip(self.hosts, self.switches, strict=True):
            self.virtual.connect(host, 0, switch, HOST_PORT)
        for a, b in sorted(pairs):
            self._link(a, b, rng)
        self._capture()
        for i, engine in enumerate(self.engines):
            self._route(i)
            engine.clock = lambda: self.virtual.now_ns  # type: ignore[method-assign]
            self.virtual.install(self.switches[i], engine)
        self._place()
        self._traffic(rng)

    def _place(self) -> None:
        """Choose the partition of each node at random, if `placing` is set."""
        if self.placing is None:
            return
        rng = np.random.default_rng([self.placing, self.virtual.events])
        for node in (*self.hosts, *self.switches):
            self.virtual.place(node, int(rng.integers(99)))

    def _link(self, a: int, b: int, rng: np.random.Generator) -> None:
        ports = [HOST_PORT + 1 + len(self.neighbours[i]) for i in (a, b)]
        if b in self.neighbours[a]:
            return
        self.neighbours[a][b], self.neighbours[b][a] = ports
        self.virtual.connect(self.switches[a], ports[0], self.switches[b], ports[1])
        for i, port in zip((a, b), ports, strict=True):
            options = LinkOptions(port, seed=100 * i + port, **rng.choice(LINKS))
            set_link(self.engines[i], options)
            if options.queue_packets is not None:
                self.engines[i].set_queue(port, 0, depth_packets=options.queue_packets)

    def _capture(self) -> None:
        for i, switch in enumerate(self.switches) if self.captures else ():
            for what in ("in", "out", "lost"):
                path = self.captures / f"{i}_{what}.pcap"  # type: ignore[operator]
                self.virtual.capture(switch, HOST_PORT + 1, what, path)

    def _route(self, router_: int) -> None:
        """Set the shortest route to each host, and to FAR."""
        for target in range(ROUTERS):
            came_from = {target: target}
            for at in (reached := [target]):
                for other in sorted(self.neighbours[at]):
                    if other not in came_from:
                        came_from[other] = at
                        reached.append(other)
            port = self.neighbours[router_].get(came_from[router_], HOST_PORT)
            self._enter(router_, address(target), target, port)
            if target == ASKED and self.is_stopped:
                self._enter(router_, FAR, target, CPU_PORT if router_ == ASKED else port)

    def _enter(self, router_: int, to: str, target: int, port: int) -> None:
        prefix, to_mac = Lpm(int(IPv4Address(to)), 32), int(mac(target).replace(":", ""), 16)
        self.engines[router_].table_add(
            "RouterIngress.routing.routes", [prefix], "RouterIngress.routing.send", [to_mac, port]
        )

    def _traffic(self, rng: np.random.Generator) -> None:
        def pair() -> tuple[int, int]:
            a, b = (self.hosts[x] for x in rng.choice(ROUTERS, 2, replace=False))
            return a, b

        self.flows = [
            # All flows begin at the same time, and their periods have common multiples. So many
            # events are simultaneous.
            self.virtual.add_flow(FlowSpec(*pair(), i, 1000 + i, 5000 + i, 0, 22 + 100 * (i % 3),
                                           200, START_NS, 1e6 / (20, 50, 100)[i % 3]))
            for i in range(UDP_FLOWS)
        ]  # fmt: skip
        self.connections = [
            self.virtual.connections.add(
                TcpSpec(*pair(), (i, 7 * i), 49152 + i, 6000 + i, 0, ("reno", "cubic", "dctcp")[i],
                        i == 2, 200_000, 0, START_NS)
            ) for i in range(TCP_FLOWS)
        ]  # fmt: skip
        if not self.is_stopped:
            return
        self.inboxes = {self.virtual.inboxes.open_udp(self.hosts[i], PORT): i for i in (0, 5)}
        self._ping(0, PINGS)
        frame = Ether(dst=mac(ASKED)) / IP(src=address(7), dst=FAR) / UDP(dport=PORT) / bytes(20)
        times = [START_NS + 10**6 * i for i in range(PINGS)]
        self.virtual.send_frames(self.hosts[7], times, [bytes(frame)] * PINGS)

    def _ping(self, host: int, left: int) -> None:
        to = 5 - host
        self.virtual.inboxes.send_datagram(
            self.hosts[host], PORT, (mac(to), address(to), PORT), bytes([left])
        )

    def run(self) -> Iterator[list[Partition]]:
        """Run the network to its end. Yield the partitions after each third of the time."""
        for third in (1, 2, 3):
            until_ns = START_NS + third * LASTS_NS // 3
            # With few events per call, threads are used even on a loaded machine.
            while (stop := self.virtual.run(until_ns, 1500)) is not Stop.REACHED:
                self._act(stop)
            self._look()
            yield self.virtual.partitions

    def _act(self, stop: Stop) -> None:
        """Record the state of the whole network, and answer the packets for which it stopped.

        If the run was only paused, choose new partitions instead.
        """
        assert stop in (Stop.CONTROL, Stop.INBOX, Stop.PAUSED)
        if stop is Stop.PAUSED:
            self._place()
            return
        self._look()
        for switch in self.virtual.control_waiting():
            for frame in self.virtual.cpu_receive(switch):
                answer = Ether(frame)
                answer[IP].dst, answer[Ether].dst = address(5), mac(5)
                del answer[IP].chksum
                del answer[UDP].chksum
                self.virtual.cpu_send(switch, bytes(answer))
        for inbox in self.virtual.inboxes.filled():
            records, data = self.virtual.inboxes.take(inbox)
            self.log.append((inbox, records.tobytes(), data))
            if len(data) == 1 and data[0]:
                self._ping(self.inboxes[inbox], data[0] - 1)

    def _look(self) -> None:
        counted = [engine.counters() for engine in self.engines]
        self.log.append((self.virtual.now_ns, self.virtual.events, str(counted)))

    def digest(self) -> dict[str, str]:
        """Return hashes of all results that a user can observe, and close the network."""
        virtual = self.virtual
        flows = [virtual.flow_result(flow) for flow in self.flows]
        results = [virtual.connections.result(number) for number in self.connections]
        known: dict[str, list[object]] = {
            "sent": [flow.sent.tobytes() for flow in flows],
            "received": [flow.received.tobytes() for flow in flows],
            "progress": [result.progress.tobytes() for result in results],
            "tcp": [result.received.tobytes() for result in results],
            "hosts": [virtual.host_counters(host) for host in self.hosts],
            "flying": [virtual.flying(switch, HOST_PORT + 1) for switch in self.switches],
            "log": self.log,
        }
        virtual.close()
        for path in sorted(self.captures.iterdir()) if self.captures else ():
            known[path.name] = [path.read_bytes()]
        return {name: hashlib.sha256(repr(what).encode()).hexdigest()[:12]
                for name, what in known.items()}  # fmt: skip
