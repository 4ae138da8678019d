"""Many flows over a backhaul: every value is exact, and unknown values never count as exact."""

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scripts import module, run

from controllers.ampm.collector import BlockReport
from controllers.ampm.records import PointRecord
from telemark.traffic.flows import Flow
from topologies.leaf_spine import Backhaul

scale = module("ampm_scale")
measure_losses = module("experiments.shared.ampm.scale")


@pytest.mark.parametrize("switches", sorted(scale.BACKHAULS))
def test_a_backhaul_is_a_tree_of_so_many_switches(switches: int) -> None:
    access, aggregation = scale.BACKHAULS[switches]
    topo = Backhaul(access=access, aggregation=aggregation)
    assert len(topo.switches()) == switches
    assert len(topo.hosts()) == access + 1
    assert len(topo.links()) == switches + access  # the links of a tree, and the link of the server
    assert len(topo.uplinks) == switches
    links = {frozenset(link) for link in topo.links()}
    for host, path in topo.paths.items():
        nodes = [host, *path, topo.server]
        assert all(frozenset(pair) in links for pair in pairwise(nodes))
    below = np.bincount([int(path[1][1:]) for path in topo.paths.values()])[2:]
    assert below.max() - below.min() <= 1


@pytest.mark.parametrize(("access", "aggregation"), [(0, 0), (3, 4), (3, 0), (2**16, 1)])
def test_a_backhaul_that_cannot_be_is_refused(access: int, aggregation: int) -> None:
    with pytest.raises(ValueError, match="access switches"):
        Backhaul(access=access, aggregation=aggregation)


def test_every_account_is_exact(tmp_path: Path) -> None:
    few = ("--switches", "5", "20", "--flows", "17", "--blocks", "2", "--seeds", "1")
    done = run("ampm_scale", *few, "--time", "virtual", "--rate", "50", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["loss_values"]) for row in rows[::2]] == [17 * 6, 17 * 6]
    assert all(row["wrong"] == "0" and int(row["lost"]) > 0 for row in rows)
    assert (tmp_path / "ampm_scale.png").stat().st_size > 10_000


def test_unknown_counts_are_not_losses() -> None:
    topo = Backhaul(access=1, aggregation=1)
    points = {point for pair in measure_losses.path_segments(topo.paths["h2"]) for point in pair}
    known = {point: PointRecord(3, packets=9) for point in points}
    gone = {**known, next(point for point in points if point.switch == "s1"): None}
    reports = [BlockReport(3, {0: known}, []), BlockReport(4, {0: gone}, ["s1 is away"])]
    packets, losses = measure_losses.measured_losses(topo, [Flow(0, "h2", "h1", 1, 1)], reports)
    assert packets.tolist() == [[9, 9]]
    assert losses[0, :, 0].tolist() == [0, 0, 0]
    assert sorted(losses[0, :, 1].tolist()) == [measure_losses.UNKNOWN, 0, 0]
