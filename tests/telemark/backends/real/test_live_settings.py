"""Links and queues change in a Mininet network under traffic; delays and counters show this."""

import json
from pathlib import Path

import pytest
from loaded import StartExperiment

HEAD = f"""
from mininet.topo import Topo
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic

PROGRAM = {str(Path(__file__).parents[2] / "programs" / "wire.p4")!r}

class Pair(Topo):
    def build(self):
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(self.addHost("h1"), s1)
        self.addLink(s1, s2)
        self.addLink(s2, self.addHost("h2"))
"""

# There are six phases of 0.3 s. Each one starts after its settings were changed, which may take
# long on a loaded machine. The script notes the start, the end and the number of sent frames of
# each phase.
SCRIPT = """
PHASE_NS, POLL_NS, RATE_PPS, COUNT = 300_000_000, 1_000_000, 2000, 8000
FRAME_BITS, FRAME_NS = 8 * 500, 400_000  # at the rate that is set: less than the 500 us between two
with Network(Pair(), run, program=PROGRAM) as net:
    s1, port = net.switch("s1"), net.port("s1", "s2")
    settings = [
        lambda: None,
        lambda: (s1.set_queue(port, depth=2000),
                 s1.set_link(port, rate_bps=FRAME_BITS * 10**9 // FRAME_NS)),
        lambda: s1.set_link(port, rate_bps=0, delay_us=7000),
        lambda: s1.set_link(port, delay_us=0, loss_probability=1),
        lambda: (s1.set_link(port, loss_probability=0), s1.set_queue(port, depth=3, rate_pps=50)),
        lambda: s1.set_queue(port, depth=64, rate_pps=0),
    ]
    phases = []
    def transmitted():
        return s1.read_counters()["ports"][str(port)]["transmitted_packets"]
    def taken_in():
        return s1.read_counters()["ports"][str(port ^ 3)]["received_packets"]
    flow = Flow(1, "h1", "h2", rate_pps=RATE_PPS, count=COUNT, size=500)
    async with Traffic(net, [flow]) as traffic:
        for change in settings:
            change()
            made_ns, left = run.clock.now_ns(), transmitted()
            await run.clock.sleep_until(max(made_ns, traffic.start_ns) + PHASE_NS)
            left = transmitted() - left
            phases.append((made_ns, run.clock.now_ns(), left))
            due = (phases[-1][1] - traffic.start_ns) * RATE_PPS // 10**9 + 1
            due = min(due, COUNT)
            while taken_in() < due:  # those sent in this phase meet its settings, however late
                await run.clock.sleep_until(run.clock.now_ns() + POLL_NS)
        records = await traffic.finish()
    now = s1.read_counters()["ports"]
record = records[1]
sent_ns = {int(row["sequence"]): int(row["sent_ns"]) for row in record.sent}
came_ns = {int(row["sequence"]): int(row["received_ns"]) for row in record.received}
def sent_in(phase):
    made_ns, end_ns, _ = phases[phase]
    return [number for number, time_ns in sent_ns.items() if made_ns < time_ns < end_ns]
def delays_us(phase):
    return [(came_ns[n] - sent_ns[n]) / 1000 for n in sent_in(phase) if n in came_ns]
made_ns, end_ns, left = phases[4]
return Report(
    samples=[{"sequence": 0}],
    checks=PacketAccounting.from_network(net, records).checks(),
    metrics={
        "sent": len(sent_ns), "received": len(came_ns),
        "in_phase": [len(sent_in(p)) for p in range(6)],
        "received_in_phase": [len(delays_us(p)) for p in range(6)],
        "shortest_us": [min(delays_us(p), default=0) for p in range(6)],
        "limited_s": (end_ns - made_ns) / 1e9,
        "left_limited": left,
        "in": now[str(port ^ 3)]["received_packets"], "out": now[str(port)]["link"],
        "transmitted": now[str(port)]["transmitted_packets"],
        "drops": now[str(port)]["drops"],
    },
)
"""


def test_what_is_changed_shows_at_once(start_experiment: StartExperiment, tmp_path: Path) -> None:
    process = start_experiment(SCRIPT, "--out", str(tmp_path / "run"), head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    metrics = json.loads((tmp_path / "run" / "summary.json").read_text())["metrics"]
    shortest_us, received = metrics["shortest_us"], metrics["received_in_phase"]
    plain, rate, delay, loss, _, again = range(6)
    if min(metrics["in_phase"]) <= 100:
        pytest.fail(f"frames by phase: {metrics['in_phase']}; reduce the load on the machine")

    # A frame takes at least its length divided by the rate, plus the delay of the link.
    assert shortest_us[plain] < 400 <= shortest_us[rate]
    assert shortest_us[delay] >= 7000
    assert shortest_us[again] < 400

    # Phase `loss` loses all frames. In the phase with a queue rate, at most as many frames leave as
    # this rate permits. The first two phases lose none.
    assert received[loss] == 0
    assert 1 <= metrics["left_limited"] <= 1 + 50 * metrics["limited_s"]
    assert received[plain] == metrics["in_phase"][plain]
    assert received[rate] == metrics["in_phase"][rate]

    # The counters of the switch equal those of the hosts.
    drops, link = metrics["drops"], metrics["out"]
    assert metrics["in"] == metrics["sent"] == 8000
    assert drops["queue"] > 0
    assert metrics["transmitted"] == metrics["sent"] - drops["queue"]
    assert (
        metrics["transmitted"] - link["sent_packets"] >= metrics["in_phase"][plain]
    )  # in the first phase, the port has no link
    assert link["sent_packets"] == link["delivered_packets"] + link["lost_packets"]
    assert link["lost_packets"] == drops["link"] >= metrics["in_phase"][loss]
    assert metrics["received"] == metrics["sent"] - drops["queue"] - drops["link"]
