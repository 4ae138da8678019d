"""Programs of any size can replace others while packets are in flight."""

import os

import numpy as np
import pytest
from small_programs import DEFAULTS, json_of

from minip4.engine.engine import Engine
from minip4.simulator.shared import Stop
from minip4.simulator.virtual import FlowResult, FlowSpec, Virtual

START_NS, MS = 10**9, 10**6
DELAY_US = 10_000


def through(stack: int, *, digests: bool = False) -> Engine:
    """Return the engine of a program that forwards from port 1 to port 2, and back.

    A parsed packet has `stack` headers of 256 bytes, all in use. With `digests`, the program sends
    a digest of each packet.
    """
    digest = "digest<d_t>(1, {hdr.h.a});" if digests else ""
    shift = " ".join(f"hdr.w[{i}].x = hdr.w[{i + 1}].x;" for i in range(stack - 1))
    return Engine(
        json_of(
            types=DEFAULTS["types"] + "header w_t { bit<2048> x; } struct d_t { bit<8> a; }",
            headers=f"h_t h; w_t[{max(stack, 1)}] w;",
            ingress="std.egress_spec = 3 - std.ingress_port; "
            f"if (hdr.h.a == 77) {{ {shift} }} {digest}",
        ),
        sanitize="SANITIZE" in os.environ,
    )


class Net:
    """h1 - s1 - s2 - h2 in virtual time. The link between the switches has a long delay."""

    def __init__(self, engine: Engine, threads: int = 1) -> None:
        self.virtual = Virtual(START_NS, threads=threads, sanitize=engine.sanitize)
        self.hosts = [self.virtual.add_host(f"00:00:00:00:00:0{i}", f"10.0.0.{i}") for i in (1, 2)]
        self.switches = [self.virtual.add_switch() for _ in range(2)]
        before, port = self.hosts[0], 0
        for switch in self.switches:
            self.virtual.connect(before, port, switch, 1)
            before, port = switch, 2
        self.virtual.connect(before, port, self.hosts[1], 0)
        for switch in self.switches:
            self.push(switch, engine)

    def push(self, switch: int, engine: Engine) -> None:
        engine = self.virtual.prepare(engine.another())
        between = 2 if switch == self.switches[0] else 1
        engine.set_link(between, delay_ns=DELAY_US * 1000)
        self.virtual.install(switch, engine)

    def result(self, flow: int) -> FlowResult:
        result = self.virtual.flow_result(flow)
        self.virtual.close()
        return result


@pytest.mark.parametrize("which", [0, 1])
def test_a_much_longer_program_is_pushed_while_packets_are_on_their_way(which: int) -> None:
    short, long = through(1), through(30)
    net = Net(short)
    flow = net.virtual.add_flow(
        FlowSpec(*net.hosts, 7, 1000, 5007, 0, 1400, 3000, START_NS, 100_000)
    )
    assert net.virtual.run(START_NS + 15 * MS) is Stop.REACHED
    net.push(net.switches[which], long)
    assert net.virtual.run(START_NS + 100 * MS) is Stop.REACHED
    result = net.result(flow)
    assert list(result.received["sequence"]) == list(range(3000))
    took = (result.received["received_ns"] - result.received["sent_ns"]).astype(np.int64)
    assert set(took) == {DELAY_US * 1000}
    for engine in (short, long):
        engine.close()


def test_programs_are_pushed_again_and_again_each_longer_and_shorter() -> None:
    engines = [through(stack) for stack in (1, 3, 12, 2, 20, 1, 30)]
    net = Net(engines[0])
    flow = net.virtual.add_flow(FlowSpec(*net.hosts, 7, 1000, 5007, 0, 60, 4000, START_NS, 100_000))
    for turn, engine in enumerate(engines):
        assert net.virtual.run(START_NS + 5 * turn * MS) is Stop.REACHED
        net.push(net.switches[turn % 2], engine)
    assert net.virtual.run(START_NS + 100 * MS) is Stop.REACHED
    assert list(net.result(flow).received["sequence"]) == list(range(4000))
    for engine in engines:
        engine.close()


@pytest.mark.parametrize(
    ("is_pushed", "outside", "ways"), [(True, 0, 2), (False, 1, 1)], ids=["digests", "frames"]
)
def test_packets_outside_the_first_partition_are_reported(
    is_pushed: bool, outside: int, ways: int
) -> None:
    """A digest, or a frame for an application, in the second partition soon stops the run.

    The program with digests, or the application, is installed while a run on two threads is paused.
    The run stops within the delay of the link, because the times of the partitions differ by at
    most this delay.
    """
    plain, digesting = through(1), through(1, digests=True)
    net = Net(plain, threads=2)
    for side, nodes in enumerate(zip(net.hosts, net.switches, strict=True)):
        for node in nodes:
            net.virtual.place(node, int(side == outside))
    for hosts in (net.hosts, net.hosts[::-1])[:ways]:
        net.virtual.add_flow(FlowSpec(*hosts, 7, 1000, 5007, 0, 60, 9000, START_NS, 100_000))
    assert net.virtual.run(START_NS + 200 * MS, 8000) is Stop.PAUSED
    assert len(net.virtual.partitions) == 2
    paused_ns = net.virtual.now_ns
    if is_pushed:
        net.push(net.switches[outside], digesting)
        assert net.virtual.run(START_NS + 200 * MS) is Stop.CONTROL
        assert [*net.virtual.control_waiting()] == [net.switches[outside]]
    else:
        inbox = net.virtual.inboxes.open_frames(net.hosts[outside])
        assert net.virtual.run(START_NS + 200 * MS) is Stop.INBOX
        assert [*net.virtual.inboxes.filled()] == [inbox]
    assert net.virtual.now_ns <= paused_ns + DELAY_US * 1000
    net.virtual.close()
    for engine in (plain, digesting):
        engine.close()


def test_messages_of_switches_remain_after_a_new_partition() -> None:
    """A digest that waits in the first partition stays there after the partitions have changed."""
    plain, digesting = through(1), through(1, digests=True)
    net = Net(plain, threads=2)
    for side, nodes in enumerate(zip(net.hosts, net.switches, strict=True)):
        for node in nodes:
            net.virtual.place(node, side)
    net.push(net.switches[0], digesting)
    net.virtual.add_flow(FlowSpec(*net.hosts, 7, 1000, 5007, 0, 60, 9000, START_NS, 100_000))
    assert net.virtual.run(START_NS + 200 * MS) is Stop.CONTROL
    net.virtual.place(net.hosts[1], 1)
    assert net.virtual.run(START_NS + 200 * MS) is Stop.CONTROL
    assert [*net.virtual.control_waiting()] == [net.switches[0]]
    net.virtual.close()
    for engine in (plain, digesting):
        engine.close()
