"""Ping and traceroute as applications."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaded import StartExperiment
from scapy.layers.inet import ICMP, IP, icmptypes
from virtual_networks import WIRE, Pair, virtually

from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.icmp import Hop, Ping, PingRecord, Traceroute, answered_request, echo_request
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.received import Datagram

MS = 1_000_000


def test_scapy_reads_echo_requests() -> None:
    request = ICMP(echo_request(7, 300, b"abc"))
    assert (request.id, request.seq, bytes(request.payload)) == (7, 300, b"abc")
    assert icmptypes[request.type] == "echo-request"
    right = request.chksum
    del request.chksum
    assert ICMP(bytes(request)).chksum == right


def received(message: bytes) -> Datagram:
    return Datagram(0, "10.0.0.9", 0, message, 0, 0, 64)


def test_answers_name_their_request() -> None:
    request = bytes(ICMP(type="echo-request", id=7, seq=300))
    assert answered_request(received(bytes(ICMP(type="echo-reply", id=7, seq=300)))) == (7, 300)
    quoted = IP(src="10.0.0.1", dst="10.0.0.2", proto=1) / request
    assert answered_request(received(bytes(ICMP(type="time-exceeded") / quoted))) == (7, 300)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        bytes(7),
        bytes(ICMP(type="dest-unreach")) + bytes(40),
        bytes(ICMP(type="time-exceeded")),  # without the packet
        bytes(ICMP(type="time-exceeded")) + b"\x4f" + bytes(27),  # header longer than the packet
        bytes(ICMP(type="time-exceeded")) + b"\x45" + bytes(27),  # of another ICMP message
    ],
)
def test_other_messages_answer_nothing(message: bytes) -> None:
    assert answered_request(received(message)) is None


def test_round_trips_are_exact_in_virtual_time(tmp_path: Path) -> None:
    topo = Pair(params1={"delay_us": 500.5}, params2={"delay_us": 700})

    async def main(run: Run) -> tuple[PingRecord, PacketAccounting]:
        with Network(topo, run, program=WIRE) as net:
            ping = Ping(net.host("h2").IP(), count=20, interval_us=1000)
            running = net.run_application("h1", ping)
            await run.clock.sleep_until(run.clock.now_ns() + 100 * MS)
        return running.result, PacketAccounting.from_network(net, {})

    record, accounting = virtually(tmp_path / "run", main)
    assert record.lost == 0
    assert set(record.round_trip_ns) == {1_200_500}
    assert np.diff(record.sent_ns).tolist() == [MS] * 19
    assert set(record.replies["ttl"]) == {64}
    assert record.packet_bytes == 84
    assert all(check.passed for check in accounting.checks())


def test_ping_counts_losses(tmp_path: Path) -> None:
    async def main(run: Run) -> tuple[PingRecord, int]:
        with Network(Pair(loss_probability=0.1), run, program=WIRE) as net:
            ping = Ping(net.host("h2").IP(), count=200, interval_us=1000)
            running = net.run_application("h1", ping)
            await run.clock.sleep_until(run.clock.now_ns() + 300 * MS)
        return running.result, sum(PacketAccounting.from_network(net, {}).lost_by_links.values())

    record, lost = virtually(tmp_path / "run", main)
    assert record.lost == lost > 0


def test_a_host_has_one_application_for_icmp_in_virtual_time(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(), run, program=WIRE) as net:
            for _ in range(2):
                net.run_application("h1", Ping(net.host("h2").IP(), count=1, interval_us=1000))

    with pytest.raises(TestbedError, match="ICMP of the host: another application receives it"):
        virtually(tmp_path / "run", main)


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 65537}, {"interval_us": 0}])
def test_ping_rejects_invalid_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(TestbedError, match="ping: count"):
        Ping("10.0.0.2", **{"count": 1, "interval_us": 1.0} | wrong)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Ping("10.0.0.2", count=1, interval_us=1, identifier=65536), "identifier 65536"),
        (lambda: Ping("10.0.0.2", count=1, interval_us=1, payload_bytes=-1), "payload_bytes -1"),
        (lambda: Traceroute("10.0.0.2", identifier=-1), "traceroute: identifier -1"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(make: Callable[[], object], why: str) -> None:
    with pytest.raises(TestbedError, match=why):
        make()


def test_replies_of_other_hosts_are_ignored() -> None:
    """In real time, the applications of a host receive each other's replies."""
    reply = bytes(ICMP(type="echo-reply", id=7, seq=0))
    applications: list[Any] = [
        Ping("10.0.0.2", count=1, interval_us=1, identifier=7), Traceroute("10.0.0.2", identifier=7)
    ]  # fmt: skip
    for application in applications:
        application._sent_ns.append(0)
        application._take([received(reply)])
    assert applications[0].result().lost == 1
    assert applications[1].result() == [Hop(1, [], [], False)]
    for application in applications:
        application._take([received(reply)._replace(address="10.0.0.2")])
    assert applications[0].result().lost == 0
    assert applications[1].result() == [Hop(1, ["10.0.0.2"], [0], True)]


def test_replies_without_a_request_are_ignored() -> None:
    reply = bytes(ICMP(type="echo-reply", id=7, seq=1))
    applications: list[Any] = [
        Ping("10.0.0.9", count=2, interval_us=1, identifier=7), Traceroute("10.0.0.9", identifier=7)
    ]  # fmt: skip
    for application in applications:
        application._sent_ns.append(0)
        application._take([received(reply)])
    assert applications[0].result().lost == 1
    assert applications[1].result() == [Hop(1, [], [], False)]


def test_the_first_of_several_replies_counts() -> None:
    ping: Any = Ping("10.0.0.9", count=1, interval_us=1, identifier=7)
    ping._sent_ns.append(0)
    reply = received(bytes(ICMP(type="echo-reply", id=7, seq=0)))
    ping._take([reply._replace(time_ns=5), reply._replace(time_ns=9)])
    assert ping.result().round_trip_ns.tolist() == [5]


def test_traceroute_stops_after_the_destination_has_answered(tmp_path: Path) -> None:
    """The P4 program does not change the TTL, so the destination is one hop away."""

    async def main(run: Run) -> list[Hop]:
        with Network(Pair(delay_us=500), run, program=WIRE) as net:
            running = net.run_application("h1", Traceroute(net.host("h2").IP(), probes=2))
            await run.clock.sleep_until(run.clock.now_ns() + 1000 * MS)
        return running.result  # type: ignore[no-any-return]

    assert virtually(tmp_path / "run", main) == [Hop(1, ["10.0.0.2"], [MS, MS], True)]


HEAD = """
from controllers.connection import connection
from controllers.routing import routing_entries, shortest_routes
from dataclasses import asdict
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.icmp import Ping, Traceroute
from telemark.apps.stamp.reflector import StampReflector
from telemark.apps.stamp.sender import StampSender
from telemark.network import Network
from topologies.basic import Line
"""
# two routers between the hosts
ROUTED = """
net = Network(Line(switches=2, delay_us=2000), run, program="p4src/routing/router.p4",
              expected_drops=["ingress"])
with net:
    for name in ("s1", "s2"):
        async with connection(net, name) as controller:
            routes = shortest_routes(net, name)
            await controller.write([+entry for entry in routing_entries(net, name, routes)])
    h1, h2 = net.host("h1").IP(), net.host("h2").IP()
    ping = net.run_application("h1", Ping(h2, count=10, interval_us=5000))
    trace = net.run_application("h2", Traceroute(h1, timeout_us=50_000))
    net.run_application("h1", StampReflector())
    stamp = net.run_application("h2", StampSender(h1, count=3, interval_us=5000))
    await run.clock.sleep_until(run.clock.now_ns() + 400_000_000)
    by_program = net.host("h1").cmd(f"ping -c 3 -i 0.01 {h2}") if MININET else ""
metrics = {"round_trip_ns": ping.result.round_trip_ns.tolist(), "program": by_program,
           "trace": [asdict(hop) for hop in trace.result], "h1": h1,
           "ttl": stamp.result.replies["ttl"].tolist()}
checks = PacketAccounting.from_network(net, {}).checks()
return Report(samples=[], checks=checks, metrics=metrics)
"""


@pytest.mark.parametrize("time", ["virtual", "real"])
def test_probes_count_routers_in_real_and_in_virtual_time(
    start_experiment: StartExperiment, tmp_path: Path, time: str
) -> None:
    """The program `ping` on a Mininet host measures the same path."""
    head = f"{HEAD}MININET = {time == 'real'}\n"
    process = start_experiment(ROUTED, "--time", time, "--out", str(tmp_path), head=head)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    found = json.loads((tmp_path / "summary.json").read_text())["metrics"]
    assert len(found["round_trip_ns"]) == 10
    assert min(found["round_trip_ns"]) >= 4 * MS
    assert found["ttl"] == [253] * 3
    # Switches do not answer. On a loaded machine, an answer may come after the next TTL was sent.
    trace = [(hop["addresses"], hop["is_destination"]) for hop in found["trace"]]
    assert trace[:2] == [([], False)] * 2
    assert trace[2] == ([found["h1"]], True)
    if time == "real":
        assert "3 packets transmitted, 3 received" in found["program"]
        fastest_ms = re.search(r"= ([\d.]+)/", found["program"])
        assert fastest_ms
        assert float(fastest_ms[1]) >= 4
