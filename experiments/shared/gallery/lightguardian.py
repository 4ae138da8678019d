"""Network of gallery_lightguardian.py, and a model of its switches."""

import asyncio
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from controllers.connection import connections
from controllers.hash_functions import HashFunctions
from experiments.shared.gallery.traces import flow_hashes, make_frames
from experiments.shared.xdp.streams import Stream
from telemark.accounting import pcap
from telemark.errors import note_invalid
from telemark.network import Network
from telemark.session.run import Run
from telemark.topology.links import ETHERNET_BYTES
from telemark.topology.routes import next_hops
from topologies.leaf_spine import LeafSpine

RATE_BPS = 100_000_000
ROWS, CHANCES = 2, 3
CARRIERS, OUT_OF = 2, 10
OVERHEAD = 0.0007
MTU_BYTES = 1540  # length of a full packet with a sketchlet
IPV4, SKETCHLET = 0x0800, 0x88B5  # ethertypes
HEADER = np.dtype([
    ("switch", ">u2"), ("window", ">u2"), ("column", ">u2"), ("ether_type", ">u2"),
    ("sum_0", ">u4"), ("largest_0", ">u4"), ("sum_1", ">u4"), ("largest_1", ">u4"),
])  # fmt: skip
NUMBER_AT = 42  # offset of the packet's number in a frame without a sketchlet
FIRST_WINDOW = 1

Sketchlet = tuple[int, ...]  # fields of HEADER, without the ethertype; () means none
Cell = list[int]  # sum, maximum


@dataclass(frozen=True)
class Scale:
    """Duration and number of windows, packets per second, and pause between windows.

    With `is_paced`, packets have equal intervals; otherwise their times are random.
    """

    window_s: float = 1.0
    windows: int = 4
    rate_pps: int = 0  # 0: the rate at which sketchlets use OVERHEAD of the capacity
    pause_s: float = 0.01
    is_paced: bool = False
    columns: int = 64  # number of columns of a sketch


FULL, QUICK = Scale(), Scale(windows=2)
# as many columns per bit/s of a link as in the testbed: 65,536 and 40 Gbit/s
TESTBED = Scale(columns=164)
REAL = Scale(window_s=2.0, windows=2, rate_pps=200, pause_s=0.5, is_paced=True)


def read_frames(path: Path) -> list[tuple[int, int, Sketchlet]]:
    """Return time, packet number and sketchlet of the frames in a capture."""
    frames = pcap.read(path)
    kinds = frames.bytes[:, 12:14] @ np.array([256, 1])
    ours = np.isin(kinds, (IPV4, SKETCHLET))
    data, has_one = frames.bytes[ours], kinds[ours] == SKETCHLET
    places = (NUMBER_AT + HEADER.itemsize * has_one)[:, None] + np.arange(4)
    numbers = np.take_along_axis(data, places, axis=1) @ (1 << np.array([24, 16, 8, 0]))
    headers = np.ascontiguousarray(data[:, ETHERNET_BYTES : ETHERNET_BYTES + HEADER.itemsize])
    rows = headers.view(HEADER)[:, 0].tolist()
    return [
        (time_ns, number, row[:3] + row[4:] if has else ())
        for time_ns, number, row, has in zip(
            frames.time_ns[ours].tolist(), numbers.tolist(), rows, has_one.tolist(), strict=True
        )
    ]


@dataclass
class Fabric:
    """Network of the paper's testbed (10 switches, 8 hosts), and a trace that crossed it."""

    net: Network
    columns: int
    functions: dict[str, HashFunctions]  # switch -> its hash functions
    stream: Stream
    starts_ns: list[int] = field(default_factory=list)  # start time of each window
    windows: list[int] = field(default_factory=list)  # window of each packet

    def __post_init__(self) -> None:
        self._frames = cache(read_frames)

    def read(self, switch: str, neighbour: str, what: str) -> list[tuple[int, int, Sketchlet]]:
        """Return time, packet number and sketchlet of the frames at a port."""
        return self._frames(self.net.capture(switch, neighbour, what))

    @cached_property
    def flows(self) -> NDArray[np.uint32]:
        """Flow key of each packet."""
        return flow_hashes(self.stream)[self.stream.numbers]

    @cached_property
    def draws(self) -> NDArray[np.uint32]:
        """Hash of each packet, from which its draws are computed."""
        pairs = np.zeros(len(self.flows), [("flow", ">u4"), ("number", ">u4")])
        pairs["flow"], pairs["number"] = self.flows, np.arange(len(pairs))
        return np.array([zlib.crc32(pair) for pair in pairs.view("V8").tolist()], np.uint32)


def make_topo(*, has_rates: bool) -> LeafSpine:
    """Return the fabric: two pods of two leaves and two spines, and two core switches."""
    link = {"rate_bps": RATE_BPS} if has_rates else {}
    return LeafSpine(leaves=2, spines=2, hosts=2, pods=2, cores=1, **link)


async def configure(net: Network, switch: fy.Switch, functions: HashFunctions) -> None:
    """Insert hash functions, and forwarding entries that spread flows over shortest paths."""
    ways = next_hops(net.topo.links(), net.topo.hosts(), switch.name)
    await switch.insert([
        fy.P4TableEntry(
            "forwarding", match=fy.Match({"hdr.ethernet.dst_addr": net.host(host).MAC()}),
            action=fy.Action(
                "forward", port=net.port(switch.name, hops[int(host[1:]) % len(hops)])
            ),
        )
        for host, hops in ways.items()
    ])  # fmt: skip
    names = ["row_0", "row_1", "lottery",
             *(f"chance_{number}.hash_function" for number in (1, 2, 3)),
             "selection.hash_function"]  # fmt: skip
    await switch.modify(functions.entries(names))


async def start_window(switches: Sequence[fy.Switch], window: int) -> None:
    """Swap the sketches of all switches."""
    await asyncio.gather(*(
        switch.modify([
            fy.P4TableEntry(
                "current_window", is_default_action=True,
                action=fy.Action("start_window", switch_id=int(switch.name[1:]), window=window),
            )
        ])
        for switch in switches
    ))  # fmt: skip


def load_pps(topo: LeafSpine, ends: NDArray[np.int64]) -> float:
    """Return the packet rate at which sketchlets use OVERHEAD of the capacity of all links.

    `ends` are the numbers of source and destination of each packet; a leaf has two hosts, and a pod
    has four. A packet gets a sketchlet with the same probability at each switch, if it has none.
    """
    same_leaf, same_pod = ((ends[:, 0] // size == ends[:, 1] // size) for size in (2, 4))
    hops = np.select([same_leaf, same_pod], [1, 3], 5)
    chance = CARRIERS / OUT_OF
    crossings = {n: sum(chance * (1 - chance) ** k * (n - k) for k in range(n)) for n in (1, 3, 5)}
    mean = np.mean([crossings[n] for n in hops.tolist()])
    return float(OVERHEAD * 2 * len(topo.links()) * RATE_BPS / (8 * HEADER.itemsize * mean))


async def replay(stream: Stream, program: str, run: Run, scale: Scale) -> Fabric:
    """Send the packets in windows of equal duration. Between windows, the sketches are swapped."""
    rng = np.random.default_rng([run.seed, 2])
    topo = make_topo(has_rates=run.target != "bmv2")
    hosts = topo.hosts()
    ends = np.array([rng.choice(len(hosts), 2, replace=False) for _ in stream.flows])
    rate_pps = scale.rate_pps or load_pps(topo, ends[stream.numbers])
    packets = min(round(rate_pps * scale.window_s * scale.windows), len(stream.numbers))
    stream = replace(stream, numbers=stream.numbers[:packets], lengths=stream.lengths[:packets])
    functions = {
        switch: HashFunctions(ROWS + 1 + CHANCES + 1, run.seed << 8 | number)
        for number, switch in enumerate(topo.switches())
    }
    shares = np.array_split(np.arange(packets), scale.windows)
    with Network(topo, run, program=program, name=f"fabric-{scale.columns}-{run.seed}",
                 defines={"COLUMNS": scale.columns}, mtu_bytes=MTU_BYTES) as net:  # fmt: skip
        macs = [bytes.fromhex(net.host(host).MAC().replace(":", "")) for host in hosts]
        frames = make_frames(stream, net.host("h1").MAC(), net.host("h2").MAC())
        fabric = Fabric(net, scale.columns, functions, stream)
        async with connections(net) as switches:
            for name, switch in switches.items():
                await configure(net, switch, functions[name])
            for window, share in enumerate(shares, start=FIRST_WINDOW):
                await start_window([*switches.values()], window)
                start_ns = run.clock.now_ns() + round(1e9 * scale.pause_s)
                spread = (
                    np.arange(len(share)) / len(share) if scale.is_paced else rng.random(len(share))
                )
                times_ns = start_ns + (1e9 * scale.window_s * np.sort(spread)).astype(np.int64)
                for host in range(len(hosts)):
                    ours = ends[stream.numbers[share], 0] == host
                    net.send_frames(
                        hosts[host], times_ns[ours].tolist(),
                        [macs[ends[stream.numbers[n], 1]] + macs[host] + frames[n][12:]
                         for n in share[ours].tolist()],
                    )  # fmt: skip
                fabric.starts_ns.append(start_ns)
                fabric.windows += [window] * len(share)
                await run.clock.sleep_until(
                    round(start_ns + 1e9 * (scale.window_s + scale.pause_s))
                )
    return fabric


class SwitchModel:
    """Model of one switch. Packets are counted in the order of their arrival."""

    def __init__(self, number: int, functions: HashFunctions, fabric: Fabric) -> None:
        self._number = number
        self.columns = functions.positions(fabric.flows, fabric.columns)[:ROWS].T.tolist()
        self._draws = functions.positions(fabric.draws, fabric.columns)[ROWS + 1 :].T.tolist()
        self._wins = (functions.positions(fabric.draws, OUT_OF)[ROWS] < CARRIERS).tolist()
        self.cells: dict[tuple[int, int, int], Cell] = {}  # key: window, row, column
        self._taken: set[tuple[int, int, int]] = set()  # elements: window, chance, column

    def arrive(self, packet: int, window: int, *, has_sketchlet: bool) -> int | None:
        """Count a packet. Return the column that it carries from here, if any."""
        least = 1 << 32
        for row in range(ROWS):
            cell = self.cells.setdefault((window, row, self.columns[packet][row]), [0, 0])
            if cell[0] <= least:
                least = cell[0]
                cell[0] += 1
        if has_sketchlet or not self._wins[packet]:
            return None
        *chances, last = self._draws[packet]
        for chance, column in enumerate(chances):
            if (window, chance, column) not in self._taken:
                self._taken.add((window, chance, column))
                return column
        return last

    def leave(self, packet: int, window: int, latency_us: int) -> None:
        """Update the largest latencies in the cells of a packet that leaves."""
        for row in range(ROWS):
            cell = self.cells[window, row, self.columns[packet][row]]
            cell[1] = max(cell[1], latency_us)

    def sketchlet(self, window: int, column: int) -> Sketchlet:
        """Return a column of the sketch of a window."""
        cells = [self.cells.get((window, row, column), [0, 0]) for row in range(ROWS)]
        return (self._number, window, column, *(value for cell in cells for value in cell))


@dataclass
class SwitchFindings:
    """Comparison of a switch with its model, and the flows that passed it."""

    wrong: int = 0  # number of packets whose sketchlet differs from the model
    lost: int = 0  # number of packets that the switch did not forward
    is_ordered: bool = True  # whether each packet left before the next one arrived
    # window -> flow key -> number of packets and largest latency (us) of the flow
    flows: dict[int, dict[int, Cell]] = field(default_factory=dict)


def compare(fabric: Fabric, switch: str, *, has_times: bool) -> SwitchFindings:
    """Compare the packets that left a switch with the model.

    Without `has_times`, latencies are unknown, so maxima are not compared.
    """
    net, found, flows = fabric.net, SwitchFindings(), fabric.flows.tolist()
    model = SwitchModel(int(switch[1:]), fabric.functions[switch], fabric)
    events, left = (
        sorted(row for node in net.neighbours(switch) for row in fabric.read(switch, node, what))
        for what in ("in", "out")
    )
    departures = {packet: (time_ns, sketchlet) for time_ns, packet, sketchlet in left}
    expected: dict[int, Sketchlet | int] = {}
    last_ns = 0
    for time_ns, packet, sketchlet in events:
        window = fabric.windows[packet]
        column = model.arrive(packet, window, has_sketchlet=sketchlet != ())
        expected[packet] = sketchlet if column is None else column
        if packet in departures:
            latency_us = departures[packet][0] // 1000 - time_ns // 1000
            model.leave(packet, window, latency_us)
            flow = found.flows.setdefault(window, {}).setdefault(flows[packet], [0, 0])
            flow[:] = flow[0] + 1, max(flow[1], latency_us)
            found.is_ordered &= last_ns < time_ns
            last_ns = max(last_ns, departures[packet][0])
    found.lost = len(expected.keys() - departures.keys())
    for packet, (_, sketchlet) in departures.items():
        should = expected.get(packet, 0)
        if isinstance(should, int):
            should = model.sketchlet(fabric.windows[packet] - 1, should)
        sums = slice(None) if has_times else slice(0, None, 2)
        found.wrong += should[:3] != sketchlet[:3] or should[3:][sums] != sketchlet[3:][sums]
    return found


@dataclass(frozen=True)
class Sketch:
    """Part of a switch's sketch of a window: the columns that have arrived at hosts."""

    # column -> time of its first arrival (ns), and the sketchlet
    columns: dict[int, tuple[int, Sketchlet]] = field(default_factory=dict)
    needed: int = 0  # number of sketchlets that arrived until the last column was known
    total: int = 0  # number of all sketchlets that arrived

    def estimate(self, columns: Sequence[int]) -> Cell | None:
        """Return estimated packets and largest latency of a flow, or None if no column arrived."""
        cells = [self.columns[column][1][3 + 2 * row : 5 + 2 * row]
                 for row, column in enumerate(columns) if column in self.columns]  # fmt: skip
        return [min(values) for values in zip(*cells, strict=True)] if cells else None


def reconstruct(fabric: Fabric) -> dict[tuple[int, int], Sketch]:
    """Return the sketches by switch number and window, from the packets that reached the hosts."""
    net = fabric.net
    rows = sorted(
        (time_ns, sketchlet)
        for host in net.topo.hosts()
        for time_ns, _, sketchlet in fabric.read(leaf_of(net, host), host, "out") if sketchlet
    )  # fmt: skip
    columns: dict[tuple[int, int], dict[int, tuple[int, Sketchlet]]] = {}
    needed, total = {}, Counter[tuple[int, int]]()
    for time_ns, sketchlet in rows:
        switch, window, column, *_ = sketchlet
        total[switch, window] += 1
        known = columns.setdefault((switch, window), {})
        if column not in known:
            known[column] = time_ns, sketchlet
            needed[switch, window] = total[switch, window]
    return {key: Sketch(known, needed[key], total[key]) for key, known in columns.items()}


def estimates(
    functions: HashFunctions, width: int, flows: Mapping[int, Cell], sketch: Sketch
) -> NDArray[np.float64]:
    """Return per flow: true, estimated and count-min packets; true and estimated latency.

    Flows without an estimate are left out. The count-min sketch has the same cells.
    """
    columns = functions.positions(np.array([*flows], np.uint32), width)[:ROWS]
    true = np.array([*flows.values()]).reshape(-1, 2)
    sums = np.array([np.bincount(row, true[:, 0], width) for row in columns])
    count_min = np.take_along_axis(sums, columns, axis=1).min(axis=0)
    found = [sketch.estimate(own) for own in columns.T.tolist()]
    return np.array([
        (packets, own[0], other, latency, own[1])
        for (packets, latency), own, other in zip(true, found, count_min, strict=True) if own
    ]).reshape(-1, 5)  # fmt: skip


def overhead(fabric: Fabric, scale: Scale) -> float:
    """Return the fraction of the capacity of all links that sketchlets use."""
    net = fabric.net
    crossings = sum(
        sketchlet != () for switch in net.topo.switches() for node in net.neighbours(switch)
        for _, _, sketchlet in fabric.read(switch, node, "out")
    )  # fmt: skip
    capacity = 2 * len(net.topo.links()) * RATE_BPS * scale.window_s * scale.windows
    return 8 * HEADER.itemsize * crossings / capacity


def leaf_of(net: Network, host: str) -> str:
    """Return the switch of a host."""
    return next(iter(net.neighbours(host)))


@dataclass(frozen=True)
class Sample:
    """Result of one run at one switch, for samples.csv."""

    columns: int
    seed: int
    switch: int
    tier: str
    wrong: int  # number of packets whose sketchlet differs from the model
    lost: int  # number of packets that the switch did not forward
    underestimated: int  # number of flows of which size or latency is underestimated
    # Time from the start of a window until its sketch is known; median of the windows. A sketch
    # that is not known at the end of the next window counts as known at that time.
    seconds: float
    sketchlets: float  # number of sketchlets that arrived until the sketch was known
    sketchlets_per_s: float
    error: float  # mean relative error of flow sizes
    count_min_error: float  # mean relative error of a count-min sketch with the same cells


def evaluate(
    fabric: Fabric, switch: str, sketches: Mapping[tuple[int, int], Sketch], scale: Scale, run: Run
) -> tuple[Sample, NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """Return the sample of a switch, the arrivals of its columns, and the errors of its flows.

    Arrivals are in seconds from the start of the window, and infinite for columns that did not
    arrive. Errors are those of SuMax and of a count-min sketch; shape (flows, 2).
    """
    has_times = run.target != "bmv2"
    found = compare(fabric, switch, has_times=has_times)
    if found.lost and not has_times:
        note_invalid(f"{switch}: bmv2 did not forward {found.lost} packets")
    if found.wrong and scale.is_paced and not found.is_ordered:
        note_invalid(f"{switch}: the order in which it processed packets is unknown")
    number, functions = int(switch[1:]), fabric.functions[switch]
    windows = range(FIRST_WINDOW, scale.windows)
    own = [sketches.get((number, window), Sketch()) for window in windows]
    arrivals_s = np.full((len(own), scale.columns), np.inf)
    for row, sketch in enumerate(own):
        for column, (at_ns, _) in sketch.columns.items():
            arrivals_s[row, column] = (at_ns - fabric.starts_ns[row]) / 1e9
    rows = np.concatenate([
        estimates(functions, scale.columns, found.flows.get(window, {}), sketch)
        for window, sketch in zip(windows, own, strict=True)
    ])  # fmt: skip
    is_low = (rows[:, 1] < rows[:, 0]) | (has_times & (rows[:, 4] < rows[:, 3]))
    errors = rows[:, 1:3] / rows[:, :1] - 1
    sample = Sample(
        scale.columns, run.seed, number, fabric.net.topo.places[switch].tier, found.wrong,
        found.lost, int(is_low.sum()),
        float(np.median(np.minimum(arrivals_s.max(axis=1), 2 * scale.window_s))),
        float(np.median([sketch.needed for sketch in own])),
        float(np.mean([sketch.total for sketch in own])) / scale.window_s,
        *errors.mean(axis=0).tolist(),
    )  # fmt: skip
    return sample, arrivals_s.ravel(), errors
