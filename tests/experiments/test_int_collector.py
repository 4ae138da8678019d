"""The experiment on the INT collector: search for the max rate, and detection of lost reports."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from decoding import datagrams
from scripts import module

from collectors.int.decoder import Decoder, Encoding
from experiments.shared.int import replay
from experiments.shared.int.replaying import Shape, Taken

SHAPE = Shape(10, 5, 100)
ALL_CAME = Taken(
    sent=101, received=101, in_gaps=0, kernel_drops=0, misread=0, reports=1010, sent_per_s=1000,
    seconds=0.1, user_s=0.01, system_s=0.01, stored_bytes=0,
)  # fmt: skip
experiment = module("int_collector")


def found(capacity: float, max_sent: float = 1e9, steps: int = 3) -> tuple[list[float], float]:
    """Return the tried rates and the highest rate without loss.

    The collector has this capacity, and the sender has this rate, both in reports/s.
    """
    turns = []

    def take(question: str, shape: Shape, rate: float) -> object:
        rate = min(rate, max_sent)
        busy_s = ALL_CAME.seconds * rate / capacity
        taken = replace(ALL_CAME, sent_per_s=rate / shape.reports, user_s=busy_s, system_s=0)
        turns.append(experiment.Turn(question, shape, taken))
        return turns[-1]

    experiment.search(take, SHAPE, (1e5, 2e5, 4e5), steps)
    return [turn.offered for turn in turns], experiment.loss_free(turns)[SHAPE.text]


def test_the_highest_rate_without_loss_is_searched() -> None:
    assert found(260e3) == ([1e5, 2e5, 4e5, 3e5, 2.5e5, 2.75e5], 2.5e5)
    assert found(1e6) == ([1e5, 2e5, 4e5], 4e5)
    assert found(1e6, max_sent=1.5e5) == ([1e5, 1.5e5], 1.5e5)


@pytest.mark.parametrize(
    ("wrong", "failed"),
    [
        ({"received": 100}, "datagrams neither received nor in a gap (max per round)"),
        ({"received": 100, "in_gaps": 1},
         "datagrams in gaps, not dropped by the kernel (max per round)"),
        ({"misread": 1}, "wrong reports, hops and flows"),
    ],
)  # fmt: skip
def test_what_is_lost_unseen_is_found_out(wrong: dict[str, int], failed: str) -> None:
    good = [
        experiment.Turn(
            "rate", replace(SHAPE, reports=reports), replace(ALL_CAME, reports=101 * reports)
        )
        for reports in (1, 10)
    ]
    assert [check.name for check in experiment.make_checks(good) if not check.passed] == []
    bad = replace(good[0], taken=replace(good[0].taken, **wrong))
    assert [c.name for c in experiment.make_checks([bad, *good]) if not c.passed] == [failed]


@pytest.mark.parametrize(("reports", "hops", "flows"), [(10, 5, 10), (7, 8, 1000), (1, 1, 5000)])
def test_what_is_replayed_is_what_was_asked_for(reports: int, hops: int, flows: int) -> None:
    rows = replay.datagrams(reports, hops, flows)
    assert rows.shape[1] <= 1472
    rows[:, 0] = 2 << 4  # version, which the sender writes with the sequence number
    decoder = Decoder(Encoding(port=replay.INT_PORT))
    parts = [*decoder.decode(datagrams([bytes(row) for row in rows], 0, 1000))]
    assert not decoder.parse_errors
    decoded = np.concatenate([part.reports for part in parts])
    assert len(decoded) == len(rows) * reports
    assert set(decoded["hops"]) == {hops}
    assert len(np.unique(decoded["flow"])) == flows


TURN = """
import sys
from pathlib import Path
from experiments.shared.int.replaying import Hosts, Shape
with Hosts(Path({folder!r})) as hosts:
    print(hosts.take(Shape(10, 5, 100), 5000, 0.2))
"""


def test_a_turn_over_a_veth(tmp_path: Path) -> None:
    script = TURN.format(folder=str(tmp_path))
    done = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", script], capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    taken = eval(done.stdout, {"Taken": Taken})
    # the number depends on the sender, which may starve on a loaded machine
    assert taken.sent == taken.received > 0
    assert (taken.in_gaps, taken.kernel_drops, taken.misread) == (0, 0, 0)
    assert taken.reports == 10 * taken.received
    assert taken.user_s > 0
