"""The number of writes per report at the collector, in virtual time; deviations are detected.

The expected number is N for Key-Write, 1/B for Append and 1/5 for Postcarding.
"""

import argparse
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scripts import EXPERIMENTS, module
from virtual_networks import virtually

from collectors.dta.packets import Append, KeyWrite, Postcard
from collectors.roce.endpoint import Counts
from collectors.roce.native import Reason
from experiments.shared.roce import interleaved_rounds, offered
from experiments.shared.roce.rounds import Round
from minip4.native.build import program
from telemark.errors import TestbedError
from telemark.results.report import Report
from telemark.session.run import Run

experiment = module("dta_throughput")
candidates, costs = (
    module("experiments.shared.dta.candidates"),
    module("experiments.shared.dta.costs"),
)
NOBODY, BY_DTA, BY_CPU = candidates.kinds()
REPORTS = 320  # 20 batches, 64 paths


@pytest.mark.parametrize(
    ("wanted", "missing", "failed"),
    [
        ({"Key-Write 2", "Key-Increment 4", "Append 16", "Postcarding 5"}, 0, set()),
        ({"Key-Write 2", "Append 4", "Append 16"}, 1,
         {"Key-Write 2: executed requests", "Key-Write 2: memory operations per report",
          "Append 4: executed requests", "Append 4: memory operations per report",
          "Append 16: executed requests", "Append 16: memory operations per report"}),
    ],
    ids=["all", "a report missing"],
)  # fmt: skip
def test_operations_of_a_report(
    wanted: set[str], missing: int, failed: set[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    chosen = [case for case in experiment.cases() if case.name in wanted]
    monkeypatch.setattr(experiment, "cases", lambda: chosen)
    whole = experiment.Case.frames
    monkeypatch.setattr(experiment.Case, "frames", lambda *given: whole(*given)[missing:])
    options = argparse.Namespace(
        reports=100, quick=True, rate=5000, program=experiment.PROGRAM, time="virtual"
    )

    async def main(run: Run) -> Report:
        run.target = "minip4"
        report: Report = await experiment.experiment(options, run)
        return report

    report = virtually(tmp_path, main)
    assert options.reports == experiment.SHARE
    assert {check.name for check in report.checks if not check.passed} == failed
    assert {f"{each['primitive']} {each['size']}" for each in report.samples} == wanted


@pytest.mark.parametrize(("reason", "is_fine"), [(Reason.DUPLICATE, True), (Reason.GAP, False)])
def test_refused_probes_are_not_faults(
    reason: Reason, is_fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    translating = module("experiments.shared.dta.translator_setup")
    accounting = SimpleNamespace(checks=lambda _: [])
    fake = SimpleNamespace(from_network=lambda *_: accounting)
    monkeypatch.setattr(translating, "PacketAccounting", fake)
    counts = Counts(Counter(WRITE_ONLY=7), Counter({reason.name: 2}))
    net = SimpleNamespace(applications=[SimpleNamespace(result=SimpleNamespace(counts=counts))])
    assert all(check.passed for check in translating.checks("some", net, 7)) == is_fine


def words_of(mode: str) -> tuple[Any, list[Any], offered.Writes]:
    """Return a report of a primitive, the words that fill each report, and the expected writes."""
    keys, data = candidates.keys_and_data(REPORTS)
    if mode == "Append":
        return Append(), [np.zeros(REPORTS, np.uint32), data], candidates.batches(data)
    if mode == "Postcarding":
        path, hop = np.divmod(np.arange(REPORTS), candidates.HOPS)
        first = (1 << 24 | hop << 16 | candidates.HOPS << 8).astype(np.uint32)
        return Postcard(), [first, *keys[path].T, data], candidates.paths(keys, data)
    return KeyWrite(data=[0]), [*keys.T, data], candidates.key_writes(keys, data)


@pytest.mark.parametrize("mode", ["Key-Write", "Append", "Postcarding"])
def test_the_writes_are_those_that_a_translator_makes_of_the_reports(
    mode: str, tmp_path: Path
) -> None:
    """The expected writes are those that a translator makes of the same reports.

    Both give the same memory of the collector and the same number of writes.
    """
    report, words, writes = words_of(mode)
    stores: Mapping[str, Callable[[range], Any]] = {
        "Key-Write": lambda over: experiment.KeyWriteStore(1, len(writes.records), sessions=over),
        "Append": lambda over: experiment.ListStore(16, len(writes.records), 1, over[0]),
        "Postcarding": lambda over: experiment.PostcardStore(len(writes.records), sessions=over),
    }
    area = experiment.Area(writes.records.dtype, len(writes.records), stores[mode])

    async def main(run: Run) -> Any:
        run.target = "minip4"
        async with experiment.translating(run, "some", [area]) as running:
            await running.send(experiment.filled(report, words), 5000)
        return running.net.applications[0].result

    result = virtually(tmp_path, main)
    assert result.records[0].tobytes() == writes.records.tobytes()
    assert result.counts.accepted.total() == len(writes.places) == REPORTS // writes.reports


def kept(how: str, text: str) -> list[int]:
    """Run keep_*.c on 12,000 reports; return the numbers that the C code `text` prints per entry.

    The last word of a report is its number. The reports use 5,000 keys in turn.
    """
    keys, _ = candidates.keys_and_data(5000)
    sent = candidates.datagrams(keys[np.arange(12_000) % 5000], np.arange(12_000, dtype=np.uint32))
    source = EXPERIMENTS / "shared" / "roce" / "c" / f"keep_{how}.c"
    main = """
        int main(void) {
            uint8_t report[KEY_WRITE_BYTES];
            for (uint64_t n = 0; fread(report, sizeof report, 1, stdin) == 1; n++)
                keep(report, n);
            for (unsigned at = 0; at < ENTRIES; at++) { %s }
        }
    """
    tool = program([], f'#include <stdio.h>\n#include "{source}"\n' + main % text)
    done = subprocess.run([tool], input=b"".join(sent.payloads), capture_output=True, check=True)
    return [int(word) for word in done.stdout.split()]


def test_a_hash_insert_keeps_the_last_value_of_each_key() -> None:
    text = r"""
        const uint8_t *v = entries[at].value;
        if (entries[at].is_used) printf("%u\n", (unsigned)(v[0] << 24 | v[1] << 16 | v[2] << 8 | v[3]));
    """  # noqa: E501
    last = [n + 5000 * ((11_999 - n) // 5000) for n in range(5000)]
    assert sorted(kept("values", text)) == sorted(last)


def test_a_log_has_all_reports_of_a_key_from_its_index_on() -> None:
    text = r"""
        for (unsigned n = entries[at].last; n; n = reports[n - 1].before) {
            const uint8_t *v = reports[n - 1].value;
            printf("%u\n", memcmp(reports[n - 1].key, entries[at].key, KEY) ? 99999 : v[2] << 8 | v[3]);
        }
    """  # noqa: E501
    assert sorted(kept("log", text)) == list(range(12_000))


def some_costs(
    wrong: Mapping[str, Any] | None = None, noise: tuple[float, ...] = (1, 7, 0.9)
) -> Any:
    """Return rounds with the same costs, which are multiplied by a factor per round.

    `wrong` has wrong values for Key-Write in each round.
    """

    def turn(kind: interleaved_rounds.Kind, factor: float) -> interleaved_rounds.Turn:
        own_ns = {**dict.fromkeys(BY_DTA, 300), **dict.fromkeys(BY_CPU, 600)}.get(kind, 0)
        made = interleaved_rounds.Turn(kind.name, 0, 100, 1.0, 100 if kind.is_there else 0, 0, 0,
                          factor * (1000 if own_ns else 800), factor * own_ns, 0.0)  # fmt: skip
        return made._replace(**(wrong or {})) if kind is BY_DTA[0] else made

    everybody = [NOBODY, *BY_DTA, *BY_CPU]
    rounds = [Round([turn(kind, factor) for kind in everybody], NOBODY) for factor in noise]
    return costs.Costs(rounds, BY_DTA, BY_CPU, 1.0)


def test_the_cost_of_a_report_is_its_share_of_a_write() -> None:
    checks = costs.make_checks(some_costs())
    wanted = [500 / 800, 500 / 16 / 800, 500 / 5 / 800]
    assert [check.measured for check in checks[:3]] == pytest.approx(wanted)
    assert all(check.passed for check in checks)
    assert some_costs().by_round()["DTA: Append, 16 in a batch"][1] == pytest.approx(7 * 500 / 16)


@pytest.mark.parametrize(
    ("wrong", "failed"),
    [
        ({"received": 99}, "CPU time: frames neither received nor counted as dropped"),
        ({"wrong": 1}, "CPU time: wrong records in memory"),
        ({"collector_ns": 500},
         "CPU time per report, DTA: Key-Write (normalized to hash insert, UDP)"),
    ],
)  # fmt: skip
def test_high_costs_and_wrong_results_fail(wrong: dict[str, int], failed: str) -> None:
    checks = costs.make_checks(some_costs(wrong, (1, 1, 1)))
    assert [check.name.startswith(failed) for check in checks if not check.passed] == [True]


def test_drops_of_a_busy_machine_make_the_run_invalid() -> None:
    with pytest.raises(TestbedError, match=r"run invalid: the kernel dropped 10% .* Key-Write"):
        costs.make_checks(some_costs({"received": 90, "dropped": 10}))
