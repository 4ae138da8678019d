"""Checks of int_path and int_loss: one change of a correct run makes one check fail.

test_int_path.py and test_int_loss.py show that the checks detect faulty programs.
"""

from argparse import Namespace
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from scripts import EXPERIMENTS, from_file, module
from virtual_networks import virtually

from collectors.int.native import ParseStatus
from telemark.results.report import Check

int_path, int_loss, loss = (
    from_file(EXPERIMENTS / "int_path.py"),
    module("int_loss"),
    module("experiments.shared.int.loss"),
)

Change = tuple[str, Callable[[Any], object]]
"""The name of a check, and what in an outcome makes it fail."""

BLOCK_US, BLOCKS, PERCENT = loss.SCHEDULE.block_us, 2, 5
STEPS = {"ingress_ns": 1000, "egress_ns": -1000, "latency_ns": 1000, "occupancy": 10_000}


def test_each_check_of_int_path_finds_its_own(tmp_path: Path) -> None:
    options = Namespace(program="p4src/int/int.p4", packets=20, rate=500, slower=1, time="virtual")
    outcome = virtually(tmp_path, lambda run: int_path.measure(options, run))
    changes = [*of_reports(), *of_hops(), *of_accounts(), *of_accounting("accounting")]
    each_fails_by_its_own(changes, outcome, int_path.make_checks)


def each_fails_by_its_own(
    changes: list[Change], outcome: Any, make_checks: Callable[[Any], list[Check]]
) -> None:
    """Check that each change makes only its own check fail, and that each check has a change."""
    names = [check.name for check in make_checks(outcome)]
    assert failed(make_checks(outcome)) == []
    assert {*names} == {name for name, _ in changes}
    for name, change in changes:
        changed = deepcopy(outcome)
        change(changed)
        assert failed(make_checks(changed)) == [name]


def failed(checks: list[Check]) -> list[str]:
    """Return the names of the failed checks, without the suffix (s1); see of_accounting()."""
    return [check.name.removesuffix(" (s1)") for check in checks if not check.passed]


def put(what: Any, **values: object) -> None:
    """Set a field of a frozen dataclass."""
    vars(what).update(values)


def of_reports() -> list[Change]:
    def swapped(outcome: Any) -> None:
        received = outcome.record.received
        received[[0, 1]] = received[[1, 0]]

    def unreported(outcome: Any) -> None:
        outcome.reported.is_reported[3] = False

    def twice(outcome: Any) -> None:
        reports = outcome.kept.reports
        put(outcome, kept=outcome.kept._replace(reports=np.append(reports, reports[:1])))

    def malformed(outcome: Any) -> None:
        outcome.kept.findings.parse_errors[ParseStatus(1)] += 1

    def count(what: str) -> Callable[[Any], None]:
        def more(outcome: Any) -> None:
            outcome.kept.findings.sources[what][0] += 1

        return more

    def way(what: str) -> Callable[[Any], None]:
        def another(outcome: Any) -> None:
            outcome.reported.hops[3, 2][what] += 1

        return another

    lacking = "missing report sequence numbers"
    routed = "packets with wrong path"
    return [
        ("packets received in order", swapped),
        ("packets without a report", unreported),
        ("reports", twice),
        *((lacking, count(what)) for what in ("lost", "missing")),
        ("malformed reports", malformed),
        *((routed, way(what)) for what in ("node", "ingress", "egress")),
    ]


def of_hops() -> list[Change]:
    """Return changes of one packet's hop at each switch: the packet that was there longest.

    In other packets, the values may be too small for the change.
    """

    def said(hop: int, field: str) -> Callable[[Any], None]:
        def otherwise(outcome: Any) -> None:
            hops = outcome.reported.hops[:, hop]
            longest = np.argmax(hops["latency_ns"])
            hops[field][longest] = int(hops[field][longest]) + STEPS[field]

        return otherwise

    def sent_late(outcome: Any) -> None:
        outcome.record.sent["sent_ns"][0] += 10**9

    def received_early(outcome: Any) -> None:
        outcome.record.received["received_ns"][0] -= 10**9

    order = "packets with timestamps out of order"
    return [
        *((f"{switch}: max error of {what}", said(hop, field))
          for hop, switch in enumerate(int_path.PATH)
          for what, field in zip(int_path.QUANTITIES, STEPS, strict=True)),
        (order, sent_late), (order, received_early),
    ]  # fmt: skip


def of_accounts() -> list[Change]:
    def took(more_ns: int) -> Callable[[Any], None]:
        def other(outcome: Any) -> None:
            outcome.accounts.whole[0] += more_ns

        return other

    def added_up(what: str) -> Callable[[Any], None]:
        def wrongly(outcome: Any) -> None:
            outcome.kept.findings.flows[0]["path"][0][what]["sum"] += 1000

        return wrongly

    residual = "packets with a residual other than the last link"
    sums = "sum of hop and link latencies in the collector (us)"
    return [
        *((residual, took(more_ns)) for more_ns in (2000, -2000)),
        *((sums, added_up(what)) for what in ("latency_ns", "link_ns")),
    ]


def of_accounting(prefix: str) -> list[Change]:
    def vanished(outcome: Any) -> None:
        put(outcome.accounting, hosts_sent=outcome.accounting.hosts_sent + 1)

    def unbalanced(outcome: Any) -> None:
        outcome.accounting.unbalanced.append("s1")

    def untaken(outcome: Any) -> None:
        put(outcome.accounting, received=outcome.accounting.received - 10**6)

    return [
        (f"{prefix}: unaccounted frames", vanished),
        (f"{prefix}: accounting mismatches (switches, links)", unbalanced),
        (f"{prefix}: unclaimed frames at hosts", untaken),
    ]


def test_each_check_of_int_loss_finds_its_own(tmp_path: Path) -> None:
    flows = loss.make_flows(PERCENT, 2000, BLOCKS)
    outcome = virtually(
        tmp_path, lambda run: loss.measure(flows, PERCENT, BLOCKS, loss.PROGRAM, run)
    )

    def make_checks(outcome: Any) -> list[Check]:
        return int_loss.make_checks(
            "here", outcome, int_loss.collect_results(PERCENT, outcome, flows)
        )

    changes = [*of_blocks(), *of_drop_reports(), *of_accounting("here")]
    each_fails_by_its_own(changes, outcome, make_checks)


def of_blocks() -> list[Change]:
    def in_another_block(outcome: Any) -> None:
        """Move losses to another block at the last point; the total stays the same."""
        for block, more in zip(outcome.blocks, (1, -1), strict=False):
            record = block.records[loss.NUMBER][loss.POINTS[-1]]
            put(record, packets=record.packets + more)

    def not_received(outcome: Any) -> None:
        record = outcome.records[1]
        put(record, received=record.received[1:])

    return [
        ("here, AM-PM: max loss error per block (packets)", in_another_block),
        ("here, AM-PM: total lost packets", not_received),
    ]


def of_drop_reports() -> list[Change]:
    def chosen(outcome: Any) -> np.ndarray:
        """Return the indices of the reports of the switch with an access list."""
        switch = loss.DENIED.segment[0].switch
        return np.flatnonzero(outcome.kept.reports["node"] == outcome.nodes[switch])

    def vanished(outcome: Any) -> None:
        """Remove a report that is neither the first nor the last.

        Lost reports at the ends leave no gap.
        """
        at, kept = chosen(outcome)[5], outcome.kept
        put(outcome, kept=kept._replace(
            reports=np.delete(kept.reports, at), groups=np.delete(kept.groups, at)
        ))  # fmt: skip

    def of_nobody(outcome: Any) -> None:
        kept = outcome.kept
        put(outcome, kept=kept._replace(
            reports=np.append(kept.reports, np.zeros(1, kept.reports.dtype)),
            groups=np.append(kept.groups, np.zeros(1, kept.groups.dtype)),
        ))  # fmt: skip

    def of_one_block(outcome: Any) -> None:
        ours, block = chosen(outcome), outcome.blocks[0].block
        outcome.kept.reports["dscp"][ours] = block & 1
        hops = outcome.kept.reports["first_hop"][ours]
        outcome.kept.hops["ingress_ns"][hops] = 1000 * (block * BLOCK_US + BLOCK_US // 2)

    def lost_unseen(outcome: Any) -> None:
        outcome.kept.findings.gaps["count"][0] += 1

    def report(what: str) -> Callable[[Any], None]:
        def another(outcome: Any) -> None:
            outcome.kept.reports[what][chosen(outcome)[5]] += 1

        return another

    def port(outcome: Any) -> None:
        outcome.kept.hops["ingress"][outcome.kept.reports["first_hop"][chosen(outcome)[5]]] += 1

    def flow(outcome: Any) -> None:
        outcome.kept.reports["key"]["destination_port"][chosen(outcome)[5]] += 1

    def before_all(outcome: Any) -> None:
        outcome.kept.hops["ingress_ns"][outcome.kept.reports["first_hop"][chosen(outcome)[5]]] = 0

    def after_all(outcome: Any) -> None:
        hop = outcome.kept.reports["first_hop"][chosen(outcome)[5]]
        outcome.kept.hops["ingress_ns"][hop] += 100 * 1000 * BLOCK_US

    named = "here, drop reports: wrong port, reason or flow (reports)"
    return [
        ("here, drop reports: max error per cause (packets)", vanished),
        *((named, change) for change in (report("reason"), port, flow, before_all, after_all)),
        ("here, drop reports: reports of packets not dropped", of_nobody),
        ("here, drop reports: blocks with more reports than drops", of_one_block),
        ("here, drop reports: max error of gaps per cause (reports)",
         lost_unseen),
    ]  # fmt: skip
