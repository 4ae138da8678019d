"""The INT collector on the page of --watch: queues, hop latencies, paths and their changes."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import made_reports
import pytest
from decoding import ENCODING, datagrams
from path_reports import alone, packet, stacked

from collectors.int.decoder import Decoder
from collectors.int.live import LiveReports
from telemark.watch.display import Display

MS = 1_000_000
SWITCHES = [f"s{number}" for number in range(1, 10)]
LINKS = {(5, 2): "s5 to s6", (6, 2): "s6 to h2"}


class Shown:
    """The messages that LiveReports writes."""

    def __init__(self, readable: int, writable: int) -> None:
        self.live = LiveReports(Display(writable, "net", 0, SWITCHES, LINKS))
        self._readable, self._writable = readable, writable
        self._decoder = Decoder(ENCODING)

    def messages(self, payloads: Sequence[bytes], time_ns: int = 0) -> list[dict[str, Any]]:
        """Return what is written for reports that arrive at one time."""
        for part in self._decoder.decode(datagrams(payloads, time_ns, 0)):
            self.live.take(part)
        self.live.send()
        self.live.send()  # everything is sent only once
        os.write(self._writable, b"\n")  # so that read() does not wait
        return [json.loads(line) for line in os.read(self._readable, 1 << 16).splitlines() if line]


@pytest.fixture
def shown() -> Iterator[Shown]:
    readable, writable = os.pipe()
    yield Shown(readable, writable)
    os.close(readable)
    os.close(writable)


def points(messages: list[dict[str, Any]], quantity: str) -> dict[str, list[list[float]]]:
    """Return the points of a quantity by place."""
    return {
        each["series"][2]: each["points"]
        for each in messages if "series" in each and each["series"][1].startswith(quantity)
    }  # fmt: skip


def test_each_link_has_the_maximum_of_an_interval(shown: Shown) -> None:
    """alone() reports a queue of ten times the node's number, and latency is not reported."""
    payloads = [
        alone(5, 0, ingress=1 * MS), alone(5, 1, ingress=12 * MS), alone(6, 0, ingress=3 * MS),
        alone(9, 0, ingress=4 * MS),
    ]  # fmt: skip
    messages = shown.messages(payloads)
    assert points(messages, "queue") == {
        "s5 to s6": [[0, 50], [0.01, 50]], "s6 to h2": [[0, 60]], "s9 port 2": [[0, 90]],
    }  # fmt: skip
    assert len(messages) == 3  # no latencies, and no path, because each report has a single hop


def test_a_stack_has_latencies_and_a_path(shown: Shown) -> None:
    messages = shown.messages([
        stacked(0, [(5, 10_000, 1, 110), (6, 20_000, 113, 133)]),
        stacked(1, [(5, 30_000, 200, 230), (6, 5_000, 240, 245)]),
    ])  # fmt: skip
    assert points(messages, "hop latency") == {"s5 port 0": [[0, 30]], "s6 port 0": [[0, 20]]}
    assert [each["path"] for each in messages if "path" in each] == [
        ["INT", ["10.0.0.1", "10.0.0.2", 7000, 80], ["s5", "s6"]]
    ]


def test_a_hop_without_time_has_the_time_of_its_report(shown: Shown) -> None:
    inner = bytes(packet(64, 7000, bytes(16)))
    head = made_reports.Individual(inner_type=4, length=4 + len(inner) // 4, md_length=2, flags=2)
    metadata = bytes([0, 1, 0, 2]) + (30).to_bytes(4, "big")
    payload = (
        bytes(made_reports.Group(node=5)) + bytes(head) + bytes(made_reports.Main(bits=0x5000))
        + metadata + inner
    )  # fmt: skip
    messages = shown.messages([alone(6, 0, ingress=MS), payload], time_ns=70 * MS)
    assert points(messages, "queue") == {"s5 to s6": [[0.07, 30]], "s6 to h2": [[0, 60]]}


def test_a_new_path_is_an_alert(shown: Shown) -> None:
    one, other = [(5, 1, 1, 2), (6, 1, 3, 4)], [(5, 1, 1, 2), (7, 1, 3, 4)]
    first = shown.messages([stacked(0, one)])
    same = shown.messages([stacked(1, one)])
    changed = shown.messages([stacked(2, other)], time_ns=70 * MS)
    assert [len([each for each in found if "path" in each]) for found in (first, same)] == [1, 0]
    assert not [each for each in (*first, *same) if "alert" in each]
    assert [each["alert"] for each in changed if "alert" in each] == [
        [0.07, "INT", "10.0.0.1 to 10.0.0.2 port 80: new path s5, s7"]
    ]
