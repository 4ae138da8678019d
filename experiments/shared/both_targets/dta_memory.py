"""Memory of all five DTA data structures, after the same packets and sketch columns.

h1, h3 - s1 - s2 - h2: s1 reports packets from h1 to h3; the translator, s2, writes into h2's memory
"""

import zlib
from functools import partial
from ipaddress import IPv4Address

import numpy as np
from numpy.typing import NDArray
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from collectors.dta.append import batch, tail
from collectors.dta.hashes import BLANK, Words, hop_checksums, slots, value_codes
from collectors.dta.key_increment import COUNTER, Counters
from collectors.dta.key_write import Store, slot
from collectors.dta.packets import SketchMerge
from collectors.dta.postcarding import CHUNK
from collectors.dta.sketch_merge import COLUMN, ROWS
from controllers.connection import connections, cpu_ports
from controllers.dta import reporter, translator
from controllers.dta.batching import ListStore, PostcardStore, SketchStore, flush_rows
from controllers.dta.manager.fabric import Area, collector
from controllers.dta.reporter import Reporter
from controllers.dta.stores import CounterStore, KeyWriteStore
from controllers.dta.translator import CounterSession, TrackedReporter, Translator
from controllers.dta.watch import Counts, Data, EventList, Postcards, ReportKind, WatchedFlow, Word
from experiments.shared.both_targets.outputs import SETTLE_NS, Outputs, Part, count_sent, send
from experiments.shared.dta.reports import filled
from experiments.shared.roce.reporting import FrameRecorder
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.session.run import Run
from topologies.basic import Dumbbell

PROGRAMS = {"s1": "p4src/dta/reporter.p4", "s2": "p4src/dta/translator.p4"}
STORES = ("Key-Write", "Key-Increment", "Append", "Postcarding", "Sketch-Merge")
# drop reasons that are expected at s2, because reports and RDMA responses end in the translator
EXPECTED = ("ingress", "miss", "egress")
# source of reports, source prefix of the watched flows
ADDRESS, SENDERS = "10.255.0.1", "10.128.0.0/9"
MACS = ("00:00:00:00:00:01", "00:00:00:00:00:03")  # MAC addresses of h1 and h3
NODE, COPIES, SLOTS, CACHE_ROWS, BATCH, COLUMNS, REPORTERS = 9, 2, 1024, 64, 4, 16, 2
PACKETS_PER_FLOW = 2
UDP_PROTOCOL = 17
LINKS = [("s1", "s2"), ("s1", "h3"), ("s2", "h2")]


async def measure(packets: int, run: Run) -> Outputs:
    """Report flows and sketches; return the memory of all DTA data structures."""
    rng = np.random.default_rng(run.seed)
    keys = make_keys(packets // PACKETS_PER_FLOW // BATCH * BATCH, rng)
    frames = make_frames(np.repeat(keys, PACKETS_PER_FLOW, axis=0), rng)
    counters = rng.integers(1 << 20, size=(REPORTERS, COLUMNS, ROWS), dtype=np.uint32)
    sketches = make_columns(counters)
    cards = PostcardStore(SLOTS, CACHE_ROWS)
    batches = len(keys) // BATCH + 2
    areas = [
        Area(slot(1), SLOTS, lambda sessions: KeyWriteStore(1, SLOTS, sessions=sessions)),
        Area(COUNTER, COPIES * SLOTS, partial(CounterStore, SLOTS, COPIES), CounterSession),
        Area(batch(BATCH), batches, lambda sessions: ListStore(BATCH, batches, 1, sessions[0])),
        Area(CHUNK, SLOTS, partial(PostcardStore, SLOTS, CACHE_ROWS)),
        Area(COLUMN, COLUMNS, lambda sessions: SketchStore(COLUMNS, REPORTERS, 1, sessions[0])),
    ]
    there = collector("h2", "10.0.0.2", areas, run.folder)
    tracked = [TrackedReporter(ADDRESS), *(TrackedReporter("10.0.0.1", n + 1)
                                           for n in range(REPORTERS))]  # fmt: skip
    wanted = ReportKind.DATA | ReportKind.COUNT | ReportKind.START | ReportKind.POSTCARD
    reporting = Reporter(
        ADDRESS, ["h2"], [WatchedFlow(SENDERS, "10.0.0.3", wanted=wanted)], node_id=NODE,
        data=Data(words=1, first=Word.PACKETS, redundancy=COPIES), counts=Counts(redundancy=COPIES),
        postcards=Postcards(redundancy=COPIES), started=EventList(0),
    )  # fmt: skip
    topo = Dumbbell(2)
    with Network(topo, run, program=PROGRAMS, name="dta", expected_drops=EXPECTED,
                 switch_options=cpu_ports(topo)) as net:  # fmt: skip
        memory = net.run_application("h2", there.responder)
        receiver = net.run_application("h3", FrameRecorder())
        async with connections(net) as switches:
            await reporter.configure(net, switches, {"s1": reporting})
            place = Translator(there.sessions, [there.service], tracked)
            await translator.configure(net, switches, {"s2": place})
            await send(net, "h1", [*frames, *sketches], run.clock)
            await flush_rows(switches["s2"], 1, cards)
            await run.clock.sleep_until(run.clock.now_ns() + SETTLE_NS)
            events = await reporter.events(switches["s1"])
    records = memory.result.records
    expected = make_memory(keys, counters, batches)
    refused = memory.result.counts.refused
    return Outputs(
        "DTA",
        {
            **{name: Part([records[n].tobytes()], [expected[n].tobytes()])
               for n, name in enumerate(STORES)},
            "forwarded packets": Part(receiver.result, frames),
        },
        {
            # The first packet of a flow causes one report of each kind. Later packets are only
            # counted.
            "reports": (events["sent"], len(keys) * (3 + PACKETS_PER_FLOW)),
            "rejected requests": (refused.total() - refused["DUPLICATE"], 0),
        },
        count_sent(net, LINKS),
        PacketAccounting.from_network(net, {}),
    )  # fmt: skip


def make_keys(count: int, rng: np.random.Generator) -> Words:
    """Return keys (n, 4) of flows without common slots, so that no report overwrites another."""
    keys = np.zeros((4 * count, 4), np.uint32)
    keys[:, 0] = 0x0A800000 + rng.permutation(1 << 23)[: len(keys)]
    keys[:, 1] = int(IPv4Address("10.0.0.3"))
    keys[:, 2] = rng.integers(1 << 32, size=len(keys), dtype=np.uint32)
    keys[:, 3] = UDP_PROTOCOL << 24
    used: set[int] = set()
    chosen = []
    for number, places in enumerate(slots(keys, COPIES, SLOTS).T.tolist()):
        if len({*places} - used) == COPIES:
            used.update(places)
            chosen.append(number)
    return keys[chosen[:count]]


def make_frames(keys: Words, rng: np.random.Generator) -> list[bytes]:
    """Return a packet per key, with random payload, from h1 to h3."""
    ether, found = Ether(src=MACS[0], dst=MACS[1]), []
    for src, dst, ports, _ in keys.tolist():
        ip = IP(src=str(IPv4Address(src)), dst=str(IPv4Address(dst)))
        udp = UDP(sport=ports >> 16, dport=ports & 0xFFFF)
        found.append(bytes(ether / ip / udp / Raw(rng.bytes(int(rng.integers(18, 100))))))
    return found


def make_columns(counters: NDArray[np.uint32]) -> list[bytes]:
    """Return reports of sketches (reporters, columns, rows), column by column."""
    column, number = (each.ravel() for each in np.indices(counters.shape[1::-1]))
    rows = counters.transpose(1, 0, 2).reshape(-1, ROWS)
    return filled(SketchMerge(), [column, *rows.T], sequence=column, reporter=number + 1)


def make_memory(
    keys: Words, counters: NDArray[np.uint32], batches: int
) -> list[NDArray[np.generic]]:
    """Return the expected memory of each of STORES."""
    key_write = np.zeros(SLOTS, slot(1))
    # the first packet of each flow is number 1
    Store(key_write).write(keys, np.ones((len(keys), 1), np.uint32), COPIES)
    increment = np.zeros(COPIES * SLOTS, COUNTER)
    counted = np.full(len(keys), PACKETS_PER_FLOW, np.uint64)
    Counters(increment, COPIES).add(keys, counted, COPIES)
    appended = np.zeros(batches, batch(BATCH))
    names = [zlib.crc32(key.tobytes()) for key in keys.astype(">u4")]
    full = len(keys) // BATCH
    appended["entries"][:full] = np.reshape(names, (full, BATCH))
    appended["tail"][:full] = [tail(BATCH, number + 1) for number in range(full)]
    cards = np.zeros(SLOTS, CHUNK)
    hops = np.full((len(keys), len(hop_checksums(keys))), BLANK, np.uint32)
    hops[:, 0] = value_codes(np.full(len(keys), NODE, np.uint32))
    places = slots(keys, COPIES, SLOTS).T.reshape(-1)
    cards["hops"][places] = np.repeat(hops ^ hop_checksums(keys).T, COPIES, axis=0)
    merged = np.zeros(COLUMNS, COLUMN)
    merged["rows"] = counters.sum(axis=0)
    return [key_write, increment, appended, cards, merged]
