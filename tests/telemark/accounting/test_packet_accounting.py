"""Packet accounting balances if all counters are correct, and detects wrong counters."""

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.application import RunningApplication
from telemark.errors import TestbedError
from telemark.network import LinkEnd
from telemark.traffic.flows import RECEIVED, SENT, Flow, FlowRecord

ENGINE = {
    "received": 100, "transmitted": 97, "ingress_drops": 1, "egress_drops": 0, "queue_drops": 2,
    "no_port_drops": 0, "memory_drops": 0, "replicas": 0, "in_queues": 0,
}  # fmt: skip


def port(number: int, received: int, transmitted: int, lost: int = 0) -> dict[str, Any]:
    delivered = transmitted - lost
    sent = transmitted if lost else 0  # a port without loss has no link; its counters are 0
    return {
        "interface": f"s1-eth{number}",
        "received_packets": received,
        "transmitted_packets": transmitted,
        "link": {"sent_packets": sent, "delivered_packets": delivered, "lost_packets": lost},
        "kernel": {"receive_drops": 0, "send_errors": 0},
    }


def network() -> Any:
    """Return a network in which h1 sent 100 packets through s1.

    s1 dropped 3 packets, its link lost 5, and h2 received 92.
    """
    interface = {"received": 0, "sent": 0, "dropped": 0}
    return SimpleNamespace(
        links=[
            (LinkEnd("h1", "h1-eth0", 0), LinkEnd("s1", "s1-eth1", 1)),
            (LinkEnd("s1", "s1-eth2", 2), LinkEnd("h2", "h2-eth0", 0)),
        ],
        counters={
            "s1": {
                "engine": dict(ENGINE),
                "ports": {"1": port(1, 100, 0), "2": port(2, 0, 97, lost=5)},
                "cpu": {"packet_in": 0, "packet_in_dropped": 0, "packet_out": 0},
            }
        },
        interface_counters={
            "h1-eth0": interface | {"sent": 100},
            "h2-eth0": interface | {"received": 92},
            "s1-eth1": dict(interface),
            "s1-eth2": dict(interface),
        },
        udp_losses={"h1": 0, "h2": 0},
        rejected=[],
        applications=[],
        expected_drops=(),
    )


def record(kernel_drops: int = 0) -> dict[int, FlowRecord]:
    flow = Flow(1, "h1", "h2", rate_pps=1000, count=100)
    sent, received = np.zeros(100, SENT), np.zeros(92, RECEIVED)
    sent["sequence"] = np.arange(100)
    received["sequence"] = np.arange(92)
    return {1: FlowRecord(flow, sent, received, 0, kernel_drops, 0, 0)}


def test_balanced_books() -> None:
    accounting = PacketAccounting.from_network(network(), record())
    assert accounting.unaccounted_frames == 0
    assert accounting.lost_by_links == {"s1-eth1": 0, "s1-eth2": 5}
    assert (accounting.sent, accounting.received) == (100, 92)
    assert all(check.passed for check in accounting.checks())


@pytest.mark.parametrize(
    ("path", "change", "failing"),
    [
        (
            ("counters", "s1", "engine", "queue_drops"),
            -1,
            ["unaccounted", "s1: 100 received, 99 left"],
        ),
        (("counters", "s1", "ports", "2", "link", "lost_packets"), 1, ["unaccounted"]),
        (("counters", "s1", "ports", "1", "received_packets"), -1, ["s1-eth1 received 99"]),
        (("interface_counters", "h2-eth0", "received"), 1, ["unaccounted", "h2-eth0 received 93"]),
        (("interface_counters", "h1-eth0", "received"), 1, ["unaccounted", "h1-eth0 received 1"]),
        (("counters", "s1", "ports", "2", "received_packets"), 1, ["s1-eth2 received 1"]),
    ],
)
def test_a_miscount_is_found(path: tuple[str, ...], change: int, failing: list[str]) -> None:
    net = network()
    at = net.__dict__
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] += change
    names = [
        check.name
        for check in PacketAccounting.from_network(net, record()).checks()
        if not check.passed
    ]
    for words in failing:
        assert any(words in name for name in names), names


def test_other_traffic_is_accounted_for() -> None:
    net = network()
    controls = {"packet_in": 3, "packet_in_dropped": 0, "packet_out": 3}
    # the controller sent three packets, and received them back
    net.counters["s1"]["cpu"] = controls
    for key in ("received", "transmitted"):
        net.counters["s1"]["engine"][key] += 3
    assert all(check.passed for check in PacketAccounting.from_network(net, record()).checks())


def test_what_a_switch_adds_takes_or_keeps_is_accounted_for() -> None:
    """The accounting includes packets that a switch copies, drops or still queues.

    The switch makes 7 copies. 4 of them reach h2, and one waits in a queue. The switch drops the
    other 2, because the controller is too slow.
    """
    net = network()
    switch = net.counters["s1"]
    switch["engine"] |= {"replicas": 7, "transmitted": 97 + 6, "in_queues": 1}
    switch["ports"]["2"] = port(2, 0, 97 + 4, lost=5)
    switch["cpu"]["packet_in_dropped"] = 2
    net.interface_counters["h2-eth0"]["received"] += 4
    accounting = PacketAccounting.from_network(net, record())
    assert (
        accounting.added_by_switches,
        accounting.taken_by_controllers,
        accounting.left_in_queues,
    ) == (7, 2, 1)
    assert all(check.passed for check in accounting.checks())


def test_no_more_frames_are_other_traffic_than_there_is_of_it() -> None:
    """A check fails if h2 receives a frame that no host sent.

    Frames of other programs are counted where a host sends them, so this frame cannot be one of
    them.
    """
    net = network()
    net.counters["s1"]["engine"]["transmitted"] += 1
    net.counters["s1"]["ports"]["2"] = port(2, 0, 98, lost=5)
    net.interface_counters["h2-eth0"]["received"] += 1
    failed = [
        check.name
        for check in PacketAccounting.from_network(net, record()).checks()
        if not check.passed
    ]
    assert any("unclaimed frames at hosts" in name for name in failed)


def test_a_known_number_of_unclaimed_frames_is_exact() -> None:
    accounting = PacketAccounting.from_network(network(), record())
    right = accounting.hosts_received - accounting.received
    assert [check.passed for check in accounting.checks(unclaimed=right)] == [True] * 3
    for wrong in (right - 1, right + 1):
        assert [check.passed for check in accounting.checks(unclaimed=wrong)][2] is False


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("udp_losses", "h2"), "1 at host h2, UDP"),
        (("interface_counters", "h2-eth0", "dropped"), "1 at interface h2-eth0"),
        (
            ("counters", "s1", "ports", "1", "kernel", "receive_drops"),
            "packet socket of s1 on s1-eth1",
        ),
        (
            ("counters", "s1", "ports", "2", "kernel", "send_errors"),
            "packet socket of s1 on s1-eth2",
        ),
    ],
)
def test_a_kernel_drop_makes_the_run_invalid(path: tuple[str, ...], place: str) -> None:
    net = copy.deepcopy(network())
    at = net.__dict__
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = 1
    with pytest.raises(TestbedError, match="run invalid: the kernel dropped packets") as error:
        PacketAccounting.from_network(net, record())
    assert place in str(error.value)


def test_a_full_socket_makes_the_run_invalid() -> None:
    with pytest.raises(TestbedError, match="1 at receiving socket of flow 1"):
        PacketAccounting.from_network(network(), record(kernel_drops=1))


def bmv2_network(lacking: int) -> Any:
    """Return a network in which bmv2 drops `lacking` frames on their way to h2."""
    net = network()
    net.counters["s1"]["inner"] = {"into": 100, "out": 100 - lacking}
    port_2 = net.counters["s1"]["ports"]["2"]
    for counts, key in (
        (net.counters["s1"]["engine"], "received"), (net.counters["s1"]["engine"], "transmitted"),
        (port_2, "transmitted_packets"), (port_2["link"], "sent_packets"),
        (port_2["link"], "delivered_packets"), (net.interface_counters["h2-eth0"], "received"),
    ):  # fmt: skip
        counts[key] -= lacking
    return net


def test_what_bmv2_drops_makes_the_run_invalid() -> None:
    assert all(
        check.passed for check in PacketAccounting.from_network(bmv2_network(0), record()).checks()
    )
    with pytest.raises(TestbedError, match=r"run invalid: bmv2 dropped frames \(3 in s1\)"):
        PacketAccounting.from_network(bmv2_network(3), record())


@pytest.mark.parametrize("reason", ["ingress", "egress"])
def test_what_a_program_on_bmv2_is_to_drop_is_accounted_for(reason: str) -> None:
    net = bmv2_network(3)
    net.expected_drops = (reason,)
    accounting = PacketAccounting.from_network(net, record())
    assert accounting.dropped_by_switches["s1"]["bmv2_drops"] == 3
    assert (accounting.unaccounted_frames, accounting.unbalanced) == (0, [])


def test_copies_that_a_program_on_bmv2_makes_are_accounted_for() -> None:
    accounting = PacketAccounting.from_network(bmv2_network(-4), record())
    assert (accounting.added_by_switches, accounting.unaccounted_frames) == (4, 0)


def test_applications_are_in_the_books() -> None:
    """The accounting includes datagrams of applications, in addition to the flow.

    An application sends 5 frames to another application. If that application receives only 4 of
    them, a check fails.
    """
    net = network()
    net.applications = [
        RunningApplication("h1", "Sender", sent=5),
        RunningApplication("h2", "Counter", received=5),
    ]
    net.interface_counters["h1-eth0"]["sent"] += 5
    net.interface_counters["h2-eth0"]["received"] += 5
    for count in ("received", "transmitted"):
        net.counters["s1"]["engine"][count] += 5
    net.counters["s1"]["ports"]["1"]["received_packets"] += 5
    port_2 = net.counters["s1"]["ports"]["2"]
    port_2["transmitted_packets"] += 5
    port_2["link"]["sent_packets"] += 5
    port_2["link"]["delivered_packets"] += 5
    accounting = PacketAccounting.from_network(net, record())
    assert (accounting.sent, accounting.received) == (105, 97)
    assert all(check.passed for check in accounting.checks())
    assert accounting.checks()[-1].tolerance == 0
    net.applications[1].received = 4
    assert not PacketAccounting.from_network(net, record()).checks()[-1].passed
    net.applications[1].kernel_drops = 1
    with pytest.raises(TestbedError, match="1 at application Counter at h2"):
        PacketAccounting.from_network(net, record())


def at_xdp(net: Any) -> Any:
    """Return a network in which XDP programs consume frames, too.

    The programs consume 7 frames from h1 before s1 receives them, and 4 frames that have arrived at
    h2.
    """
    net.interface_counters["h1-eth0"]["sent"] += 11
    net.counters["s1"]["engine"]["received"] += 4
    net.counters["s1"]["engine"]["transmitted"] += 4
    net.counters["s1"]["ports"] = {"1": port(1, 104, 0), "2": port(2, 0, 101, lost=5)}
    net.interface_counters["h2-eth0"]["received"] += 4
    return net


def test_what_xdp_takes_is_accounted_for_by_its_own_counters() -> None:
    taken = {"s1-eth1": 7, "h2-eth0": 4}
    accounting = PacketAccounting.from_network(at_xdp(network()), record(), taken)
    assert accounting.consumed_by_xdp == taken
    assert (accounting.unaccounted_frames, accounting.unbalanced) == (0, [])
    assert accounting.checks()[2].measured == 0
    without = PacketAccounting.from_network(at_xdp(network()), record())
    assert (without.unaccounted_frames, without.unbalanced) == (
        7, ["h1-eth0 delivered 111, s1-eth1 received 104"],
    )  # fmt: skip
    assert without.checks()[2].measured == 4
    assert (
        PacketAccounting.from_network(
            at_xdp(network()), record(), {**taken, "s1-eth1": 8}
        ).unaccounted_frames
        == -1
    )
