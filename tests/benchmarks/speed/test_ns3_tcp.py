"""The benchmark ns3_tcp.py: its input for ns-3, and the parsing of ns-3's output."""

from pathlib import Path
from types import ModuleType

import pytest

from telemark.errors import TestbedError

FOLDER = Path(__file__).parents[3] / "benchmarks" / "speed"


@pytest.fixture
def ns3_tcp(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    import ns3_tcp  # noqa: PLC0415

    return ns3_tcp


def test_the_description_of_a_link_is_complete(ns3_tcp: ModuleType) -> None:
    link = ns3_tcp.Link("some", 15_140_000, 5000, 80, 0.01, flows=2)
    assert list(ns3_tcp.describe(link, "cubic", 30.0, 6)) == [
        # In ns-3, frames are 12 bytes shorter, so this rate gives the same transmission time.
        "link 15020000 5000000 80 0.01 7",
        "flow TcpCubic 0",
        "flow TcpCubic 100000000",
        "measure 10000000000 40000000000",
    ]


def test_the_output_of_ns3_is_parsed(ns3_tcp: ModuleType) -> None:
    assert ns3_tcp.parse_goodputs("received_0 300\nreceived_1 150\n", 2.0) == [1200, 600]
    with pytest.raises(TestbedError, match="ns-3: cannot parse its output"):
        ns3_tcp.parse_goodputs("received_0 many\n", 2.0)


def test_a_sample_is_relative_to_the_link_rate(ns3_tcp: ModuleType) -> None:
    """A sample gives goodput relative to the link rate, and the constant of the loss formula.

    The constant is 1 if 1 % of segments is lost and ten segments are sent per RTT of 10 ms.
    """
    link = ns3_tcp.Link("some", 10 * 1514 * 8 * 100, 5000, 80, 0.01)
    rate_bps = 10 * 1448 * 8 / 0.01
    found = ns3_tcp.sample(link, "reno", [rate_bps / 2] * 2, [rate_bps / 2, 0.0])
    assert (found.minip4, found.ns3) == pytest.approx((1, 0.5))
    assert (found.minip4_constant, found.ns3_constant) == pytest.approx((1, 0.5))
    assert (found.minip4_fairness, found.ns3_fairness) == pytest.approx((1, 0.5))
