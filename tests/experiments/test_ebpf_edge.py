"""Host edges and switches agree on one flow; errors of one of them are detected."""

import asyncio
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scripts import failed_checks, faulty_program, module, run, samples

from controllers.ampm.collector import BlockReport
from controllers.ampm.records import Point, PointRecord
from controllers.int.domain import REPORT_PORT
from experiments.shared.ampm.stamps import Handling
from experiments.shared.ampm.truth import NEVER, Truth
from experiments.shared.int.edges import (
    LINKS,
    LOSSY,
    PLACES,
    SWITCHES,
    EdgeReports,
    Outcome,
    all_reported,
    as_switches_had,
    reject_late,
    reject_unreported,
    reports_of_nodes,
)
from experiments.shared.int.marking import SCHEDULE
from experiments.shared.int.reports import OF_GROUP, OF_HOP, OF_REPORT, Kept
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.accounting.pcap import MAGIC_NS
from telemark.errors import TestbedError
from telemark.traffic.flows import RECEIVED, SENT, Flow, FlowRecord

experiment = module("ebpf_edge")
BLOCKS, EACH = 6, 10  # the first block and the last two are not complete
COUNT = BLOCKS * EACH
FLOW = Flow(1, "h1", "h2", 100, COUNT)
LOST = {("s1", "s2"): [25], ("s3", "h2"): [23, 37]}
POINTS = [Point(place, name) for place in SWITCHES for name in ("arrivals", "departures")]
# time of a packet at each point, in ns after the start of the send call; links take 0.5 ms
AT_NS = dict(zip(POINTS, (12_345, 40_000, 550_000, 560_000, 1_070_000, 1_090_000), strict=True))
HANDED_NS, RECEIVED_NS, EDGE_NS, KNOWN_NS = 30_000, 1_600_500, 1_600_900, 1_650_000


def times(since_ns: int, gone: set[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return the times of packets at a point; they reach it `since_ns` after the send call.

    `gone`: packets lost before the point.
    """
    block_ns = 1000 * SCHEDULE.block_us
    found = 10**9 + np.arange(COUNT) * block_ns // EACH + since_ns
    found[sorted(gone)] = NEVER
    return found


def outcome() -> Outcome:
    """Return the outcome of a flow whose packets arrive, except the packets in LOST."""
    first = {25}
    gone = {"h1": set[int](), "s1": set[int](), "s2": first, "s3": first, "h2": {23, 25, 37}}
    sent, received = np.zeros(COUNT, SENT), np.zeros(COUNT - 3, RECEIVED)
    sent["sequence"] = np.arange(COUNT)
    received["sequence"] = [n for n in range(COUNT) if n not in gone["h2"]]
    block = np.arange(COUNT) // EACH
    pulse = np.arange(COUNT) % EACH == 5  # the pulse of the third block is lost on link s1-s2
    at_ns = {point: times(AT_NS[point], gone[point.switch]) for point in POINTS}
    truth = Truth(
        SWITCHES, block, pulse, at_ns, times(0, set()), times(HANDED_NS, set()),
        times(RECEIVED_NS, gone["h2"]),
    )  # fmt: skip
    reported = {
        switch: EdgeReports(*(at_ns[switch, name] // 1000 for name in ("arrivals", "departures")),
                     times(KNOWN_NS, gone[switch]) // 1000, 0)
        for switch in SWITCHES
    }  # fmt: skip
    for place, stamp_ns in (("h1", 10_000), ("h2", EDGE_NS)):
        stamps_us = times(stamp_ns, gone[place]) // 1000
        reported[place] = EdgeReports(stamps_us, stamps_us, times(KNOWN_NS, gone[place]) // 1000, 0)
    calls = {name: [times(AT_NS[Point(name, "departures")] + after, gone[far])
                    for after in (-1, 505_000, 511_000)]
             for (name, far) in LINKS[1:]}  # fmt: skip
    return Outcome(
        blocks=[report(number, reported, gone, pulse) for number in range(BLOCKS)],
        reported=reported,
        truth=truth,
        handling={name: Handling(*each) for name, each in calls.items()},
        lost={link: np.array(LOST.get(link, []), np.int64) for link in LINKS},
        record=FlowRecord(FLOW, sent, received, 0, 0, 0, 0),
        accounting=PacketAccounting(
                COUNT, COUNT - 3, COUNT, COUNT - 3, {"s1-eth2": 1, "s3-eth2": 2},
                                    {}, 0, 0, 0, {}, 0, []),
    )  # fmt: skip


def report(
    number: int,
    reported: dict[str, EdgeReports],
    gone: dict[str, set[int]],
    pulse: "np.ndarray[tuple[int]]",
) -> BlockReport:
    """Return the records of a block, as the controller reads them."""
    own = range(number * EACH, (number + 1) * EACH)
    (pulsed,) = (n for n in own if pulse[n])
    records: dict[Point, PointRecord | None] = {}
    for place in PLACES:
        there = [n for n in own if n not in gone[place]]
        for name, stamps_us in zip(("arrivals", "departures"), reported[place][:2], strict=True):
            has_pulse = int(pulsed in there)
            records[Point(place, name)] = PointRecord(
                number, len(there), pulses=has_pulse, pulse_us=has_pulse * int(stamps_us[pulsed])
            )
    return BlockReport(number, {FLOW.id: records}, [])


def failing(found: Outcome) -> set[str]:
    checks = experiment.make_checks("x", found, experiment.collect_results(found, 5))
    return {check.name for check in checks if not check.passed}


def shifted(place: str, by_us: int) -> Callable[[Outcome], Outcome]:
    """Return a function that adds a clock error to the postcards of a place."""

    def change(found: Outcome) -> Outcome:
        arrived_us, left_us, known_us, beyond = found.reported[place]
        moved = (np.where(each == NEVER, NEVER, each + by_us) for each in (arrived_us, left_us))
        off = EdgeReports(*moved, known_us, beyond)
        return replace(found, reported={**found.reported, place: off})

    return change


def recorded(place: str, **more: int) -> Callable[[Outcome], Outcome]:
    """Return a function that changes one record of a place."""

    def change(found: Outcome) -> Outcome:
        records = found.blocks[3].records[FLOW.id]
        point = Point(place, "departures")
        values = {name: getattr(records[point], name) + by for name, by in more.items()}
        records[point] = replace(records[point], **values)  # type: ignore[type-var]
        return found

    return change


def unreported(found: Outcome) -> Outcome:
    for array in found.reported["s2"][:3]:
        array[30] = NEVER
    return found


ERROR = "x, AM-PM: max error of a count per block and place (packets)"
TO_LOG = "x, AM-PM: max loss error per block and link (packets)"
UNREPORTED = "x, INT-XD: packets with missing or false postcards"
ELSEWHERE = "x, INT-XD: losses inconsistent with link logs"
BEYOND = "x, INT-XD: postcards of unknown packets, or duplicates"
CAPTURED = "x: switch timestamps inconsistent with captures"
PULSES = "x: pulse timestamps inconsistent with postcards"
FIRST, SECOND, THIRD, LAST = (
    f"x, {near} to {far}: packets with a timestamp out of bounds" for near, far in LINKS
)


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        (lambda found: found, set()),
        (recorded("h2", packets=1), {ERROR, TO_LOG}),
        (recorded("h1", packets=-1), {ERROR, TO_LOG}),
        (recorded("s2", packets=1), {ERROR, TO_LOG}),
        (recorded("h1", pulse_us=-1000), {PULSES}),
        (recorded("h2", pulse_us=-1000), {PULSES}),
        (recorded("s3", pulse_us=1), {PULSES}),
        (recorded("h2", pulses=1), {PULSES}),
        (shifted("h1", -1000), {FIRST}),
        (shifted("h1", 1000), {FIRST}),
        (shifted("h2", -1000), {LAST}),
        (shifted("h2", 50), {LAST}),
        (shifted("s1", -3), {FIRST, CAPTURED, PULSES}),
        (shifted("s2", 1000), {SECOND, THIRD, CAPTURED, PULSES}),
        (lambda found: replace(found, lost={**found.lost, ("s3", "h2"): np.array([23])}),
         {TO_LOG, ELSEWHERE}),
        (lambda found: replace(found, lost={**found.lost, ("s3", "h2"): np.array([23, 36])}),
         {ELSEWHERE}),
        (unreported, {UNREPORTED, ELSEWHERE}),
        (lambda found: replace(found, reported={
            **found.reported, "s1": found.reported["s1"]._replace(beyond=1)
        }), {BEYOND}),
    ],
    ids=["nothing", "edge counts one more", "edge counts one less", "switch counts one more",
         "early mark", "early end of marks", "late switch", "two pulses", "early edge", "late edge",
         "early last edge", "late last edge", "early first switch", "late switch's clock",
         "a log lacks one", "a log has another", "no postcard", "one postcard more"],
)  # fmt: skip
def test_disagreements_fail(change: Callable[[Outcome], Outcome], failed: set[str]) -> None:
    assert failing(change(outcome())) == failed


def test_where_nothing_comes_it_does_not_pass() -> None:
    found = outcome()
    for number in (1, 2):
        for name in ("arrivals", "departures"):
            found.blocks[number].records[FLOW.id][Point("h2", name)] = PointRecord(number)
    assert "x: complete blocks without packets at h2" in failing(found)


def kept(*reported: tuple[int, int, int]) -> Kept:
    """Return reports, given as (node, sequence number, hash of the packet)."""
    groups, reports = np.zeros(len(reported), OF_GROUP), np.zeros(len(reported), OF_REPORT)
    hops = np.zeros(len(reported), OF_HOP)
    for row, (node, sequence, packet) in enumerate(reported):
        groups[row] = node, sequence
        reports["node"][row], reports["packet"][row] = node, packet
        reports["first_hop"][row], reports["time_ns"][row] = row, 9000 + row * 1000
        hops["ingress_ns"][row], hops["egress_ns"][row] = 1000 * sequence, 2000 * sequence
    return Kept(None, groups, reports, hops)


def test_postcards_are_matched_to_packets_by_the_number_of_the_first_edge() -> None:
    nodes = {"h1": 4, "s1": 1}
    found = reports_of_nodes(
        kept((4, 1, 70), (1, 7, 90), (4, 0, 90), (1, 8, 91), (1, 9, 90)), nodes, 3
    )
    assert [*found["h1"].arrived_us] == [0, 1, NEVER]
    assert [*found["h1"].known_us] == [11, 9, NEVER]
    assert found["h1"].beyond == 0
    assert [*found["s1"].left_us] == [18, NEVER, NEVER]
    assert found["s1"].beyond == 2  # one report with an unknown hash, and one duplicate


def test_an_edge_s_postcard_is_known_when_its_switch_has_it(tmp_path: Path) -> None:
    """A postcard of an edge gets the time at which its switch received it.

    The capture has the reports of two edges, and a frame that is not a report.
    """
    frames = [
        (at_us, bytes(34) + struct.pack(">HHHH", 1, port, 16, 0) + struct.pack(">II", number, node))
        for at_us, port, number, node in [
            (5, REPORT_PORT, 2 << 28 | 1 << 22 | 7, 5), (6, REPORT_PORT, 2 << 28 | 7, 4),
            (7, 9, 2 << 28 | 8, 5), (8, REPORT_PORT, 2 << 28 | 1 << 22 | 8, 5),
        ]
    ]  # fmt: skip
    records = [struct.pack("=IIII", 0, at_us * 1000, len(each), len(each)) + each
               for at_us, each in frames]  # fmt: skip
    file = tmp_path / "in.pcap"
    file.write_bytes(struct.pack("=I20x", MAGIC_NS) + b"".join(records))
    net = SimpleNamespace(capture=lambda *_: file)
    reported = kept((5, 7, 70), (1, 7, 70), (4, 7, 70), (5, 8, 71), (5, 9, 72))
    found = as_switches_had(net, reported, {"h1": 4, "h2": 5})  # type: ignore[arg-type]
    assert [*found.reports["time_ns"]] == [5000, reported.reports["time_ns"][1], 6000, 8000, 0]


def test_packets_that_no_hash_tells_apart_make_no_verdict() -> None:
    with pytest.raises(TestbedError, match=r"^two packets have the same 32-bit hash by chance"):
        reports_of_nodes(kept((4, 0, 90), (4, 1, 90)), {"h1": 4}, 2)


def test_pauses_of_the_machine_make_the_run_invalid() -> None:
    found = outcome()
    reject_late(found)
    found.truth.received_ns[40] += 500 * SCHEDULE.block_us
    with pytest.raises(TestbedError, match=r"^run invalid: .*; reduce the load on the machine$"):
        reject_late(found)
    reject_unreported({"h1": SimpleNamespace(without_room=0, unsent=0)})  # type: ignore[dict-item]
    with pytest.raises(TestbedError, match=r"dropped 2 .* send 3; reduce the load on the machine$"):
        reject_unreported({"h1": SimpleNamespace(without_room=2, unsent=3)})  # type: ignore[dict-item]


@pytest.mark.parametrize(("sent", "polls"), [(5, 1), (35, 4), (10_000, 250)])
def test_reports_are_waited_for_as_long_as_they_may_come(sent: int, polls: int) -> None:
    """The function all_reported() waits until all reports were sent to the collector, at most 5 s.

    The function reads the counters every 20 ms. Before each reading, s1 sends ten more reports.
    """
    now_ns, looks = [0], list[int]()

    async def sleep_until(time_ns: int) -> None:
        now_ns[0] = time_ns

    def read_counters() -> dict[str, dict[str, dict[str, int]]]:
        looks.append(0)
        sent_on = 10 * ((len(looks) + 3) // 4)  # each reading reads four counters
        return {"ports": {"2": {"transmitted_packets": 0}, "9": {"transmitted_packets": sent_on}}}

    net = SimpleNamespace(
        switch=lambda _: SimpleNamespace(read_counters=read_counters),
        port=lambda _, far: 9 if far == "collector" else 2,
    )  # fmt: skip
    run_ = SimpleNamespace(clock=SimpleNamespace(now_ns=lambda: now_ns[0], sleep_until=sleep_until))
    asyncio.run(all_reported(net, sent, run_))  # type: ignore[arg-type]
    assert len(looks) == 4 * polls


SHORT = ("--loss", "5", "--blocks", "2")


def test_edges_and_switches_agree(tmp_path: Path) -> None:
    done = run("ebpf_edge", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    lost = {(row["near"], row["far"]) for row in samples(tmp_path) if int(row["lost"])}
    assert lost == {*LOSSY}
    assert (tmp_path / "ebpf_edge.png").stat().st_size > 10_000


def test_a_switch_that_miscounts_is_found_out(tmp_path: Path) -> None:
    program = faulty_program(
        tmp_path, "with_ampm.p4", "arrivals.count(meta.ampm.cell);",
        "if (hdr.ipv4.identification[6:0] != 0) { arrivals.count(meta.ampm.cell); }",
        "int/with_ampm.p4",
    )  # fmt: skip
    done = run("ebpf_edge", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed_checks(tmp_path / "out") == {ERROR.replace("x", "loss 5 %", 1)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--loss", "95"], "--loss 95: only 1 packets per block arrive"),
        (["--rate", "7"], "--rate 7: alternate marking needs a packet"),
        (["--rate", "60000"], "differ only for 65,536"),
        (["--blocks", "0"], "argument --blocks"),
    ],
)
def test_unsupported_options_are_refused(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = run("ebpf_edge", *arguments, "--out", str(tmp_path))
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr.splitlines()[-1]
