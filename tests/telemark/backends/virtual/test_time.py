"""Virtual time: order of tasks, messages of controllers, and rejected calls."""

import asyncio
import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import finsy as fy
import numpy as np
import pytest
from mininet.topo import Topo
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap, wrpcapng
from virtual_networks import PROGRAMS, WIRE, Pair, virtually

from controllers.connection import connection
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.backends.virtual.clock import START_NS
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from telemark.traffic.patterns import Poisson

CONTROL = PROGRAMS / "runtime" / "programs" / "control.p4"
AMPM = PROGRAMS.parent / "p4src" / "ampm" / "ampm.p4"
CPU = ["--cpu-port", "255"]
TO_CPU = fy.Action("to_cpu", reason=1)
TO_H2 = fy.Action("forward", port=2)


# --- the clock ----------------------------------------------------------------------------------


def test_tasks_wake_in_the_order_of_their_times(tmp_path: Path) -> None:
    async def main(run: Run) -> list[tuple[str, int]]:
        seen = []

        async def sleeper(name: str, *times: int) -> None:
            for time in times:
                await run.clock.sleep_until(START_NS + time)
                seen.append((name, run.clock.now_ns() - START_NS))

        await asyncio.gather(sleeper("a", 30, 31, 10**15), sleeper("b", 10, 31), sleeper("c", 31))
        return seen

    expected = [("b", 10), ("a", 30), ("c", 31), ("b", 31), ("a", 31), ("a", 10**15)]
    assert sorted(virtually(tmp_path, main), key=lambda s: s[1])[:2] == expected[:2]
    seen = virtually(tmp_path, main)
    assert [time for _, time in seen] == [time for _, time in expected]
    assert seen == virtually(tmp_path, main)


def test_timers_of_asyncio_are_virtual_too(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        await asyncio.sleep(3600)
        assert run.clock.now_ns() == START_NS + 3600 * 10**9
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(run.clock.sleep_until(10**15), timeout=0.5)
        assert run.clock.now_ns() == START_NS + 3_600_500_000_000
        await run.clock.sleep_until(run.clock.now_ns() + 0.5)  # type: ignore[arg-type]
        assert run.clock.now_ns() == START_NS + 3_600_500_000_001
        await run.clock.sleep_until(0)
        assert await asyncio.to_thread(lambda: 5) == 5  # this takes no virtual time
        assert run.clock.now_ns() == START_NS + 3_600_500_000_001

    virtually(tmp_path, main)


def test_waiting_for_nothing_is_an_error(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TestbedError, match="virtual time stands still"):
        virtually(tmp_path, main)


def test_frames_that_go_in_circles_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames that circulate without end at one point in time cause an error.

    This happens in a forwarding loop if no link of the loop has a delay.
    """
    monkeypatch.setattr("telemark.backends.virtual.network.MAX_INSTANT_EVENTS", 1000)

    async def main(run: Run) -> None:
        with Network(Pair(), run, program=CONTROL) as net:
            for name, other in (("s1", "s2"), ("s2", "s1")):
                action = fy.Action("forward", port=net.port(name, other))
                async with connection(net, name) as switch:
                    await switch.write([+fy.P4TableEntry("route", match=fy.Match(), action=action)])
            net.send_frames("h1", [run.clock.now_ns()], [bytes(Ether() / IP() / ICMP())])
            await asyncio.sleep(1)

    with pytest.raises(TestbedError, match="forwarding loop"):
        virtually(tmp_path, main)


def test_a_loop_that_copies_what_it_carries_is_an_error(tmp_path: Path) -> None:
    """A forwarding loop that doubles its frames in each round causes an error.

    Without this error, the frames would exhaust the memory of the machine.
    """
    copies = [
        +fy.P4MulticastGroupEntry(1, replicas=[2, 3]),
        +fy.P4TableEntry("route", match=fy.Match(), action=fy.Action("multicast", group=1)),
    ]

    class Ring(Topo):
        def build(self) -> None:
            s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
            self.addLink(self.addHost("h1"), s1)
            for port in (2, 3):
                self.addLink(s1, s2, port, port, delay_us=10)

    async def main(run: Run) -> None:
        with Network(Ring(), run, program=CONTROL, capture=False) as net:
            engine = net.switch("s1").running.dataplane
            # lower than the default limit MAX_PACKETS, because so many packets need gigabytes
            most = ctypes.c_uint64(1000)
            pool = engine.library.engine_pool(engine.handle)
            engine.library.packet_pool_set_limit(ctypes.c_void_p(pool), most)
            for name in ("s1", "s2"):
                async with connection(net, name) as switch:
                    await switch.write(copies)
            net.send_frames("h1", [run.clock.now_ns()], [bytes(Ether() / IP() / ICMP())])
            await asyncio.sleep(1)

    with pytest.raises(TestbedError, match=r"^at \S+ s of virtual time: more than"):
        virtually(tmp_path, main)


def test_what_cannot_be_virtual_is_refused(tmp_path: Path) -> None:
    async def processes(run: Run) -> None:
        await asyncio.create_subprocess_exec("true")

    async def nested(run: Run) -> None:
        with (
            Network(Pair(), run, program=WIRE, name="a"),
            Network(Pair(), run, program=WIRE, name="b"),
        ):
            pass

    class TwoLinks(Topo):
        def build(self) -> None:
            host, switch = self.addHost("h1"), self.addSwitch("s1")
            self.addLink(host, switch)
            self.addLink(host, switch)

    async def multihomed(run: Run) -> None:
        with Network(TwoLinks(), run, program=WIRE):
            pass

    for main, words in ((processes, "process"), (nested, "one network"), (multihomed, "links")):
        with pytest.raises(TestbedError, match=words):
            virtually(tmp_path, main)


@pytest.mark.parametrize(
    ("link", "options", "words"),
    [
        ({"los": 0.1}, {}, "link s1-s2: unknown parameter los"),
        ({"loss_probability": 2}, {}, "loss_probability: 2: expected 0 to 1"),
        ({}, {"s2": ["--colour"]}, "switch s2: unrecognized arguments: --colour"),
        (
            {},
            {"s1": ["--pcap", "/tmp"]},
            "switch s1: option --pcap is not available in virtual time",
        ),
        ({}, {"s9": []}, "switch_options: no switches s9"),
    ],
)
def test_a_network_that_cannot_be_is_refused(
    link: dict[str, float], options: dict[str, list[str]], words: str, tmp_path: Path
) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(**link), run, program=WIRE, switch_options=options):
            pass

    with pytest.raises(TestbedError, match=words):
        virtually(tmp_path, main)


# --- networks -----------------------------------------------------------------------------------


def test_books_balance_and_captures_tell_what_was_lost(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        topo = Pair(loss_probability=0.05, delay_us=2000, rate_bps=10**8)
        with Network(topo, run, program=WIRE) as net:
            flows = [
                Flow(1, "h1", "h2", rate_pps=2000, count=1000, dscp=5, pattern=Poisson()),
                Flow(2, "h2", "h1", rate_pps=1000, count=500, size=1400, after_s=0.1),
            ]
            async with Traffic(net, flows, run.clock.now_ns()) as traffic:
                records = await traffic.finish()
        accounting = PacketAccounting.from_network(net, records)
        assert all(check.passed for check in accounting.checks())
        for flow, near, far in ((flows[0], "s1", "s2"), (flows[1], "s2", "s1")):
            lost = pcap.read_flow(net.capture(near, far, "lost"), flow).sequence
            assert 10 < len(lost) < 100
            assert sorted(lost) == list(records[flow.id].lost_sequences)
            out = pcap.read_flow(net.capture(near, far, "out"), flow)
            assert len(out.sequence) == flow.count
            # The packet may have waited, so it may leave later than it was sent.
            assert np.all(out.time_ns >= records[flow.id].sent["sent_ns"])
        assert set(pcap.read_flow(net.capture("s1", "s2", "out"), flows[0]).dscp) == {5}

    virtually(tmp_path, main)


def to_h2(net: Network) -> Callable[[], fy.P4TableEntry]:
    return lambda: fy.P4TableEntry(
        "forwarding",
        match=fy.Match({"hdr.ethernet.dst_addr": net.host("h2").MAC()}),
        action=fy.Action("forward", port=2),
    )


def test_errors_of_the_switch_reach_the_controller(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(), run, program=AMPM) as net:
            entry = to_h2(net)
            async with connection(net, "s1") as s1:
                await s1.write([+entry()])
                with pytest.raises(fy.P4ClientError) as refused:
                    await s1.write([+entry()])
                assert refused.value.details[0].canonical_code == fy.GRPCStatusCode.ALREADY_EXISTS
                found = [e async for e in s1.read([fy.P4TableEntry("forwarding")])]
                assert len(found) == 1

    virtually(tmp_path, main)


def test_frames_go_to_the_controller_and_back_at_once(tmp_path: Path) -> None:
    """A frame reaches the controller and returns without any virtual time passing.

    The controller forwards each frame of the switch, and the network waits for the controller each
    time.
    """

    async def main(run: Run) -> None:
        with Network(Pair(), run, program=CONTROL, switch_options={"s1": CPU}) as net:
            async with connection(net, "s1") as s1, connection(net, "s2") as s2:
                await s1.write([+fy.P4TableEntry("route", match=fy.Match(), action=TO_CPU)])
                await s2.write([+fy.P4TableEntry("route", match=fy.Match(), action=TO_H2)])
                seen_ns = []

                async def forward() -> None:
                    async for packet in s1.read_packets():
                        seen_ns.append(run.clock.now_ns())
                        await s1.write(fy.P4PacketOut(packet.payload, egress_port=2, padding=0))

                forwarding = asyncio.create_task(forward())
                flow = Flow(1, "h1", "h2", rate_pps=1000, count=100)
                async with Traffic(net, [flow], run.clock.now_ns() + 500) as traffic:
                    records = await traffic.finish()
                forwarding.cancel()
        received = records[1].received
        assert list(received["received_ns"]) == list(received["sent_ns"]) == seen_ns
        assert len(received) == 100
        cpu = net.counters["s1"]["cpu"]
        assert (cpu["packet_in"], cpu["packet_in_dropped"], cpu["packet_out"]) == (100, 0, 100)
        assert all(check.passed for check in PacketAccounting.from_network(net, records).checks())

    virtually(tmp_path, main)


def test_messages_to_and_from_a_controller_may_take_time(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(), run, program=AMPM, control_delay_us=250.5) as net:
            async with connection(net, "s1") as s1:
                before_ns = run.clock.now_ns()
                await s1.write([+to_h2(net)()])
                assert run.clock.now_ns() - before_ns == 2 * 250_500
                _ = [entry async for entry in s1.read([fy.P4TableEntry("forwarding")])]
                assert run.clock.now_ns() - before_ns == 4 * 250_500

    virtually(tmp_path, main)


def test_frames_of_a_capture_are_sent_again_at_their_times(tmp_path: Path) -> None:
    """The frames of a capture are sent again at the intervals of the capture.

    h1 sends two pings in a first network, and replays their capture in a second one. h2 replies to
    both pings.
    """

    async def main(run: Run) -> None:
        ping = Ether(dst="00:00:00:00:00:02", src="00:00:00:00:00:01")
        ping = ping / IP(src="10.0.0.1", dst="10.0.0.2") / ICMP()
        with Network(Pair(delay_us=10), run, program=WIRE, name="first") as net:
            start_ns = run.clock.now_ns()
            net.send_frames("h1", [start_ns, start_ns + 1234], [bytes(ping)] * 2)
            await asyncio.sleep(0.1)
        times_ns, frames = pcap.read_frames(net.capture("s1", "h1", "in"))
        assert (times_ns, frames) == ([0, 1234], [bytes(ping)] * 2)
        with Network(Pair(delay_us=10), run, program=WIRE, name="second") as net:
            start_ns = run.clock.now_ns()
            net.send_frames("h1", [start_ns + time_ns for time_ns in times_ns], frames)
            await asyncio.sleep(0.1)
        answers = pcap.read(net.capture("s1", "h1", "out"))
        assert list(answers.time_ns) == [start_ns + 20_000, start_ns + 21_234]

    virtually(tmp_path, main)


def test_frames_that_are_due_long_after_the_end_are_not_sent(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(delay_us=10), run, program=WIRE) as net:
            now_ns = run.clock.now_ns()
            times_ns = [now_ns, now_ns + 10**9, now_ns + 10**9 + 1, now_ns + 3600 * 10**9]
            net.send_frames("h1", times_ns, [bytes(60)] * 4)
        assert list(pcap.read(net.capture("s1", "h1", "in")).time_ns) == times_ns[:2]
        assert run.clock.now_ns() == times_ns[1]

    virtually(tmp_path, main)


@pytest.mark.parametrize("ago_s", [1e-9, 0.5, 1e6])
def test_flows_cannot_begin_in_the_past(tmp_path: Path, ago_s: float) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(), run, program=WIRE) as net:
            start_ns = run.clock.now_ns() - round(ago_s * 1e9)
            async with Traffic(net, [Flow(1, "h1", "h2", 1000, 10)], start_ns):
                pass

    words = f"flow 1 of h1: start time is {ago_s:g} s too early, before all"
    with pytest.raises(TestbedError, match=re.escape(words)):
        virtually(tmp_path, main)


def test_captures_that_cannot_be_sent_again_say_why(tmp_path: Path) -> None:
    ping = Ether() / IP() / ICMP()
    wrpcapng(str(tmp_path / "ng"), [ping])
    wrpcap(str(tmp_path / "ip"), [ping[IP]], linktype=101)
    wrpcap(str(tmp_path / "long"), [ping])
    data = bytearray((tmp_path / "long").read_bytes())
    data[32] -= 1  # the original length of the frame; the next line shortens the captured part
    data[36] -= 2
    (tmp_path / "long").write_bytes(data)
    for name, why in (("ng", "pcapng"), ("ip", "link type 101; expected"), ("long", "trunc"),
                      ("nowhere", "No such file")):  # fmt: skip
        with pytest.raises(TestbedError, match=why):
            pcap.read_frames(tmp_path / name)


def test_what_is_no_capture_cannot_be_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "no-capture"
    path.write_text("this is text, and long enough for a header")
    with pytest.raises(TestbedError, match="no-capture"):
        pcap.read_frames(path)


def test_each_switch_may_have_a_clock_of_its_own(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        options = {"s2": ["--clock-offset-us", "-70", "--clock-drift-ppb", "50000"]}
        with Network(Pair(), run, program=CONTROL, switch_options=options) as net:
            stamps = []
            async with connection(net, "s1") as s1, connection(net, "s2") as s2:
                await s1.write([+fy.P4TableEntry("route", match=fy.Match(), action=TO_H2)])
                flow = Flow(1, "h1", "h2", rate_pps=1, count=5)
                async with Traffic(net, [flow], run.clock.now_ns()) as traffic:
                    await traffic.finish()
                for switch in (s1, s2):
                    (seen,) = [
                        r async for r in switch.read(fy.P4RegisterEntry("last_seen", index=0))
                    ]
                    stamps.append(seen.data)
        # the last datagram was sent 4 s after the first, and 5 s after the start of the clock
        assert stamps == [5_000_000, 5_000_000 - 70 + 250]

    virtually(tmp_path, main)
