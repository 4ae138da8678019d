"""Link parameters.

Names from Mininet have the same meaning as in Mininet, in real and virtual time.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from loaded import StartExperiment
from virtual_networks import WIRE

from telemark.errors import TestbedError
from telemark.topology import links
from topologies.basic import Line

HEAD = f"""
from mininet.topo import Topo
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting

PROGRAM = {str(WIRE)!r}

class Words(Topo):
    def build(self):
        s1, s2, s3 = (self.addSwitch(f"s{{n}}") for n in (1, 2, 3))
        self.addLink(self.addHost("h1"), s1)
        self.addLink(s1, s2, delay="3ms", loss=1, params2={{"loss": 50}})
        self.addLink(s2, s3, bw=8, max_queue_size=5)
        self.addLink(s3, self.addHost("h2"), delay_us=500)
"""

MEASURE = """
flows = [Flow(1, "h1", "h2", rate_pps=1000, count=1000, size=100),
         Flow(2, "h2", "h1", rate_pps=100, count=50),
         Flow(3, "h1", "h2", rate_pps=1e6, count=40, size=1000, after_s=1.2)]
with Network(Words(), run, program=PROGRAM) as net:
    async with Traffic(net, flows) as traffic:
        records = await traffic.finish()
    delays_us = (records[1].received["received_ns"] - records[1].received["sent_ns"]) / 1000
    net.switch("s1").set_link(net.port("s1", "s2"), loss=50)
    async with Traffic(net, flows[:1]) as traffic:
        again_ns, last = traffic.start_ns, await traffic.finish()
lost_ns = pcap.read(net.capture("s1", "s2", "lost")).time_ns
back = net.counters["s2"]["ports"][str(net.port("s2", "s1"))]["link"]
return Report([], PacketAccounting.from_network(net, {**records, 4: last[1]}).checks(), {
    "lost": int((lost_ns < again_ns).sum()), "lost_again": int((lost_ns > again_ns).sum()),
    "lost_back": back["lost_packets"] / back["sent_packets"],
    "delay_us": delays_us.min(), "burst": len(records[3].received),
    "queue_drops": net.counters["s2"]["engine"]["queue_drops"],
})
"""


@pytest.mark.parametrize("time", ["real", "virtual"])
def test_words_of_mininet_mean_what_they_mean_there(
    start_experiment: StartExperiment, tmp_path: Path, time: str
) -> None:
    process = start_experiment(
        MEASURE, "--time", time, "--out", str(tmp_path / "out"), head=HEAD
    )  # fmt: skip
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    measured: dict[str, Any] = json.loads((tmp_path / "out" / "summary.json").read_text())[
        "metrics"
    ]
    # These are drops by the link and by its queue. A loaded machine may delay packets, so that many
    # of them arrive together and fill the queue.
    assert 1 <= measured["lost"] <= 25  # 1 % of 1,040
    assert 400 <= measured["lost_again"] <= 600  # half of 1,000
    assert 0.2 <= measured["lost_back"] <= 0.8  # half of 50, on the other end of the link
    # plus the transmission time of 100 bytes at 8 Mbit/s
    assert measured["delay_us"] >= 3000 + 500 + 100
    if time == "virtual":
        assert measured["delay_us"] == 3600
    assert measured["queue_drops"] > 20  # the queue has room for five packets of a burst of 40


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"bw": 100}, {"rate_bps": 100_000_000}),
        ({"bw": 0.5}, {"rate_bps": 500_000}),
        ({"delay": "5ms", "jitter": "10us"}, {"delay_us": 5000, "jitter_us": 10}),
        ({"delay": "1.5 s"}, {"delay_us": 1_500_000}),
        ({"loss": 1}, {"loss_probability": 0.01}),
        ({"loss": 100, "bw": None}, {"loss_probability": 1}),
        ({"max_queue_size": 7, "delay_us": 3}, {"queue_packets": 7, "delay_us": 3}),
    ],
)
def test_each_word_has_one_of_ours(given: dict[str, Any], ours: dict[str, Any]) -> None:
    assert links.properties(given, "link a-b") == ours


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bw": 10, "rate_bps": 10**7}, "bw and rate_bps are the same parameter"),
        ({"loss": 1, "loss_probability": 0.01}, "loss and loss_probability are the same"),
        ({"delay": 5}, "delay 5: expected a string with a unit, e.g. '5ms', '10us' or '1s'"),
        ({"delay": "5"}, "delay '5': expected a string with a unit"),
        ({"jitter": "-1ms"}, "jitter '-1ms': expected"),
        ({"loss": "1%"}, "loss '1%': "),
        ({"loss": -1}, "loss -1: expected a percentage from 0 to 100"),
        ({"bw": 0}, "bw 0: expected Mbit/s, e.g. 100"),
        ({"max_queue_size": "x"}, "max_queue_size 'x': "),
        ({"queue": 5}, "unknown parameter queue; expected rate_bps, .* or Mininet's bw, delay, "),
    ],
)
def test_what_cannot_be_is_one_line(given: dict[str, Any], words: str) -> None:
    with pytest.raises(TestbedError, match=f"^link a-b: {words}") as raised:
        links.properties(given, "link a-b")
    assert "\n" not in str(raised.value)


def test_a_line_s_delay_may_be_in_either() -> None:
    """`delay` and `delay_us` both replace the default delay of Line's links."""
    for topo, delay_us in ((Line(delay="2ms"), 2000), (Line(delay_us=3), 3), (Line(), 1000)):
        params = next(params for left, right, params in topo.links(withInfo=True)
                      if topo.isSwitch(left) and topo.isSwitch(right))  # fmt: skip
        given = {key: value for key, value in params.items() if not key.startswith("node")}
        assert links.of_ends("s1", "s2", given)[0]["delay_us"] == delay_us
