"""Cases in which the published translator and Telemark's get the same reports.

A case runs one side, and counts how often something is wrong: bytes of memory that differ from a
model, or occurrences of a fault. The expected count of a fault follows from the published program.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from collectors.dta import key_write, theory
from collectors.dta.append import batch, tail
from collectors.dta.hashes import HOPS, slots
from collectors.dta.key_increment import COUNTER, Counters
from collectors.dta.load import Format, Load, Reports
from collectors.dta.packets import PROTOTYPE_PORT, Op
from collectors.dta.postcarding import Postcards
from experiments.shared.dta import prototype
from experiments.shared.dta.both_translators import (
    CARDS,
    KEYS,
    LISTS,
    OURS,
    PROTOTYPE,
    Case,
    Faults,
    Memory,
    Received,
    Running,
    make_frames,
    translating,
)
from experiments.shared.dta.prototype import BATCH
from telemark.results.report import Check
from telemark.session.run import Run

Values = NDArray[np.uint32]

RATE = 5000  # reports/s
LOADS = (0.1, 0.25, 0.5, 0.75, 1.0)
LISTS_EACH = 4  # number of lists in a case with several lists
LAPS = 2  # number of laps of a ring that wraps
IN_FLIGHT = 1  # max number of requests in one round trip, at RATE
HIT = 20  # number of the request that is lost or repeated
AFTER = 200  # number of reports after the effect of a lost request
COPIES = 2  # copies per report, unless a case sets another number
MIXED_RATE_BPS = 5_000_000  # a request takes longer than the time between two reports
MIXED_GAP_S = 0.002


@dataclass(frozen=True)
class Sizes:
    """Sizes of cases."""

    slots: int = 1 << 13
    reports: int = 1000
    flows: int = 200  # number of flows of the reporter


@dataclass(frozen=True)
class Finding:
    """Number of units (bytes, keys, ...) that are wrong on one side, of all units."""

    panel: str
    what: str
    side: str
    copies: int
    parameter: float  # load, batches per ring, or number of dropped reports
    unit: str
    total: int
    count: int
    expected: float  # exact number; in the panel "success", a mean

    @property
    def ratio(self) -> float:
        return self.count / self.total


@dataclass
class Result:
    """Findings and checks of a case."""

    findings: list[Finding] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


@dataclass(frozen=True)
class Setting:
    """What one run measures."""

    kind: str
    side: str
    folder: str  # folder with the published programs
    sizes: Sizes
    parameter: int = 0

    @property
    def is_ours(self) -> bool:
        return self.side == OURS

    def case(self, **values: Any) -> Case:
        name = f"{self.kind}-{self.parameter}-{self.side}"
        return Case(name, self.side, self.folder, **values)

    def finding(
        self, panel: str, what: str, unit: str, counts: tuple[int, int], expected: float, *,
        parameter: float = 0, copies: int = COPIES,
    ) -> Finding:  # fmt: skip
        """Return a finding; `counts` are the number of wrong units and of all units."""
        return Finding(panel, what, self.side, copies, parameter, unit, counts[1], counts[0],
                       expected)  # fmt: skip

    def fault(self, what: str, unit: str, counts: tuple[int, int], prototype_s: int) -> Finding:
        """Return how often a fault occurs. It never occurs in Telemark's translator."""
        return self.finding("faults", what, unit, counts, 0 if self.is_ours else prototype_s)

    def memory(self, what: str, measured: NDArray[Any], model: NDArray[Any]) -> Finding:
        """Return the number of bytes that differ from a model."""
        wrong = np.frombuffer(measured.tobytes(), "u1") != np.frombuffer(model.tobytes(), "u1")
        counts = int(np.count_nonzero(wrong)), len(wrong)
        return self.finding("memory", what, "bytes", counts, 0)


async def measure(setting: Setting, run: Run) -> Result:
    """Run one case."""
    return await CASES[setting.kind](setting, run)


async def _keys(setting: Setting, run: Run) -> Result:
    """Run Key-Write with `parameter` copies: compare memory, and count the found keys by load."""
    copies, count = setting.parameter, setting.sizes.slots
    keys = random_keys(count, run.seed)
    reports = Load(count, {Op.KEY_WRITE: 1}, Format.PLAIN, keys=keys, redundancy=copies).reports()
    data = data_of(reports)
    frames = make_frames(reports.payloads, PROTOTYPE_PORT)
    found = Result()
    async with translating(setting.case(memory=Memory(slots=count)), run) as running:
        for first, end in pairwise([0, *(round(load * count) for load in LOADS)]):
            await running.send(frames[first:end], RATE)
            memory = running.read(KEYS)
            right = _found(setting, memory, keys[:end], data[:end], copies)
            law = theory.mean_success if setting.is_ours else prototype.mean_success
            expected = float(f"{float(law(end / count, copies)):.12g}")
            found.findings.append(setting.finding(
                "success", "found keys", "keys", (right, end), expected,
                parameter=end / count, copies=copies,
            ))  # fmt: skip
    model = _key_memory(setting, keys, data, copies)
    found.findings.append(setting.memory(f"Key-Write, N = {copies}", memory, model))
    received = running.received[0]
    counts = received.wrong_icrcs, received.requests
    found.findings.append(setting.fault("iCRC is 0", "requests", counts, received.requests))
    found.checks += _checks(running, received, writes=copies * count)
    return found


def _found(setting: Setting, memory: NDArray[Any], keys: Values, data: Values, copies: int) -> int:
    """Count the keys (n, 4) that a query finds with their data (n,)."""
    if setting.is_ours:
        answers = key_write.Store(memory).query(keys, copies)
        return int((answers.found & (answers.data[:, 0] == data)).sum())
    return int(prototype.is_found(memory, keys[:, 3], data, copies).sum())


def _key_memory(setting: Setting, keys: Values, data: Values, copies: int) -> NDArray[Any]:
    """Return the memory of Key-Writes by the model of a side."""
    size = setting.sizes.slots
    if setting.is_ours:
        memory = np.zeros(size, key_write.slot(1))
        key_write.Store(memory).write(keys, data[:, np.newaxis], copies)
    else:
        memory = np.zeros(size, prototype.SLOT)
        prototype.write_keys(memory, keys[:, 3], data, copies)
    return memory


async def _increments(setting: Setting, run: Run) -> Result:
    """Run Key-Increment. With parameter 1, the collector corrects the lengths of requests."""
    count, size, addend = setting.sizes.reports, 1024, 3
    load = Load(count, {Op.KEY_INCREMENT: 1}, Format.PLAIN, distinct=count // 4, addend=addend,
                redundancy=COPIES, seed=run.seed)  # fmt: skip
    reports = load.reports()
    case = setting.case(memory=Memory(slots=size, counters=COPIES),
                        corrects_lengths=bool(setting.parameter))  # fmt: skip
    async with translating(case, run) as running:
        await running.send(make_frames(reports.payloads, PROTOTYPE_PORT), RATE)
        memory = running.read(KEYS)
    received, requests = running.received[0], COPIES * count
    if not setting.parameter:
        refused = received.outcome.counts.refused["TRUNCATED"]
        wrong = setting.fault(
            "wrong length of FETCH ADD", "requests", (refused, requests), requests
        )
        return Result([wrong], _checks(running, received, requests if setting.is_ours else 0))
    keys = key_of(reports)
    if setting.is_ours:
        model = np.zeros(COPIES * size, COUNTER)
        Counters(model, COPIES).add(keys, np.full(count, addend, np.uint64), COPIES)
    else:
        model = np.zeros(size, prototype.COUNTER)
        prototype.add_keys(model, keys[:, 3], addend, COPIES)
    what = "Key-Increment, lengths corrected"
    return Result([setting.memory(what, memory, model)], _checks(running, received, requests))


async def _lists(setting: Setting, run: Run) -> Result:
    """Append to several lists. As in the published generator, the last list does not exist."""
    count, ring = setting.sizes.reports // 20 * 20, setting.sizes.reports // 20
    load = Load(count, {Op.APPEND: 1}, Format.PLAIN, lists=range(LISTS_EACH + 1), seed=run.seed)
    reports = load.reports()
    case = setting.case(memory=Memory(lists=LISTS_EACH, ring=ring))
    async with translating(case, run) as running:
        await running.send(make_frames(reports.payloads, PROTOTYPE_PORT), RATE)
        names = [name for name in case.memory.records(case.side) if name.startswith(LISTS)]
        memory = np.concatenate([running.read(name) for name in names])
    assert reports.fields is not None
    lists, received = reports.fields.list, running.received[0]
    stray = int((lists == LISTS_EACH).sum()) // BATCH
    per_list = [data_of(reports)[lists == number] for number in range(LISTS_EACH)]
    model = np.concatenate([_ring(setting, entries, ring) for entries in per_list])
    writes = sum(len(entries) // BATCH for entries in per_list)
    refused = received.outcome.counts.refused["QUEUE_PAIR"]
    return Result(
        [
            setting.memory("Append, 4 lists", memory, model),
            setting.fault("writes to queue pair 0", "requests", (refused, writes + stray), stray),
        ],
        _checks(running, received, writes),
    )


def _ring(setting: Setting, entries: Values, ring: int) -> NDArray[Any]:
    """Return the memory of one list after these entries, by the model of a side."""
    if not setting.is_ours:
        memory = np.zeros(ring * BATCH, prototype.ENTRY)
        prototype.append_entries(memory, entries)
        return memory
    memory = np.zeros(ring, batch(BATCH))
    for number, full in enumerate(entries[: len(entries) // BATCH * BATCH].reshape(-1, BATCH)):
        memory[number % ring] = (full, tail(BATCH, number + 1))
    return memory


async def _wrap(setting: Setting, run: Run) -> Result:
    """Append to one list whose ring, of `parameter` batches, wraps LAPS times.

    A reader reads the whole ring after each ring - 1 batches, so it keeps up with a correct ring.
    """
    ring = setting.parameter
    checked = LAPS * (ring + 1)  # number of batches; one more follows, so that each has a successor
    load = Load((checked + 2) * BATCH, {Op.APPEND: 1}, Format.PLAIN, seed=run.seed)
    reports = load.reports()
    frames = make_frames(reports.payloads, PROTOTYPE_PORT)[BATCH:]  # zeros look like empty memory
    entries = data_of(reports)[BATCH:]
    case = setting.case(memory=Memory(ring=ring))
    (name,) = (name for name in case.memory.records(case.side) if name.startswith(LISTS))
    part, seen = (ring - 1) * BATCH, np.zeros(0, np.uint32)
    async with translating(case, run) as running:
        for first in range(0, len(frames), part):
            await running.send(frames[first : first + part], RATE)
            memory = running.read(name)
            read = memory["entries"].ravel() if setting.is_ours else memory
            seen = np.union1d(seen, read)
    lost = int((~np.isin(entries[: checked * BATCH], seen)).sum())
    ends = np.arange(ring, checked, ring + 1)  # the batch that the next one overwrites
    law = 0 if setting.is_ours else int(((ends + 1) % (ring - 1) > 0).sum()) * BATCH
    counts = lost, checked * BATCH
    received = running.received[0]
    return Result(
        [
            setting.finding("wrap", "lost entries", "entries", counts, law, parameter=ring),
            setting.memory("Append, wrapped ring", memory, _ring(setting, entries, ring)),
        ],
        _checks(running, received, writes=checked + 1),
    )


async def _cards(setting: Setting, run: Run) -> Result:
    """Send the postcards of complete paths."""
    size, paths = 1 << 12, setting.sizes.reports // HOPS
    candidates = random_keys(4 * paths, run.seed)
    _, first = np.unique(slots(candidates, 1, size)[0], return_index=True)
    keys, count = candidates[np.sort(first)[:paths]], paths * HOPS
    # a Load uses only the first keys, one per path
    load = Load(count, {Op.POSTCARDING: 1}, Format.PLAIN, keys=np.resize(keys, (count, 4)),
                seed=run.seed)  # fmt: skip
    reports = load.reports()
    async with translating(setting.case(memory=Memory(cards=size)), run) as running:
        await running.send(make_frames(reports.payloads, PROTOTYPE_PORT), RATE)
        memory = running.read(CARDS)
    received, writes = running.received[0], paths
    if setting.is_ours:
        assert reports.fields is not None
        reported = reports.fields.words[:, 1].reshape(paths, HOPS) % load.values
        answers = Postcards(memory, np.arange(load.values), 1).query(keys)
        right = answers.is_known.all(axis=1) & (answers.values == reported).all(axis=1)
        missing = paths - int(right.sum())
    else:
        missing = paths - int(np.count_nonzero(memory["hops"].any(axis=1)))
        writes = prototype.postcard_writes(count)
    return Result(
        [setting.fault("paths not in memory", "paths", (missing, paths), paths)],
        _checks(running, received, writes),
    )


async def _immediate(setting: Setting, run: Run) -> Result:
    """Send immediate reports. Each of them must cause a completion."""
    count = setting.sizes.reports // 5
    load = Load(count, {Op.KEY_WRITE: 1}, Format.PLAIN, immediate=True, redundancy=COPIES,
                seed=run.seed)  # fmt: skip
    async with translating(setting.case(), run) as running:
        await running.send(make_frames(load.reports().payloads, PROTOTYPE_PORT), RATE)
    received = running.received[0]
    missing = count - len(received.outcome.completions)
    return Result(
        [setting.fault("immediate is ignored", "reports", (missing, count), count)],
        _checks(running, received, COPIES * count),
    )


async def _resync(setting: Setting, run: Run) -> Result:
    """Lose one request. The prototype then drops `parameter` - 1 reports."""
    count = HIT + setting.parameter + AFTER
    found, running, received = await _one_fault(setting, run, count, Faults(lost=HIT))
    refused = received.outcome.counts.refused
    gap = refused["GAP"] + refused["GAP_AGAIN"]
    law = 1 + gap
    law += 0 if setting.is_ours else setting.parameter - 1
    counts = count - received.outcome.counts.accepted.total(), count
    what = "reports lost after one lost request"
    found.findings.append(
        setting.finding("resync", what, "reports", counts, law, parameter=setting.parameter)
    )
    found.checks += _checks(running, received, count - law, gap)
    found.checks.append(
        Check("lost request: refused requests beyond one round trip", max(0, gap - IN_FLIGHT), 0)
    )
    return found


async def _repeated(setting: Setting, run: Run) -> Result:
    """Let one request arrive twice, so that the collector acknowledges the second one."""
    count, drops = HIT + AFTER, setting.parameter
    found, running, received = await _one_fault(setting, run, count, Faults(repeated=HIT))
    after = count - HIT - 1
    lost = count - received.outcome.counts.accepted.total()
    found.findings.append(setting.fault("an ACK ends the session", "reports", (lost, after), after))
    # each time, one report is sent with the PSN of an executed request
    duplicates = 1 if setting.is_ours else 1 + after // drops
    writes = count if setting.is_ours else HIT + 1
    found.checks += _checks(running, received, writes, duplicates)
    return found


async def _one_fault(
    setting: Setting, run: Run, count: int, faults: Faults
) -> tuple[Result, Running, Received]:
    """Send Key-Writes with one copy, and one fault of the network at the collector."""
    load = Load(count, {Op.KEY_WRITE: 1}, Format.PLAIN, redundancy=1, seed=run.seed)
    case = setting.case(memory=Memory(slots=setting.sizes.slots), faults=faults,
                        drops=setting.parameter)  # fmt: skip
    reports = load.reports()
    async with translating(case, run) as running:
        await running.send(make_frames(reports.payloads, PROTOTYPE_PORT), RATE)
        memory = running.read(KEYS)
    received = running.received[0]
    # all lost reports are consecutive
    lost = count - received.outcome.counts.accepted.total()
    first = HIT + (faults.repeated is not None)
    kept = np.r_[0:first, first + lost : count]
    model = _key_memory(setting, key_of(reports)[kept], data_of(reports)[kept], 1)
    return Result([setting.memory("Key-Write, one fault", memory, model)]), running, received


async def _mixed(setting: Setting, run: Run) -> Result:
    """Send reports with several copies to two collectors. Reports for the two alternate."""
    count, size = setting.sizes.reports // 10, setting.sizes.slots
    chosen = _keys_without_overlap(setting, random_keys(8 * count, run.seed), 2 * count, size)
    keys = chosen.reshape(2, count, 4)
    case = setting.case(memory=Memory(slots=size), collectors=2, rate_bps=MIXED_RATE_BPS)
    frames = []
    for each, to in zip(keys, ("10.0.0.51", "10.0.0.52"), strict=True):
        load = Load(count, {Op.KEY_WRITE: 1}, Format.PLAIN, keys=each, redundancy=COPIES)
        frames.append(make_frames(load.reports().payloads, PROTOTYPE_PORT, to=to))
    alternating = [frame for pair in zip(*frames, strict=True) for frame in pair]
    async with translating(case, run) as running:
        await running.send_pairs(alternating, MIXED_GAP_S)
    wrong = sum(
        _misplaced(setting, received.outcome.records[1], each)
        for received, each in zip(running.received, keys, strict=True)
    )
    what = "copies of two reports mixed up"
    return Result(
        [setting.fault(what, "reports", (wrong, 2 * count), 2 * count)],
        [check for received in running.received
         for check in _checks(running, received, COPIES * count)],
    )  # fmt: skip


def _places(setting: Setting, keys: Values, size: int) -> NDArray[np.int64]:
    """Return the slots of keys (n, 4) by the hash of a side: (COPIES, n)."""
    if setting.is_ours:
        return slots(keys, COPIES, size)
    return prototype.key_slots(keys[:, 3], COPIES, size)


def _keys_without_overlap(setting: Setting, keys: Values, count: int, size: int) -> Values:
    """Return keys of which no two have a common slot on any side."""
    sides = [_places(replace(setting, side=side), keys, size).T.tolist()
             for side in (PROTOTYPE, OURS)]  # fmt: skip
    used: tuple[set[int], set[int]] = (set(), set())
    chosen = []
    for index, places in enumerate(zip(*sides, strict=True)):
        if all(len({*own} - taken) == COPIES for own, taken in zip(places, used, strict=True)):
            chosen.append(index)
            for own, taken in zip(places, used, strict=True):
                taken.update(own)
    return keys[chosen[:count]]


def _misplaced(setting: Setting, memory: NDArray[Any], keys: Values) -> int:
    """Count the keys that are not in all of their slots."""
    places = _places(setting, keys, len(memory))
    sums = key_write.checksums(keys, 31) if setting.is_ours else prototype.key_checksums(keys[:, 3])
    return int((memory["checksum"][places] != sums).any(axis=0).sum())


async def _reporter(setting: Setting, run: Run) -> Result:
    """Send packets that the published reporter reports, each of them once.

    With parameter 1, the published translator tracks losses, so it expects a longer header.
    """
    flows, size = setting.sizes.flows, setting.sizes.slots
    rng = np.random.default_rng(run.seed)
    count = 4 * flows
    sources = (0x0A800000 + rng.integers(1 << 23, size=flows, dtype=np.uint32))[
        rng.integers(flows, size=count)
    ]
    numbers = np.arange(1, count + 1, dtype=np.uint32)  # all differ, so each is a change
    case = setting.case(memory=Memory(slots=size), has_reporter=True,
                        is_tracked=bool(setting.parameter) and not setting.is_ours)  # fmt: skip
    async with translating(case, run) as running:
        await running.send(packets(sources, numbers), RATE)
        memory = running.read(KEYS)
    received = running.received[0]
    keys = np.zeros((count, 4), np.uint32)
    keys[:, 3] = sources
    if setting.parameter == 0:
        model = _key_memory(setting, keys, numbers, COPIES)
        return Result([setting.memory("Key-Write by the reporter", memory, model)],
                      _checks(running, received, COPIES * count))  # fmt: skip
    lost = count - received.outcome.counts.accepted.total() // COPIES
    what = "header of the reporter is too short"
    writes = COPIES * count if setting.is_ours else 0
    return Result([setting.fault(what, "reports", (lost, count), count)],
                  _checks(running, received, writes))  # fmt: skip


async def _nacks(setting: Setting, run: Run) -> Result:
    """Lose a report of a reporter whose losses are tracked. Later reports cause NACKs."""
    count = HIT + setting.sizes.reports // 10
    load = Load(count, {Op.KEY_WRITE: 1}, Format.TRACKED, redundancy=COPIES, retransmittable=True,
                seed=run.seed)  # fmt: skip
    frames = make_frames(load.reports().payloads, PROTOTYPE_PORT)
    del frames[HIT]
    async with translating(setting.case(is_tracked=True), run) as running:
        await running.send(frames, RATE)
    received, later = running.received[0], COPIES * (count - HIT - 1)
    what = "NACKs also go to the collector"
    return Result([setting.fault(what, "NACKs", (received.nacks, later), later)],
                  _checks(running, received, COPIES * HIT))  # fmt: skip


async def _reporters(setting: Setting, run: Run) -> Result:
    """Send reports of two reporters whose losses are tracked. No report is lost."""
    count = setting.sizes.reports
    rng = np.random.default_rng(run.seed)
    is_first = rng.random(count) < 0.5
    frames = np.empty(count, object)
    order = np.empty(count, int)
    for chosen, source in ((is_first, "10.0.0.1"), (~is_first, "10.0.0.3")):
        own = int(chosen.sum())
        load = Load(own, {Op.KEY_WRITE: 1}, Format.TRACKED, redundancy=1, retransmittable=True,
                    seed=run.seed)  # fmt: skip
        frames[chosen] = make_frames(load.reports().payloads, PROTOTYPE_PORT, source=source)
        order[chosen] = np.arange(own) % 256
    async with translating(setting.case(is_tracked=True), run) as running:
        await running.send(frames.tolist(), RATE)
    received = running.received[0]
    lost = count - received.outcome.counts.accepted.total()
    law = prototype.rejected_reports(order.tolist())
    what = "reporters share one number"
    return Result([setting.fault(what, "reports", (lost, count), law)],
                  _checks(running, received, count - (0 if setting.is_ours else law)))  # fmt: skip


CASES: dict[str, Callable[[Setting, Run], Awaitable[Result]]] = {
    "keys": _keys, "increments": _increments, "lists": _lists, "wrap": _wrap, "cards": _cards,
    "immediate": _immediate, "resync": _resync, "repeated": _repeated, "mixed": _mixed,
    "reporter": _reporter, "nacks": _nacks, "reporters": _reporters,
}  # fmt: skip


def _checks(
    running: Running, received: Received, writes: int, refused: int | None = None
) -> list[Check]:
    """Check the numbers of executed and of rejected requests, and the packet accounting."""
    counts, name = received.outcome.counts, running.net.name
    found = [Check(f"{name}: executed requests", counts.accepted.total(), writes)]
    if refused is not None:
        found.append(Check(f"{name}: rejected requests", counts.refused.total(), refused))
    return [*found, *running.checks()]


def random_keys(count: int, seed: int) -> Values:
    """Return different random keys of 32 bits, as words (count, 4)."""
    keys = np.zeros((count, 4), np.uint32)
    drawn = np.random.default_rng(seed).integers(1 << 32, size=2 * count, dtype=np.uint32)
    _, first = np.unique(drawn, return_index=True)
    keys[:, 3] = drawn[np.sort(first)[:count]]
    return keys


def packets(sources: Values, numbers: Values) -> list[bytes]:
    """Return packets of users to h3 with these source addresses and IPv4 identifications."""
    ends = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:03")
    return [
        bytes(ends / IP(src=source, dst="10.0.0.3", id=number) / UDP(sport=1, dport=2)
              / Raw(bytes(18)))
        for source, number in zip(map(_address, sources.tolist()), numbers.tolist(), strict=True)
    ]  # fmt: skip


def _address(number: int) -> str:
    return ".".join(str(octet) for octet in number.to_bytes(4, "big"))


def key_of(reports: Reports) -> Values:
    """Return the keys of reports (n, 4)."""
    assert reports.fields is not None
    return reports.fields.key


def data_of(reports: Reports) -> Values:
    """Return the first data word of reports (n,)."""
    assert reports.fields is not None
    return np.ascontiguousarray(reports.fields.words[:, 0])


def settings(folder: str, sizes: Sizes, copies: Sequence[int], rings: Sequence[int],
             drops: Sequence[int]) -> list[Setting]:  # fmt: skip
    """Return the settings of all cases, for both sides."""
    parameters = {
        "keys": copies, "increments": (0, 1), "lists": (0,), "wrap": rings, "cards": (0,),
        "immediate": (0,), "resync": drops, "repeated": (10,), "mixed": (0,), "reporter": (0, 1),
        "nacks": (0,), "reporters": (0,),
    }  # fmt: skip
    return [
        Setting(kind, side, folder, sizes, parameter)
        for kind, values in parameters.items()
        for parameter in values
        for side in (PROTOTYPE, OURS)
    ]
