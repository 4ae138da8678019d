"""STAMP between two hosts: loss and delay against ground truth, in real and in virtual time."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaded import StartExperiment
from virtual_networks import WIRE, Pair, virtually

from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.ipv6 import Ipv6Host
from telemark.apps.stamp import tlvs
from telemark.apps.stamp.packets import TimestampFormat
from telemark.apps.stamp.reflector import StampReflector
from telemark.apps.stamp.sender import SessionRecord, StampSender
from telemark.apps.stamp.statistics import PathMeasurement, measure_direct_loss, measure_path
from telemark.network import Network
from telemark.session.run import Run

MS = 1_000_000


async def session(
    run: Run, topo: Pair, count: int, *, reflector: dict[str, Any] | None = None, **sender: Any
) -> tuple[Network, SessionRecord]:
    """Run a session from h1 to h2 with one packet per millisecond."""
    with Network(topo, run, program=WIRE) as net:
        net.run_application("h2", StampReflector(**(reflector or {})))
        running = net.run_application(
            "h1", StampSender(net.host("h2").IP(), count=count, interval_us=1000, **sender)
        )
        await run.clock.sleep_until(run.clock.now_ns() + (count + 100) * MS)
    checks = PacketAccounting.from_network(net, {}).checks()
    assert all(check.passed for check in checks), checks
    return net, running.result


def lost_frames(net: Network, near: str, far: str) -> int:
    return len(pcap.read(net.capture(near, far, "lost")).time_ns)


@pytest.mark.parametrize("timestamps", list(TimestampFormat))
def test_delays_are_exact_in_virtual_time(tmp_path: Path, timestamps: TimestampFormat) -> None:
    """The link has a different delay in each direction, and neither is a whole number of us."""
    topo = Pair(params1={"delay_us": 500.123}, params2={"delay_us": 700.007})

    async def main(run: Run) -> PathMeasurement:
        _, record = await session(
            run, topo, 50, timestamps=timestamps, reflector={"timestamps": timestamps}
        )
        return measure_path(record)

    path = virtually(tmp_path / "run", main)
    assert path.lost == 0
    assert set(path.forward_ns) == {500_123}
    assert set(path.backward_ns) == {700_007}
    assert set(path.round_trip_ns) == {1_200_130}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_losses_are_located_exactly_in_virtual_time(tmp_path: Path, seed: int) -> None:
    topo = Pair(params1={"loss_probability": 0.2}, params2={"loss_probability": 0.1})

    async def main(run: Run) -> tuple[PathMeasurement, int, int]:
        net, record = await session(run, topo, 500)
        return measure_path(record), lost_frames(net, "s1", "s2"), lost_frames(net, "s2", "s1")

    path, forward, backward = virtually(tmp_path / "run", main, seed)
    assert path.sent == 500
    assert path.lost == forward + backward > 0
    # only losses after the last reply cannot be located
    assert path.lost_forward <= forward
    assert path.lost_backward <= backward
    tail = 499 - int(path.sequence[-1])
    assert forward + backward - path.lost_forward - path.lost_backward == path.lost_unlocated
    assert path.lost_unlocated == tail


def test_a_stateless_reflector_cannot_locate_losses(tmp_path: Path) -> None:
    async def main(run: Run) -> tuple[PathMeasurement, int]:
        net, record = await session(
            run, Pair(loss_probability=0.1), 200, reflector={"stateful": False},
            stateful_reflector=False,
        )  # fmt: skip
        return measure_path(record), lost_frames(net, "s1", "s2") + lost_frames(net, "s2", "s1")

    path, lost = virtually(tmp_path / "run", main)
    assert path.lost_unlocated == path.lost == lost > 0
    assert path.lost_forward == path.lost_backward == 0


def test_the_reflector_reports_the_ttl_and_keeps_the_dscp(tmp_path: Path) -> None:
    async def main(run: Run) -> SessionRecord:
        return (await session(run, Pair(), 3, dscp=46))[1]

    replies = virtually(tmp_path / "run", main).replies
    assert replies["ttl"].tolist() == replies["reply_ttl"].tolist() == [255] * 3
    assert replies["reply_dscp"].tolist() == [46] * 3


def test_authenticated_sessions_measure_the_same(tmp_path: Path) -> None:
    async def main(run: Run) -> SessionRecord:
        key = b"secret"
        return (await session(run, Pair(delay_us=100), 20, key=key, reflector={"key": key}))[1]

    record = virtually(tmp_path / "run", main)
    path = measure_path(record)
    assert record.packet_bytes == 112
    assert (path.sent, path.answered) == (20, 20)
    assert np.all(path.forward_ns == 100_000)


HEAD = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.ipv6 import Ipv6Host
from telemark.apps.stamp.reflector import StampReflector
from telemark.apps.stamp.sender import StampSender
from telemark.apps.stamp.statistics import measure_path
from telemark.network import Network
from virtual_networks import Pair, WIRE
"""
MEASURE = """
with Network(Pair(delay_us=5000), run, program=WIRE) as net:
    if OVER_IPV6:
        macs = {f"2001:db8::{n}": net.host(f"h{n}").MAC() for n in (1, 2)}
        address, ends = "2001:db8::2", [Ipv6Host(each, macs) for each in macs]
    else:
        address, ends = net.host("h2").IP(), [None, None]
    net.run_application("h2", StampReflector(ipv6=ends[1]))
    sender = net.run_application(
        "h1", StampSender(address, count=50, interval_us=2000, dscp=10, ipv6=ends[0])
    )
    await run.clock.sleep_until(run.clock.now_ns() + 300_000_000)
path = measure_path(sender.result)
replies = sender.result.replies
metrics = {"sent": path.sent, "lost": path.lost, "forward_ns": path.forward_ns.tolist(),
           "backward_ns": path.backward_ns.tolist(), "round_trip_ns": path.round_trip_ns.tolist(),
           "ttl": replies["ttl"].tolist(), "dscp": replies["reply_dscp"].tolist()}
return Report(samples=[], checks=PacketAccounting.from_network(net, {}).checks(), metrics=metrics)
"""


@pytest.mark.parametrize("over_ipv6", [False, True], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("time", ["virtual", "real"])
def test_a_path_is_measured_in_real_and_in_virtual_time(
    start_experiment: StartExperiment, tmp_path: Path, time: str, over_ipv6: bool
) -> None:
    head = f"{HEAD}OVER_IPV6 = {over_ipv6}\n"
    process = start_experiment(MEASURE, "--time", time, "--out", str(tmp_path), head=head)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    found = json.loads((tmp_path / "summary.json").read_text())["metrics"]
    assert (found["sent"], found["lost"]) == (50, 0)
    assert min(found["forward_ns"]) >= 5 * MS
    assert min(found["backward_ns"]) >= 5 * MS
    one_way = zip(found["forward_ns"], found["backward_ns"], strict=True)
    assert [sum(pair) for pair in one_way] == found["round_trip_ns"]
    assert set(found["ttl"]) == {255}
    assert set(found["dscp"]) == {10}


async def session_over_ipv6(run: Run, key: bytes | None) -> SessionRecord:
    with Network(Pair(delay_us=300.001), run, program=WIRE) as net:
        macs = {f"2001:db8::{n}": net.host(f"h{n}").MAC() for n in (1, 2)}
        ends = [Ipv6Host(address, macs) for address in macs]
        net.run_application("h2", StampReflector(ipv6=ends[1], key=key))
        sender = StampSender(
            "2001:db8::2", ipv6=ends[0], count=20, interval_us=1000, dscp=10, key=key,
            tlvs=[tlvs.location()],
        )  # fmt: skip
        running = net.run_application("h1", sender)
        await run.clock.sleep_until(run.clock.now_ns() + 100 * MS)
    return running.result  # type: ignore[no-any-return]


@pytest.mark.parametrize("key", [None, b"secret"])
def test_sessions_over_ipv6_are_exact_in_virtual_time(tmp_path: Path, key: bytes | None) -> None:
    async def main(run: Run) -> SessionRecord:
        return await session_over_ipv6(run, key)

    record = virtually(tmp_path / "run", main)
    path = measure_path(record)
    assert (path.sent, path.lost) == (20, 0)
    assert set(path.forward_ns) == set(path.backward_ns) == {300_001}
    assert set(record.replies["ttl"]) == {255}
    ends = ("2001:db8::1", 49862), ("2001:db8::2", 862)
    assert tlvs.read_location(record.tlvs[0][0].value) == ends


def test_counters_locate_losses_exactly(tmp_path: Path) -> None:
    """Direct measurement counts the test packets of the session at both ends."""
    topo = Pair(params1={"loss_probability": 0.2}, params2={"loss_probability": 0.1})

    async def main(run: Run) -> SessionRecord:
        return (await session(run, topo, 300, tlvs=[tlvs.direct_measurement()]))[1]

    record = virtually(tmp_path / "run", main)
    path = measure_path(record)
    assert measure_direct_loss(record) == (path.lost_forward, path.lost_backward)
    assert path.lost_forward > 0
    assert path.lost_backward > 0


def test_follow_up_contains_the_send_time_of_the_previous_reply(tmp_path: Path) -> None:
    async def main(run: Run) -> SessionRecord:
        return (await session(run, Pair(), 3, tlvs=[tlvs.follow_up_telemetry()]))[1]

    record = virtually(tmp_path / "run", main)
    found = [tlvs.read_follow_up_telemetry(chain[0].value) for chain in record.tlvs]
    assert found[0] == (0, 0, 0)
    sent_ns = record.replies["reflector_sent_ns"].tolist()
    decode = TimestampFormat.NTP.decode
    assert [(f.sequence, decode(f.timestamp)) for f in found[1:]] == [
        (0, sent_ns[0]), (1, sent_ns[1])
    ]  # fmt: skip
