"""Networks in virtual time are inspected and changed at an exact point in time."""

import asyncio
from pathlib import Path
from typing import Any

import finsy as fy
import numpy as np
import pytest
from mininet.topo import Topo
from virtual_networks import PROGRAMS, WIRE, Pair, virtually

from controllers.connection import connection
from minip4.errors import Minip4Error
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic

EXTRAS = PROGRAMS / "runtime" / "programs" / "extras.p4"
MS = 1_000_000


def test_links_and_queues_change_at_an_instant(tmp_path: Path) -> None:
    """The delay and the loss of a link change at an exact point in time.

    A host sends 100 datagrams, one per millisecond, numbered from 0. The delay changes just before
    number 40, and the loss just before number 70.
    """

    async def main(run: Run) -> None:
        with Network(Pair(delay_us=100), run, program=WIRE) as net:
            start_ns = run.clock.now_ns()
            async with Traffic(net, [Flow(1, "h1", "h2", 1000, 100)], start_ns) as traffic:
                await run.clock.sleep_until(start_ns + 40 * MS - 1)
                net.switch("s1").set_link(net.port("s1", "s2"), delay_us=2500.5)
                await run.clock.sleep_until(start_ns + 70 * MS - 1)
                net.switch("s1").set_link(net.port("s1", "s2"), loss_probability=1.0)
                records = await traffic.finish()
        received = records[1].received
        delays = (received["received_ns"] - received["sent_ns"]).astype(int)
        assert list(delays) == [100_000] * 40 + [2_500_500] * 30
        lost = pcap.read_flow(net.capture("s1", "s2", "lost"), records[1].flow)
        assert list(lost.sequence) == list(range(70, 100))
        assert all(check.passed for check in PacketAccounting.from_network(net, records).checks())

    virtually(tmp_path, main)


def test_counters_are_those_of_the_instant(tmp_path: Path) -> None:
    """Counters that are read during a run show the state at that point in time.

    A frame of 64 B takes 64 us. Of ten frames that arrive together, one is on the wire, four wait,
    and five are dropped.
    """

    async def main(run: Run) -> None:
        with Network(Pair(rate_bps=8_000_000, delay_us=1000), run, program=WIRE) as net:
            s1, port = net.switch("s1"), net.port("s1", "s2")
            s1.set_queue(port, depth=4)
            start_ns = run.clock.now_ns()
            async with Traffic(net, [Flow(1, "h1", "h2", 1e8, 10)], start_ns) as traffic:
                await run.clock.sleep_until(start_ns + 1000)
                seen = s1.read_counters()["ports"][str(port)]
                assert (seen["link"]["sent_packets"], seen["link"]["delivered_packets"]) == (1, 0)
                assert (seen["enqueued_now"], seen["queues"]["0"]["packets"]) == (4, 4)
                assert seen["queues"]["0"]["drops"] == seen["queue_drops"] == 5
                await run.clock.sleep_until(start_ns + 64_000 + 1_000_000 - 1)
                assert s1.read_counters()["ports"][str(port)]["link"]["delivered_packets"] == 0
                await run.clock.sleep_until(start_ns + 64_000 + 1_000_000)
                assert s1.read_counters()["ports"][str(port)]["link"]["delivered_packets"] == 1
                records = await traffic.finish()
        assert len(records[1].received) == 5
        with pytest.raises(
            TestbedError, match="switch s1: not running; call it inside its network"
        ):
            s1.read_counters()

    virtually(tmp_path, main)


def test_a_program_pushed_anew_has_other_dice(tmp_path: Path) -> None:
    """When the program is pushed again, the losses of a link get new random numbers.

    The link then loses other packets than before. In two runs with the same seed, it loses the same
    packets.
    """

    async def main(run: Run) -> tuple[set[int], set[int]]:
        with Network(Pair(loss_probability=0.2), run, program=WIRE) as net:
            s1, start_ns = net.switch("s1"), run.clock.now_ns()
            options = fy.SwitchOptions(
                p4info=s1.p4info_path, p4blob=s1.blob_path, p4force=True, device_id=s1.device_id
            )
            async with Traffic(net, [Flow(1, "h1", "h2", 1000, 1000)], start_ns) as traffic:
                await run.clock.sleep_until(start_ns + 500 * MS - 1)
                s1.set_link(net.port("s1", "s2"), delay_us=10)  # does not change the random numbers
                async with fy.Switch("s1", s1.grpc_address, options):
                    s1.set_link(net.port("s1", "s2"), delay_us=20)
                lost = (await traffic.finish())[1].lost_sequences.tolist()
        return {n for n in lost if n < 500}, {n - 500 for n in lost if n >= 500}

    before, after = virtually(tmp_path / "a", main)
    assert (before, after) == virtually(tmp_path / "b", main)
    assert 70 < len(before) < 130  # expected: 100; bounds of 3 standard deviations, also below
    assert 70 < len(after) < 130
    # Independent losses have a fifth of a fifth of the packets in common: 20, standard deviation 4.
    assert len(before & after) < 40


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"port": 9, "loss_probability": 0.1}, "the switch has no port 9"),
        ({"port": 1, "los": 0.1}, "los"),
        ({"port": 1, "loss_probability": 1.5}, "loss_probability"),
    ],
)
def test_changes_that_cannot_be_are_refused(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(), run, program=WIRE) as net:
            net.switch("s1").set_link(**changes)

    with pytest.raises((Minip4Error, TestbedError), match=words):
        virtually(tmp_path, main)


def test_what_a_switch_does_with_packets_is_traced(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        options = {"s2": ["--trace", str(tmp_path / "s2.trace")]}
        with Network(Pair(delay_us=7), run, program=WIRE, switch_options=options) as net:
            start_ns = run.clock.now_ns()
            async with Traffic(net, [Flow(1, "h1", "h2", 1e5, 1000)], start_ns) as traffic:
                await run.clock.sleep_until(start_ns + 5 * MS)
                half = (tmp_path / "s2.trace").read_text().count(": in at port 1")
                records = await traffic.finish()
        assert len(records[1].received) == 1000
        blocks = (tmp_path / "s2.trace").read_text().strip().split("\n\n")
        assert len(blocks) == 1000, blocks[-1]
        assert half == 500  # packet i arrives at i * 10 + 7 us
        assert blocks[0].startswith("packet 1: in at port 1, 64 bytes, at 1.000007000 s\n")

    virtually(tmp_path, main)


class Single(Topo):
    def build(self) -> None:
        switch = self.addSwitch("s1")
        self.addLink(self.addHost("h1"), switch)
        self.addLink(self.addHost("h2"), switch)


def test_digests_reach_the_controller_in_virtual_time(tmp_path: Path) -> None:
    """A digest list reaches the controller 20 ms after its first entry, in virtual time.

    The list is not sent again, because the controller has not acknowledged it.
    """

    async def main(run: Run) -> list[tuple[int, int]]:
        seen = []
        with Network(Single(), run, program=EXTRAS) as net:
            async with connection(net, "s1") as s1:
                await s1.write([
                    +fy.P4DigestEntry("learnt_t", max_list_size=10, max_timeout_ns=20 * MS,
                                      ack_timeout_ns=10**12)
                ])  # fmt: skip

                async def learn() -> None:
                    async for digest in s1.read_digests("learnt_t"):
                        seen.append((run.clock.now_ns() - start_ns, len(digest.data)))

                learning = asyncio.create_task(learn())
                await asyncio.sleep(0)
                start_ns = run.clock.now_ns()
                async with Traffic(net, [Flow(1, "h1", "h2", 1000, 50)], start_ns) as traffic:
                    await traffic.finish()
                learning.cancel()
        return seen

    seen = virtually(tmp_path, main)
    assert len(seen) == 1
    assert 20 * MS <= seen[0][0] <= 40 * MS
    assert seen[0][1] == 1
    assert seen == virtually(tmp_path / "again", main)


def test_programs_of_hosts_are_refused(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(), run, program=WIRE) as net:
            net.host("h1").popen(["iperf3", "-c", net.host("h2").IP()])

    with pytest.raises(
        TestbedError, match=r"host h1: cannot run programs in virtual time; use --time real"
    ):
        virtually(tmp_path, main)


def test_registers_are_read_at_any_time_without_disturbing(tmp_path: Path) -> None:
    """A run gives the same results if its counters are read every millisecond."""

    async def main(run: Run, *, inspected: bool) -> np.ndarray:
        with Network(
            Pair(loss_probability=0.1, delay_us=300, jitter_us=200), run, program=WIRE
        ) as net:
            start_ns = run.clock.now_ns()
            async with Traffic(net, [Flow(1, "h1", "h2", 5000, 500)], start_ns) as traffic:
                for step in range(100 if inspected else 0):
                    await run.clock.sleep_until(start_ns + step * MS)
                    net.switch("s1").read_counters()
                records = await traffic.finish()
        return records[1].received

    plain = virtually(tmp_path / "a", lambda run: main(run, inspected=False))
    assert np.array_equal(plain, virtually(tmp_path / "b", lambda run: main(run, inspected=True)))
    assert 400 < len(plain) < 490
