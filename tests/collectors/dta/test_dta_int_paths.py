"""Paths that INT sinks write: the nodes of long and of short paths are reported."""

import numpy as np
import pytest

from collectors.dta.int_paths import Flag, decode, encode


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([7], [7, -1, -1, -1, -1, -1]),
        ([1, 2, 3], [1, 2, 3, -1, -1, -1]),
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]),
        ([1, 2, 3, 4, 5, 6, 7, 8], [3, 4, 5, 6, 7, 8]),
    ],
)
def test_paths_are_read_from_their_source_on(nodes: list[int], told: list[int]) -> None:
    paths = decode(np.stack([encode(nodes), encode(nodes, Flag.MTU_EXCEEDED | Flag.CONGESTED)]))
    assert paths.hops.tolist() == [len(nodes)] * 2
    assert paths.nodes.tolist() == [told, told]
    assert paths.flags.tolist() == [0, Flag.MTU_EXCEEDED | Flag.CONGESTED]


def test_a_key_without_a_path_has_no_switches() -> None:
    paths = decode(np.zeros((1, 7), ">u4"))
    assert (paths.hops.tolist(), paths.nodes.tolist()) == ([0], [[-1] * 6])
