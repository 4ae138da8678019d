"""Comparison of probes, INT, IOAM and AM-PM, in virtual time: what each method finds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import oam_compare
import pytest
from oam_compare import Found
from scripts import run, samples

from experiments.shared.oam.incidents import (
    Incident,
    Kind,
    Pace,
    cross_flows,
    data_flows,
    plan,
)
from experiments.shared.oam.run import (
    IN_PACKETS,
    MARKINGS,
    MULTIPOINT,
    ONE_BIT,
    PING,
    POSTCARDS,
    PROBES,
    STAMP_1,
    TWO_BITS,
)
from experiments.shared.oam.scores import Score


def test_methods_find_the_incidents_that_they_can_see(tmp_path: Path) -> None:
    done = run("oam_compare", "--time", "virtual", "--rounds", "1", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)

    def located(methods: tuple[str, ...], *kinds: Kind) -> set[str]:
        names = [kind.value for kind in kinds]
        return {row["located"] for row in rows
                if row["method"] in methods and row["incident"] in names}  # fmt: skip

    assert located(POSTCARDS, *Kind) == {"True"}
    assert located(IN_PACKETS, Kind.QUEUE, Kind.SLOW, Kind.REROUTE) == {"True"}
    assert located(IN_PACKETS, Kind.LOSS) == {"False"}
    assert located((ONE_BIT, TWO_BITS), Kind.LOSS) == {"True"}
    assert located((MULTIPOINT,), Kind.LOSS) == {"False"}
    assert located(tuple(MARKINGS), Kind.SLOW, Kind.REROUTE) == {"True"}
    assert (tmp_path / "oam_compare.png").stat().st_size > 10_000


class NoAccounting:
    """Accounting without checks."""

    @staticmethod
    def checks(_: str) -> list[Any]:
        return []


def found(method: str, **changes: Any) -> Found:
    """Return perfect results of a method for one round of incidents."""
    can_see_loss = method not in IN_PACKETS
    one_spine = method in (PING, STAMP_1)

    def perfect(incident: Incident) -> Score:
        is_seen = (can_see_loss or incident.kind is not Kind.LOSS) and (
            not one_spine or incident.spine == "s3"
        )
        names_link = method not in PROBES and (method, incident.kind) != (MULTIPOINT, Kind.LOSS)
        return Score(method, incident, is_seen, is_seen and names_link, 0.1, 0.05, 0.05, 2, 2)

    perfectly = Found(
        method=method, scores=[perfect(each) for each in plan(1, 1, Pace())], spines={"s3", "s4"},
        packets=1000, lost=50, lost_measured=50, lost_located=50, reports=10, added_bytes=0,
        false_alarms=0, delayed=0, wrong_delays=0, missed_delays=0,
        accounting=NoAccounting(),  # type: ignore[arg-type]
    )  # fmt: skip
    return replace(perfectly, **changes)


def without(method: str, name: str, *kinds: Kind) -> list[Score]:
    """Return the scores of a method, in which `name` is False for these kinds of incidents."""
    return [replace(each, **{name: False}) if each.incident.kind in kinds else each
            for each in found(method).scores]  # fmt: skip


def everywhere(method: str) -> list[Score]:
    return [replace(each, detected=True) for each in found(method).scores]


@pytest.mark.parametrize("method", oam_compare.METHODS)
def test_perfect_results_pass(method: str) -> None:
    assert not [check for check in oam_compare.make_checks(found(method)) if not check.passed]


@pytest.mark.parametrize(
    ("method", "changes", "failed"),
    [
        (STAMP_1, {"scores": everywhere(STAMP_1)}, "spines with detected incidents"),
        ("INT-XD", {"lost_measured": 49}, "lost packets detected"),
        ("IOAM DEX", {"lost_located": 49}, "lost packets located"),
        ("AM-PM, 1 bit", {"scores": without("AM-PM, 1 bit", "located", Kind.LOSS)},
         "incidents with loss located (fraction)"),
        ("IOAM trace", {"scores": without("IOAM trace", "located", Kind.REROUTE)},
         "incidents located: reroute (fraction)"),
        ("INT-MD", {"false_alarms": 1}, "false alarms"),
        ("IOAM DEX", {"missed_delays": 1}, "late packets missed"),
        ("ping", {"wrong_delays": 1}, "delays that differ from ground truth"),
        (MULTIPOINT, {"lost_located": 49}, "lost packets located"),
        ("ping", {"spines": {"s3"}}, "spines that data flows use"),
    ],
)  # fmt: skip
def test_a_wrong_result_fails_its_check(method: str, changes: dict[str, Any], failed: str) -> None:
    checks = oam_compare.make_checks(found(method, **changes))
    assert [check.name for check in checks if not check.passed] == [f"{method}: {failed}"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--flows", "1"), "--flows 1: each spine needs a flow; use at least 2"),
        (("--rate", "6251"), "--rate 6251: during a reroute, one link carries the reports of two "
         "switches about all packets; use at most 6250"),
        (("--probes", "1.9"), "--probes 1.9: each incident of 0.5 s needs a probe; "
         "use at least 2"),
    ],
)  # fmt: skip
def test_unsuitable_options_are_rejected(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = run("oam_compare", "--time", "virtual", "--out", str(tmp_path), *options)
    assert done.returncode == 2
    assert done.stderr.strip() == f"oam_compare: error: {message}"


def test_flows_of_incidents_have_other_ids_than_data_flows() -> None:
    pace = Pace()
    flows = [*data_flows(500, 10_000, 1.0), *cross_flows(plan(1, 1, pace), pace)]
    assert len({flow.id for flow in flows}) == len(flows)


def test_errors_are_means_over_the_incidents_of_the_kind() -> None:
    scores = [replace(each, loss=0.01 if each.incident.spine == "s3" else 0.05)
              for each in found("INT-XD").scores]  # fmt: skip
    assert found("INT-XD", scores=scores).loss_error() == pytest.approx(0.02)
    assert np.isclose(found("INT-XD").delay_error_ms(), 0)
