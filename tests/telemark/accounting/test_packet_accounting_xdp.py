"""Packet accounting for a switch interface with an XDP program.

Packet sockets do not see the packets that the program consumes.
"""

import json
from pathlib import Path

from loaded import StartExperiment

PROGRAM = Path(__file__).parents[1] / "programs" / "wire.p4"
HEAD = f"""
from mininet.topo import Topo
from ebpf.loader import attach_xdp, load
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from telemark.accounting.packet_accounting import PacketAccounting

PROGRAM = {str(PROGRAM)!r}

class Pair(Topo):
    def build(self):
        s1 = self.addSwitch("s1")
        self.addLink(self.addHost("h1"), s1)
        self.addLink(s1, self.addHost("h2"))
"""
MEASURE = """
with Network(Pair(), run, program=PROGRAM) as net:
    flows = [Flow(1, "h1", "h2", rate_pps=2000, count=200),
             Flow(2, "h1", "h2", rate_pps=1000, count=100, port=9, allow_total_loss=True)]
    at = net.interface("s1", "h1")
    # Generic: the switch's peer has an MTU that is too long for a veth's own XDP.
    with load("ebpf/datapath/drop.bpf.c") as whole:
        with attach_xdp(whole.programs["drop_ports"], at, mode="generic"):
            async with Traffic(net, flows) as traffic:
                records = await traffic.finish()
        taken = int(whole.maps["dropped"].read().sum())
accounting = PacketAccounting.from_network(net, records, {at: taken})
without = PacketAccounting.from_network(net, records)
return Report([], accounting.checks(), {
    "taken": taken, "sent": [len(records[n].sent) for n in (1, 2)],
    "received": [len(records[n].received) for n in (1, 2)],
    "unaccounted_without": without.unaccounted_frames, "unbalanced_without": without.unbalanced,
})
"""


def test_books_balance_by_the_program_s_own_counter(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    process = start_experiment(MEASURE, "--out", str(tmp_path), head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    found = json.loads((tmp_path / "summary.json").read_text())["metrics"]
    assert (found["sent"], found["received"]) == ([200, 100], [200, 0])
    assert found["taken"] == found["unaccounted_without"] == 100
    assert found["unbalanced_without"] == ["h1-eth0 delivered 300, s1-eth1 received 200"]
