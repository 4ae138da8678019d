"""Messages of collectors and experiments to the page of --watch, and paths of flows."""

import json
import os
import select
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from mininet.topo import Topo

from telemark.topology.routes import shortest_paths
from telemark.watch.display import Display, Series, maxima

SERIES = Series("INT", "queue", "s1 to s2", "packets")
Read = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def shown() -> Iterator[tuple[Display, Read]]:
    """A Display, and a function that returns the messages that it has written."""
    readable, writable = os.pipe()
    links = {(1, 2): "s1 to s2"}
    with open(readable, "rb") as pipe:
        os.set_blocking(readable, False)

        def read() -> list[dict[str, Any]]:
            return [json.loads(line) for line in pipe.readlines()]

        yield Display(writable, "net", 10**9, ["s1", "s2"], links), read
        os.close(writable)


def test_points_and_their_ground_truth_have_the_time_of_the_page(
    shown: tuple[Display, Read],
) -> None:
    display, read = shown
    display.add(SERIES, [(15 * 10**8, np.int64(3))], [(2 * 10**9, 4.25)])
    assert read() == [
        {"network": "net", "series": list(SERIES), "points": [[0.5, 3]], "truth": [[1, 4.25]]}
    ]


def test_ground_truth_may_follow_later(shown: tuple[Display, Read]) -> None:
    display, read = shown
    display.add(SERIES, [], [(10**9, 1)])
    (message,) = read()
    assert (message["points"], message["truth"]) == ([], [[0, 1]])


def test_unknown_values_are_not_shown(shown: tuple[Display, Read]) -> None:
    display, read = shown
    display.add(SERIES, [(10**9, float("nan")), (10**9, float("inf"))])
    assert read() == []


def test_each_message_is_written_as_a_whole(shown: tuple[Display, Read]) -> None:
    display, read = shown
    points = [(10**9 + 123_456_789 * n, n / 3 * 10**9) for n in range(500)]
    display.add(SERIES, points, points)
    display.alert("INT", 10**9, "é" * 10_000)
    messages = read()
    *parts, alert = messages
    assert all(len(json.dumps(message)) < select.PIPE_BUF for message in messages)
    assert [point for part in parts for point in part["points"]] == [
        [round(123_456_789 * n / 1e9, 6), float(f"{n / 3 * 10**9:.9g}")] for n in range(500)
    ]
    assert alert["alert"][:2] == [0, "INT"]


def test_without_the_server_process_nothing_happens() -> None:
    readable, writable = os.pipe()
    os.close(readable)
    Display(writable).alert("INT", 0, "text")
    os.close(writable)


def test_switches_and_links_have_the_names_of_the_topology(shown: tuple[Display, Read]) -> None:
    display, _ = shown
    assert [display.switch(number) for number in (0, 1, 2, 3)] == ["node 0", "s1", "s2", "node 3"]
    assert [display.link(1, 2), display.link(1, 3)] == ["s1 to s2", "s1 port 3"]


def test_each_place_has_the_maximum_of_each_interval() -> None:
    place = np.array([5, 5, 5, 4, 5, 5])
    times_ns = np.array([1, 5, 9_999_999, 30_000_002, 10_000_000, 30_000_001], np.uint64)
    assert maxima(place, times_ns, np.array([1, 7, 2, 9, 3, 4])) == {
        4: [(30_000_000, 9)],
        5: [(0, 7), (10_000_000, 3), (30_000_000, 4)],
    }
    nothing = np.zeros(0, np.int64)
    assert maxima(nothing, nothing, nothing) == {}


class Ring(Topo):
    """h1 at s1, h2 at s2, h3 at s3 of a ring of four switches."""

    def build(self) -> None:
        switches = [self.addSwitch(f"s{n}") for n in range(1, 5)]
        for near, far in zip(switches, switches[1:] + switches[:1], strict=True):
            self.addLink(near, far)
        for number in (1, 2, 3):
            self.addLink(self.addHost(f"h{number}"), f"s{number}")


def test_a_path_is_known_only_if_it_is_the_only_shortest_one() -> None:
    ends = [("h1", "h2"), ("h1", "h3"), ("h1", "h1")]
    assert shortest_paths(Ring(), ends) == [["s1", "s2"], None, []]
