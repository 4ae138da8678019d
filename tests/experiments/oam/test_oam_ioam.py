"""IOAM in the comparison: the spines of flows are those in captures."""

from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from experiments.shared.oam import ioam
from experiments.shared.oam.incidents import data_flows
from telemark.accounting.pcap import Frames


def frames(*packets: tuple[str, str]) -> Frames:
    """Return UDP packets with these source and destination addresses."""
    rows = [[*bytes(Ether() / IPv6(src=source, dst=destination) / UDP())]
            for source, destination in packets]  # fmt: skip
    unused: Any = None
    return Frames(unused, unused, np.array(rows, np.uint8))


class Captures:
    """Network whose captures have the names of the switches after the source leaf."""

    @staticmethod
    def capture(_: str, after: str, __: str) -> str:
        return after


def test_the_spine_of_a_flow_has_most_of_its_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (("fd00:1::1", f"fd00:4::{number}") for number in (1, 2))
    cross = ("fd00:2::1", "fd00:5::1")
    captures = {"s3": frames(one, one, two), "s4": frames(one, two, two, cross, cross, cross)}
    monkeypatch.setattr(ioam.pcap, "read", captures.get)
    net: Any = Captures()
    assert ioam._spines(net, data_flows(2, 100, 1)) == {5001: "s3", 5002: "s4"}
