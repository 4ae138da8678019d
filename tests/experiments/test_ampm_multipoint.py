"""Multipoint marking on fabrics: losses are exact, and a switch that miscounts is detected."""

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scripts import failed_checks, faulty_program, module, run, samples

from controllers.ampm.clusters import Cluster
from controllers.ampm.collector import BlockReport
from controllers.ampm.records import Point, PointRecord
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Multipoint, WatchedFlow
from telemark.errors import TestbedError
from telemark.traffic.flows import Flow

multipoint = module("experiments.shared.ampm.multipoint")
ampm_multipoint = module("experiments.ampm_multipoint")
measurement = module("experiments.shared.ampm.measurement")
FEW = ("--time", "virtual", "--flows", "8", "--rate", "160", "--blocks", "2", "--seeds", "1",
       "--jobs", "1")  # fmt: skip


def test_every_loss_is_exact(tmp_path: Path) -> None:
    done = run("ampm_multipoint", *FEW, "--loss", "0.2", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    assert all(row["wrong_blocks"] == "0" for row in rows)
    for monitoring, bad_links in (("clusters", "4"), ("link-by-link", "1")):
        of_tree = [row for row in rows if row["fabric"] == "fat-tree"
                   and row["monitoring"] == monitoring]  # fmt: skip
        worst = max(of_tree, key=lambda row: int(row["lost"]))
        assert worst["inputs"] in ("s17 s18", "s17")
        assert worst["links"] == bad_links
    assert (tmp_path / "ampm_multipoint.png").stat().st_size > 10_000


def test_a_switch_that_miscounts_is_detected(tmp_path: Path) -> None:
    count = "arrivals.count("
    faulty = f"if (standard_metadata.ingress_global_timestamp[5:4] != 0) {count}"
    program = faulty_program(tmp_path, "ampm.p4", count, faulty, "ampm/routed.p4")
    options = ("--fabrics", "leaf-spine", "--program", program, "--out", str(tmp_path / "out"))
    done = run("ampm_multipoint", *FEW, *options)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "leaf-spine, 8 flows, clusters: wrong loss values (cluster, block)" in failed_checks(
        tmp_path / "out"
    )


def test_a_link_may_lose_all_packets_of_a_flow(tmp_path: Path) -> None:
    options = ("--fabrics", "leaf-spine", "--loss", "1", "--out", str(tmp_path))
    done = run("ampm_multipoint", *FEW, *options)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_a_flow_that_may_lose_all_packets_by_chance_is_allowed_to() -> None:
    topo, schedule = multipoint.make_topo("leaf-spine", 0.0, 0.0), Schedule(2**18)
    for loss, allowed in ((0.0, False), (0.5, False), (0.9, True), (1.0, True)):
        options = Namespace(rate=100, blocks=3, loss=loss)  # 105 packets per flow
        flows = ampm_multipoint.make_flows(topo, 2, options, schedule)
        assert [flow.allow_total_loss for flow in flows] == [allowed] * 2


def test_too_few_packets_for_samples_of_delays_are_refused() -> None:
    few = Namespace(time="virtual", flows=[2, 8], rate=100, blocks=12, block_us=2**18)
    with pytest.raises(TestbedError, match="629 packets in 12 blocks of 262144 us: expected at"):
        ampm_multipoint.reject_few_packets(few)
    ampm_multipoint.reject_few_packets(Namespace(**{**vars(few), "blocks": 13}))
    ampm_multipoint.reject_few_packets(Namespace(**{**vars(few), "time": "real"}))


A, B, C = (Point(name, "departures") for name in "abc")
FLOW = WatchedFlow(multipoint.ALL, "10.0.0.1", "10.0.0.2")


@pytest.mark.parametrize("separate", [False, True])
def test_unknown_blocks_have_no_loss(separate: bool) -> None:
    links = [Cluster(frozenset({(A, B)})), Cluster(frozenset({(A, C)}))]
    # If each flow is watched separately, all packets take the same path: here to b.
    known: dict[Point, PointRecord | None]
    known = {A: PointRecord(4, 9), B: PointRecord(4, 7), C: PointRecord(4, 0)}
    reports = [BlockReport(4, {0: known}, []), BlockReport(5, {0: {**known, B: None}}, ["away"])]
    whole = Cluster(frozenset({(A, B), (A, C)}))
    plan = multipoint.Plan({FLOW: (["a"], [], [])}, links if separate else [whole], separate)
    graph = {Point("a", "arrivals"): [A], A: [B, C], B: [], C: []}
    known[Point("a", "arrivals")] = PointRecord(4, 9)
    if separate:
        plan.clusters.insert(0, Cluster(frozenset({(Point("a", "arrivals"), A)})))
    losses = multipoint.measured_losses(plan, graph, reports)
    assert losses[:, 0].tolist() == ([0, 2, 0] if separate else [2])
    assert np.all(losses[:, 1] == multipoint.UNKNOWN)


@pytest.mark.parametrize(("block_b", "expected"), [
    ((0, 0), [[0, 0], [multipoint.UNKNOWN, 0], [multipoint.UNKNOWN, 0]]),
    ((0, 2), [[0, 0], [4, -2], [0, 0]]),
])  # fmt: skip
def test_a_flow_that_loses_all_packets_shows_no_path(
    block_b: tuple[int, int], expected: list[list[int]]
) -> None:
    """A flow sends 4 packets in one block, 0 in the next, to b or c. Packets at b show its path."""
    start = Point("a", "arrivals")
    graph = {start: [A], A: [B, C], B: [], C: []}
    links = [Cluster(frozenset({link})) for link in ((start, A), (A, B), (A, C))]
    reports = [
        BlockReport(block, {0: {start: PointRecord(block, sent), A: PointRecord(block, sent),
                                B: PointRecord(block, at_b), C: PointRecord(block, 0)}}, [])
        for block, sent, at_b in zip((4, 5), (4, 0), block_b, strict=True)
    ]  # fmt: skip
    plan = multipoint.Plan({FLOW: (["a"], [], [])}, links, separate=True)
    assert multipoint.measured_losses(plan, graph, reports).tolist() == expected


def test_a_plan_measures_only_at_its_points() -> None:
    plan = multipoint.Plan({FLOW: (["s1"], ["s4"], ["s2", "s3"])}, [])
    assert plan.measuring == {"s1", "s2", "s3", "s4"}
    hops = {name: object() for name in plan.measuring}
    path = plan.watched(hops)[FLOW]
    assert isinstance(path, Multipoint)
    assert [*path] == [hops[name] for name in ("s1", "s2", "s3", "s4")]


def test_a_flow_whose_packets_are_all_lost_has_a_path_to_its_destination(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topo = multipoint.make_topo("leaf-spine", 0.0, 0.0)
    flows = [Flow(n, "h1", f"h{n}", 1, 1) for n in (5, 6, 7, 8)]
    nothing = {flow.id: SimpleNamespace(sequence=[]) for flow in flows}
    monkeypatch.setattr(multipoint.pcap, "read_flows", lambda *_: nothing)
    net = SimpleNamespace(capture=lambda *_: None)
    paths = multipoint.read_paths(net, multipoint.graph_of(topo, flows), topo, flows)
    assert [paths[flow][-1] for flow in flows] == ["s3", "s3", "s4", "s4"]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_run_without_delays_fails(reverse: bool) -> None:
    some, none = np.array([0.1]), np.array([])
    runs = [
        SimpleNamespace(
            case=SimpleNamespace(name="case"), wrong=0, problems=[],
            delays=ampm_multipoint.Delays(errors, none, errors, 0),
            accounting=SimpleNamespace(checks=lambda _: []),
        )
        for errors in (some, none)
    ]  # fmt: skip
    checks = [ampm_multipoint.make_checks(m, virtual=True) for m in runs]
    if reverse:
        checks.reverse()
    worst = measurement.worst(check for run_checks in checks for check in run_checks)
    failed = [check.name for check in worst if not check.passed]
    assert failed == [f"case: max error of {name} delay (us)" for name in ("mean", "sample")]
