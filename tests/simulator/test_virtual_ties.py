"""The order of simultaneous events in virtual time: see docs/how-to/virtual-time.md."""

from typing import Any

import numpy as np
import pytest
from small_programs import json_of

from minip4.engine.engine import Engine
from minip4.runtime.switch.options import LinkOptions
from minip4.runtime.switch.port_settings import set_link
from minip4.simulator.shared import Stop
from minip4.simulator.virtual import FlowSpec, Virtual

START_NS = 10**9
# A frame of 1,000 bytes takes 8 us on the last link. So frames leave in the order of arrival there.
PAYLOAD = 958
SLOW = {"queue": {"depth_packets": 64, "rate_pps": 100_000}}  # a rate of one frame per 10 us
DELAYED, LESS = {"link": {"delay_us": 10.0}}, {"link": {"delay_us": 5.0}}
DIRECT: dict[str, Any] = {}


def order(*branches: dict[str, Any], sent_ns: list[list[int]]) -> list[int]:
    """Return the branches of the frames, in the order in which these arrive at the far host.

    Host i sends at the times sent_ns[i] after START_NS. It is behind a switch with its own link or
    queue: branches[i]. All paths meet in one last switch. Flows are added in reverse order.
    """
    engine = Engine(json_of(ingress="std.egress_spec = 2;"))
    net = Virtual(START_NS, sanitize=engine.sanitize)
    far = net.add_host("00:00:00:00:00:99", "10.0.0.99")
    switches = [net.add_switch() for _ in [*branches, "last"]]
    hosts = []
    for i, switch in enumerate(switches[:-1]):
        hosts.append(net.add_host(f"00:00:00:00:00:0{i}", f"10.0.0.{i + 1}"))
        net.connect(hosts[i], 0, switch, 1)
        net.connect(switch, 2, switches[-1], 3 + i)
    net.connect(switches[-1], 2, far, 0)
    last = {"link": {"rate_bps": 10**9}}
    for switch, branch in zip(switches, [*branches, last], strict=True):
        own = net.prepare(engine.another())
        own.clock = lambda: net.now_ns  # type: ignore[method-assign]
        if "link" in branch:
            set_link(own, LinkOptions(2, **branch["link"]))
        if "queue" in branch:
            own.set_queue(2, 0, **branch["queue"])
        net.install(switch, own)
    flows = {}
    for i, times in reversed([*enumerate(sent_ns)]):
        due_ns = np.array(times, np.uint64)
        spec = FlowSpec(
            hosts[i], far, i, 1000, 5000 + i, 0, PAYLOAD, len(times), START_NS, 1.0, due_ns
        )
        flows[i] = net.add_flow(spec)
    assert net.run(START_NS + 10**9) is Stop.REACHED
    results = {i: net.flow_result(flow).received["received_ns"] for i, flow in flows.items()}
    arrived = [(int(time_ns), i) for i, times in results.items() for time_ns in times]
    net.close()
    engine.close()
    return [i for _, i in sorted(arrived)]


@pytest.mark.parametrize(
    ("what", "branches", "sent_ns", "expected"),
    [
        ("frames in the order in which they were sent",
         (LESS, DELAYED), [[5000], [0]], [1, 0]),
        ("frames in the order in which they were sent, not of the switches",
         (DELAYED, LESS), [[0], [5000]], [0, 1]),
        ("frames that were sent at the same time by the ports to which they come",
         (DELAYED, DELAYED), [[0], [0]], [0, 1]),
        ("frames that arrive before switches with work",
         (SLOW, DELAYED), [[0, 0], [0]], [0, 1, 0]),
        ("frames that arrive before sources",
         (DIRECT, DELAYED), [[10_000], [0]], [1, 0]),
        ("switches before sources",
         (DIRECT, SLOW), [[10_000], [0, 0]], [1, 1, 0]),
        ("switches in the order in which they were added",
         (SLOW, SLOW), [[1000, 1000], [1000, 1000]], [1, 0, 0, 1]),
        ("sources in the order in which they were added",
         (DIRECT, DIRECT, DIRECT), [[0, 50_000], [0, 50_000], [0, 50_000]], [2, 1, 0, 2, 1, 0]),
    ],
)  # fmt: skip
def test_at_the_same_time(
    what: str, branches: tuple[dict[str, Any], ...], sent_ns: list[list[int]], expected: list[int]
) -> None:
    assert order(*branches, sent_ns=sent_ns) == expected, what
