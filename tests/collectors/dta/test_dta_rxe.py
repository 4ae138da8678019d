"""A translator writes to the memory of rdma_rxe, in a virtual machine at a host."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaded import StartExperiment

from collectors.dta.hashes import checksums, key_words, slots
from collectors.dta.key_increment import COUNTER, Counters
from collectors.dta.key_write import slot
from telemark.backends.real.vm import machine
from telemark.sweep.plain_data import load

pytestmark = pytest.mark.skipif(machine.missing() is not None, reason=str(machine.missing()))

SLOTS, COUNT, COPIES = 64, 60, 2  # as in the script

HEAD = """
from mininet.topo import Topo
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from collectors.dta.key_increment import COUNTER
from collectors.dta.key_write import slot
from collectors.dta.packets import DTA, KeyIncrement, KeyWrite
from collectors.roce.endpoint import Peer, Transport
from collectors.roce.region import Region
from collectors.roce.verbs import Verbs
from controllers.connection import connections, cpu_ports
from controllers.dta.stores import CounterStore, KeyWriteStore
from controllers.dta.translator import CounterSession, Service, Translator, WriteSession, configure
from controllers.roce.running import events
from telemark.network import Network
from telemark.backends.real.vm.host import machine_at
from telemark.sweep.plain_data import dump

ADDRESS, SLOTS, COUNT, COPIES = "10.0.9.1", 64, 60, 2
KINDS = (
    (slot(1), SLOTS, KeyWriteStore(1, SLOTS), Transport.RC),
    (slot(3), SLOTS, KeyWriteStore(3, SLOTS, sessions=range(2, 3)), Transport.RC),
    (slot(7), SLOTS, KeyWriteStore(7, SLOTS, sessions=range(3, 4)), Transport.UC),
    (COUNTER, COPIES * SLOTS, CounterStore(SLOTS, COPIES, range(4, 5)), Transport.RC),
)

class OneSwitch(Topo):
    def build(self):
        s1 = self.addSwitch("s1")
        for name in ("h1", "h2"):
            self.addLink(self.addHost(name), s1)

def frame(n, report):
    base = DTA(sequence=n, immediate=int(n % 3 == 0))
    ether = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02")
    return bytes(ether / IP(src="10.0.0.1", dst="10.0.8.1") / UDP(sport=40041) / base / report)

def reports():
    for n in range(COUNT):
        for words in (1, 3, 7):
            yield KeyWrite(redundancy=COPIES, key=n << 64 | words, data=[n] * words)
        yield KeyIncrement(redundancy=COPIES, key=n, addend=n << 33)
"""

SCRIPT = """
topo = OneSwitch()
with Network(topo, run, program="p4src/dta/translator.p4", switch_options=cpu_ports(topo),
             expected_drops=("ingress", "miss")) as net:
    host = net.host("h2")
    with machine_at(host, run.folder / "vm", {ADDRESS: "06:00:0a:00:09:01"}) as machine:
        endpoint = machine.make(Verbs, host.IP())
        regions, sessions = [], []
        for number, (record, count, store, transport) in enumerate(KINDS, start=1):
            peer = Peer(ADDRESS, 0x10 + number, 0xFFFFF0)
            regions.append(machine.make(Region, record, count))
            target = endpoint.connect(endpoint.register(regions[-1]), peer, transport=transport)
            kind = CounterSession if isinstance(store, CounterStore) else WriteSession
            sessions.append(kind(number, "h2", peer, target, ack_every=8, patience=16))
        service = Service("10.0.8.1", [store for _, _, store, _ in KINDS])
        frames = [frame(n, report) for n, report in enumerate(reports())]
        async with connections(net) as switches:
            await configure(net, switches, {"s1": Translator(sessions, [service])})
            start_ns = run.clock.now_ns() + 100_000_000
            times = [start_ns + 4_000_000 * n for n in range(len(frames))]
            net.send_frames("h1", times, frames)
            port, came = str(net.port("s1", "h1")), 0
            while came < len(times):
                await run.clock.sleep_until(run.clock.now_ns() + 200_000_000)
                came = net.switch("s1").read_counters()["ports"][port]["received_packets"]
            before = None
            while (now := endpoint.counts()) != before:  # until it has taken all
                before = now
                await run.clock.sleep_until(run.clock.now_ns() + 200_000_000)
            counts = [await events(switches["s1"], session) for session in sessions]
        found = {
            "events": counts, "completions": len(endpoint.completions()),
            "memory": [machine.call(getattr, region, "bytes").tobytes() for region in regions],
        }
options.out.mkdir(exist_ok=True)
(options.out / "found").write_bytes(dump(found, "found"))
return Report(checks=[Check("done", 1, 1, 0)], samples=[{"done": 1}])
"""


def written(words: int) -> bytes:
    """Return the expected content of the store whose values have `words` words."""
    records = np.zeros(SLOTS, slot(words))
    for n in range(COUNT):
        key = key_words([n << 64 | words])
        places = slots(key, COPIES, SLOTS)[:, 0]
        records["checksum"][places], records["data"][places] = checksums(key, 31)[0], n
    return records.tobytes()


def test_rxe_executes_the_requests_of_a_translator(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    started = start_experiment(SCRIPT, head=HEAD)
    output = started.communicate(timeout=300)
    assert started.returncode == 0, output
    found: dict[str, Any] = load((tmp_path / "out" / "found").read_bytes())
    assert found["memory"][:3] == [written(words) for words in (1, 3, 7)]
    expected = np.zeros(COPIES * SLOTS, COUNTER)
    addends = np.arange(COUNT, dtype=np.uint64) << np.uint64(33)
    Counters(expected, COPIES).add(key_words(range(COUNT)), addends, COPIES)
    assert found["memory"][3] == expected.tobytes()
    assert all(each["sent"] == COPIES * COUNT for each in found["events"])
    assert all(each["naked"] == each["damaged"] == 0 for each in found["events"])
    assert [each["acked"] > 0 for each in found["events"]] == [True, True, False, True]
    # every third report of all primitives except counters has a completion
    assert found["completions"] == COUNT
