"""Identification of the flow that filled the longest queue.

The flow to identify is the one whose rate increased most, not the largest flow.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scripts import module

from collectors.int.native import HOP, REPORT

culprit = module("experiments.shared.int.culprit")


def seen(rows: list[tuple[int, int, int, int, int, int]]) -> np.ndarray:
    return np.array(rows, culprit.SIGHTING)


def sighting(time_us: int, occupancy: int, flow: int, node: int = 3, bits: int = 1000):
    return 1000 * time_us, node, 2, occupancy, flow, bits


def test_a_large_flow_is_not_guilty_where_another_grew() -> None:
    usual = [sighting(at, 0, 7, bits=9000) for at in range(0, 1000, 10)]
    burst = [sighting(1000 + at, at + 1, flow, bits=bits)
             for at in range(0, 100, 10) for flow, bits in ((7, 9000), (8, 4000))]  # fmt: skip
    after = [sighting(2000 + at, 5, 9, bits=90_000) for at in range(100)]
    elsewhere = [sighting(at, 50, 6, node=2, bits=99_000) for at in range(1000)]
    rows = seen(sorted(usual + burst + after + elsewhere))
    found = culprit.Culprit.of(rows)
    assert (found.node, found.egress, found.flow) == (3, 2, 8)
    # packets in this queue only, up to the time of its maximum length
    assert {*found.arrived["flow"].tolist()} == {7, 8}
    assert found.more_bps[8] > 3e8
    assert abs(found.more_bps[7]) < 2e8


def test_a_queue_that_was_never_empty_has_no_usual_traffic() -> None:
    found = culprit.Culprit.of(seen([sighting(at, at + 1, 7) for at in range(5)]))
    assert (found.flow, len(found.usual), len(found.arrived)) == (7, 0, 5)


def test_sightings_are_of_each_hop_in_order_of_time() -> None:
    reports, hops = np.zeros(2, REPORT), np.zeros(4, HOP)
    reports["hops"], reports["first_hop"] = (1, 3), (3, 0)
    reports["key"]["destination_port"], reports["ip_length"] = (5001, 5002), (100, 200)
    hops["node"], hops["ingress_ns"] = (1, 2, 3, 9), (10, 20, 30, 15)
    rows = culprit.sightings(SimpleNamespace(reports=reports, hops=hops))
    assert rows["node"].tolist() == [1, 9, 2, 3]
    assert rows["flow"].tolist() == [5002, 5001, 5002, 5002]
    assert rows["bits"].tolist() == [1600, 800, 1600, 1600]


@pytest.mark.parametrize("occupancy", [0, 3])
def test_a_single_packet_is_the_culprit(occupancy: int) -> None:
    assert culprit.Culprit.of(seen([sighting(1, occupancy, 7)])).flow == 7
