"""The virtual network is exact to the nanosecond, reproducible, and as queueing theory predicts."""

import ctypes
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lines import ADDRESS, MAC, START_NS, Line, wire
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet
from scapy.utils import rdpcap

from minip4.engine.errors import EngineError, InvalidArgument
from minip4.runtime.switch.options import LinkOptions
from minip4.runtime.switch.port_settings import set_link
from minip4.simulator.shared import Stop
from minip4.simulator.virtual import FlowResult, FlowSpec, Virtual


def delays(result: FlowResult) -> np.ndarray:
    return (result.received["received_ns"] - result.received["sent_ns"]).astype(np.int64)


@pytest.mark.parametrize("payload", [22, 958, 1458])
def test_delay_is_exact_to_the_nanosecond(payload: int) -> None:
    line = Line({"rate_bps": 10**9, "delay_us": 123.456}, {"delay_us": 7.001}, {})
    flow = line.flow(1000, 50_000, payload)
    line.run()
    result = line.virtual.flow_result(flow)
    assert len(result.received) == 1000
    assert set(delays(result)) == {(42 + payload) * 8 + 123_456 + 7_001}
    assert np.array_equal(result.sent["sent_ns"], START_NS + 20_000 * np.arange(1000))
    line.virtual.close()


def test_the_counts_of_a_flow_are_known_while_it_runs() -> None:
    """At 10 us per packet, 3 packets are on a link of 25 us; reading the counts changes nothing."""
    line = Line({"delay_us": 25})
    flow = line.flow(1000)
    line.run(1e-3 + 1e-6)
    assert line.virtual.flow_counts(flow) == (101, 98)
    line.run(2e-3 + 1e-6)
    assert line.virtual.flow_counts(flow) == (201, 198)
    line.run()
    assert line.virtual.flow_counts(flow) == (1000, 1000)
    result = line.virtual.flow_result(flow)
    assert np.array_equal(result.received["sequence"], np.arange(1000))
    line.virtual.close()


def test_queueing_delay_is_that_of_md1() -> None:
    """The mean wait in a queue with Poisson arrivals is that of M/D/1 (Pollaczek and Khinchine).

    The mean wait is rho / (2 (1 - rho)) service times, where rho is the load.
    """
    count, service_ns = 1_000_000, 8000  # frames of 1000 bytes at 1 Gbit/s
    rng = np.random.default_rng(5)
    for load in (0.5, 0.8):
        line = Line({"rate_bps": 10**9, "queue_packets": 10**6})
        due_ns = np.cumsum(rng.exponential(service_ns / load, count)).astype(np.uint64)
        flow = line.flow(count, payload=1000 - 42, due_ns=due_ns)
        line.run()
        result = line.virtual.flow_result(flow)
        assert np.array_equal(result.received["sequence"], np.arange(count))
        waits_ns = delays(result) - service_ns
        assert waits_ns.min() == 0
        assert waits_ns.mean() == pytest.approx(load / (2 * (1 - load)) * service_ns, rel=0.01)
        line.virtual.close()


def test_a_burst_waits_in_the_queue_and_the_rest_is_dropped() -> None:
    line = Line({"rate_bps": 10**9, "queue_packets": 10})
    flow = line.flow(20, payload=1000 - 42, due_ns=np.zeros(20, np.uint64))
    line.run()
    result = line.virtual.flow_result(flow)
    # The link sends one frame, and ten wait. The queue drops the others.
    assert list(delays(result)) == [8000 * (i + 1) for i in range(11)]
    line.virtual.close()


def test_frames_beyond_the_memory_end_the_run() -> None:
    line = Line({"delay_us": 1000})
    assert line.virtual.max_packets * 12_000 < 8e9  # 12,000 bytes: the pages of a jumbo frame
    line.limit_packets(64)
    flow = line.flow(100)
    line.virtual.send_frames(line.hosts[0], [START_NS + 10**6] * 2, [bytes(60)] * 2)
    assert line.virtual.run(START_NS + 10**9) is Stop.SHORT
    assert line.virtual.run(START_NS + 10**9) is Stop.SHORT
    with pytest.raises(EngineError, match="out of memory"):
        line.virtual.flow_result(flow)
    line.virtual.close()


def digest_of(seed: int, *links: dict[str, float]) -> str:
    line = Line(*links, seed=seed)
    flow = line.flow(5000)
    line.run()
    received = line.virtual.flow_result(flow).received.tobytes()
    line.virtual.close()
    return hashlib.sha256(received).hexdigest()


def test_ten_runs_are_the_same_to_the_last_bit() -> None:
    links: list[dict[str, float]] = [
        {"loss_probability": 0.1, "delay_us": 500, "jitter_us": 400},
        {"rate_bps": 10**8, "delay_us": 50, "reorder_probability": 0.1, "reorder_us": 300},
    ]
    assert len({digest_of(1, *links) for _ in range(10)}) == 1
    assert digest_of(2, *links) != digest_of(1, *links)


def test_dice_of_one_link_do_not_move_those_of_another() -> None:
    def lost(second: dict[str, float]) -> set[int]:
        line = Line({"loss_probability": 0.05}, second)
        flow = line.flow(2000)
        line.run()
        result = line.virtual.flow_result(flow)
        missing = set(result.sent["sequence"]) - set(result.received["sequence"])
        line.virtual.close()
        return missing

    first = lost({})
    assert 50 < len(first) < 150
    assert first < lost({"loss_probability": 0.2})


def test_another_engine_may_take_over() -> None:
    line = Line({"delay_us": 100})
    flow = line.flow(1000, rate_pps=1e6)
    line.run(0.0005)
    line.virtual.install(line.switches[0], line.engine({}))  # the frames in flight still arrive
    line.run()
    result = line.virtual.flow_result(flow)
    assert len(result.received) == 1000
    by_sequence = delays(result)[np.argsort(result.received["sequence"])]
    assert list(by_sequence) == [100_000] * 501 + [0] * 499
    line.virtual.close()


def test_frames_in_a_link_are_known() -> None:
    """The network reports how many frames and bytes are in flight on a link.

    This also holds after the settings of the link changed, and after the link was removed.
    """
    line = Line({"delay_us": 100})
    flow = line.flow(10, rate_pps=1e6)
    line.run(2.5e-6)
    engine = line.virtual._engines[line.switches[0]]
    assert line.virtual.flying(line.switches[0], 2) == (3, 3 * 64)
    assert line.virtual.flying(line.switches[0], 1) == (0, 0)
    set_link(engine, LinkOptions(2, delay_us=50))
    line.run(6.5e-6)
    with engine.locked():
        engine.library.engine_set_link(engine.handle, ctypes.c_uint16(2), None)
    line.run(100e-6)
    assert line.virtual.flying(line.switches[0], 2) == (6, 6 * 64)
    line.run()
    assert line.virtual.flying(line.switches[0], 2) == (0, 0)
    result = line.virtual.flow_result(flow)
    by_sequence = delays(result)[np.argsort(result.received["sequence"])]
    in_order = [102_000 - 1000 * number for number in range(3, 7)]  # none overtakes the third one
    assert list(by_sequence) == [100_000] * 3 + in_order + [0] * 3
    line.virtual.close()


# --- hosts --------------------------------------------------------------------------------------


def exchanged(tmp_path: Path, *frames: Packet | bytes) -> tuple[list[Packet], dict[str, int]]:
    """Send frames from h1 to h2. Return the responses of h2, and its counters."""
    virtual = Virtual(START_NS, sanitize="SANITIZE" in os.environ)
    hosts = [virtual.add_host(*host) for host in zip(MAC, ADDRESS, strict=True)]
    switch = virtual.add_switch()
    virtual.connect(hosts[0], 0, switch, 1)
    virtual.connect(switch, 2, hosts[1], 0)
    virtual.capture(switch, 2, "in", tmp_path / "answers.pcap")
    virtual.install(switch, virtual.prepare(wire().another()))
    virtual.send_frames(hosts[0], [START_NS] * len(frames), [bytes(frame) for frame in frames])
    virtual.run(START_NS + 1)
    counters = virtual.host_counters(hosts[1])
    virtual.close()
    return list(rdpcap(str(tmp_path / "answers.pcap"))), counters


ETHER = Ether(src=MAC[0], dst=MAC[1])
TO_H2 = ETHER / IP(src=ADDRESS[0], dst=ADDRESS[1])


def test_a_host_answers_arp(tmp_path: Path) -> None:
    ask = Ether(src=MAC[0], dst="ff:ff:ff:ff:ff:ff") / ARP(
        op="who-has", hwsrc=MAC[0], psrc=ADDRESS[0], pdst=ADDRESS[1]
    )
    for_another = ask.copy()
    for_another[ARP].pdst = "10.0.0.9"
    (answer,), _ = exchanged(tmp_path, ask, for_another)
    assert (answer.dst, answer.src) == MAC
    arp = answer[ARP]
    assert (arp.op, arp.hwsrc, arp.psrc) == (2, MAC[1], ADDRESS[1])
    assert (arp.hwdst, arp.pdst) == (MAC[0], ADDRESS[0])


def test_a_host_answers_pings(tmp_path: Path) -> None:
    ping = TO_H2 / ICMP(type="echo-request", id=7, seq=3) / b"are you there?"
    (answer,), _ = exchanged(tmp_path, ping)
    assert (answer[IP].src, answer[IP].dst) == ADDRESS[::-1]
    assert (answer[ICMP].type, answer[ICMP].id, answer[ICMP].seq) == (0, 7, 3)
    assert bytes(answer[ICMP].payload) == b"are you there?"
    checked = answer.copy()
    del checked[IP].chksum, checked[ICMP].chksum
    assert bytes(checked) == bytes(answer)


@pytest.mark.parametrize(
    ("frame", "counter"),
    [
        (Ether(src=MAC[0], dst="00:00:00:00:00:09") / IP(dst=ADDRESS[1]), "other_addresses"),
        (ETHER / IP(dst="10.0.0.9") / UDP(), "other_addresses"),
        (TO_H2 / UDP(dport=9) / b"closed", "unclaimed"),
        (TO_H2 / UDP(dport=9, chksum=1) / b"closed", "checksum_errors"),
        (TO_H2 / UDP(dport=9, len=4) / b"closed", "checksum_errors"),
        (TO_H2 / UDP(dport=9, len=400) / b"closed", "checksum_errors"),
        (TO_H2 / ICMP(chksum=1), "checksum_errors"),
        (ETHER / IP(src=ADDRESS[0], dst=ADDRESS[1], chksum=1) / UDP(), "header_errors"),
        (ETHER / IP(src=ADDRESS[0], dst=ADDRESS[1], len=900) / UDP(), "header_errors"),
        (ETHER / IP(src=ADDRESS[0], dst=ADDRESS[1], ihl=15) / UDP(), "header_errors"),
        (ETHER / IP(src=ADDRESS[0], dst=ADDRESS[1], frag=2) / UDP(), "unclaimed"),
        (TO_H2 / UDP() / (b"x" * 9), "unclaimed"),
        (Ether(bytes(ETHER)[:12] + b"\x08\x00"), "header_errors"),
        (Ether(src=MAC[0], dst=MAC[1], type=0x0806) / b"no ARP", "header_errors"),
        (Ether(src=MAC[0], dst=MAC[1], type=0x9999) / b"what?", "unclaimed"),
    ],
)
def test_hosts_count_frames_that_they_ignore(frame: Packet, counter: str, tmp_path: Path) -> None:
    answers, counters = exchanged(tmp_path, frame)
    assert not answers
    expected = dict.fromkeys(counters, 0) | {"received": 1, counter: 1}
    assert counters == expected


def test_runts_do_no_harm(tmp_path: Path) -> None:
    whole = bytes(TO_H2 / UDP(dport=9) / b"closed")
    cut = [whole[:length] for length in range(len(whole))]
    _, counters = exchanged(tmp_path, *cut)
    assert counters["received"] == len(cut)
    assert counters["unclaimed"] == 0


@pytest.mark.parametrize(
    "refused",
    [
        lambda line: (line.flow(10), line.flow(10)),
        lambda line: line.flow(2, due_ns=np.array([5, 4], np.uint64)),
        lambda line: line.flow(2, due_ns=np.array([5], np.uint64)),
        lambda line: line.virtual.send_frames(line.hosts[0], [1], [bytes(9217)]),
        lambda line: line.virtual.send_frames(line.hosts[0], [2, 1], [b"a", b"b"]),
    ],
)
def test_invalid_flows_and_frames_are_refused(refused: Callable[[Line], object]) -> None:
    line = Line({})
    with pytest.raises(InvalidArgument):
        refused(line)
    line.virtual.close()


def test_a_host_has_one_port() -> None:
    virtual = Virtual(START_NS, sanitize="SANITIZE" in os.environ)
    host, switch = virtual.add_host(MAC[0], ADDRESS[0]), virtual.add_switch()
    with pytest.raises(EngineError, match="port other than 0"):
        virtual.connect(host, 1, switch, 1)
    virtual.connect(host, 0, switch, 1)
    assert virtual.ports(host) == [0]
    virtual.close()


def test_ports_are_free_again_after_a_flow() -> None:
    line = Line({})
    for _ in range(3):
        numbers = [
            line.virtual.add_flow(
                FlowSpec(*line.hosts, 1, 1000, port, 0, 22, 3, line.virtual.now_ns, 1e6)
            )
            for port in range(5000, 5100)
        ]
        line.virtual.run(line.virtual.now_ns + 10**9)
        for number in numbers:
            assert len(line.virtual.flow_result(number).received) == 3
            line.virtual.remove_flow(number)
    line.virtual.close()


@pytest.mark.parametrize(
    "ask",
    [
        lambda virtual: virtual.partitions,
        lambda virtual: virtual.run(2 * START_NS),
        lambda virtual: virtual.flow_result(0),
        lambda virtual: virtual.inboxes.take(0),
        lambda virtual: virtual.connections.result(0),
    ],
    ids=["partitions", "run", "a flow", "an inbox", "a connection"],
)
def test_a_network_that_has_ended_is_not_asked(ask: Callable[[Virtual], object]) -> None:
    """Each use of a closed network is an error, because its memory may belong to other data."""
    line = Line({})
    line.virtual.close()
    with pytest.raises(EngineError, match="the network is closed; use it inside its `with` block"):
        ask(line.virtual)
    line.virtual.close()
