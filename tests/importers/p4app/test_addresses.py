"""Ports and addresses, compared with recorded results of p4-utils."""

import pytest

from importers.p4app.addresses import assign, assign_rest
from importers.p4app.links import End, P4AppLink, natural_key, number_ports, sort_by_nodes
from telemark.errors import TestbedError

SWITCHES = {"s1": 1, "s2": 2, "s10": 3}


def parse_links(*links: str) -> list[P4AppLink]:
    """Return links: `h1-s1`, or `s1:4-s2` with port 4."""
    ends = [[End(*_node(part)) for part in link.split("-")] for link in links]
    return [P4AppLink(one, two) for one, two in ends]


def _node(text: str) -> tuple[str, int | None]:
    name, _, port = text.partition(":")
    return name, int(port) if port else None


def assigned(strategy: str, *links: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the address, the gateway and the MAC addresses at both ends of each host's link."""
    network = parse_links(*links)
    gateways = assign(strategy, sort_by_nodes(network), SWITCHES)
    pairs = [pair for cable in network for pair in cable.ends() if pair[0].node not in SWITCHES]
    return {
        host.node: f"{host.address} {host.mac} {switch.mac}" for host, switch in pairs
    }, gateways


def test_l2_is_one_network() -> None:
    addresses, gateways = assigned("l2", "s1-web", "h1-s1", "h300-s2", "client-s10", "s1-s2")
    assert addresses == {
        "h1": "10.0.0.1/16 00:00:0a:00:00:01 00:01:0a:00:00:01",
        "h300": "10.0.1.44/16 00:00:0a:00:01:2c 00:01:0a:00:01:2c",
        "web": "10.0.0.2/16 00:00:0a:00:00:02 00:01:0a:00:00:02",
        "client": "10.0.0.3/16 00:00:0a:00:00:03 00:01:0a:00:00:03",
    }
    assert gateways == {}


def test_mixed_is_a_network_for_each_switch() -> None:
    addresses, gateways = assigned("mixed", "h1-s1", "client-s1", "s2-h2", "h7-s10", "s1-s2")
    assert addresses == {
        "h1": "10.0.1.1/24 00:00:0a:00:01:01 00:01:0a:00:01:01",
        "client": "10.0.1.2/24 00:00:0a:00:01:02 00:01:0a:00:01:02",
        "h2": "10.0.2.2/24 00:00:0a:00:02:02 00:01:0a:00:02:02",
        "h7": "10.0.3.7/24 00:00:0a:00:03:07 00:01:0a:00:03:07",
    }
    assert gateways == {"h1": "10.0.1.254", "client": "10.0.1.254", "h2": "10.0.2.254",
                        "h7": "10.0.3.254"}  # fmt: skip


def test_l3_is_a_network_for_each_host() -> None:
    addresses, gateways = assigned("l3", "h1-s1", "client-s1", "s2-h2", "server-s10", "s1-s2")
    assert addresses == {
        "h1": "10.1.1.2/24 00:00:0a:01:01:02 00:01:0a:01:01:02",
        "client": "10.1.2.2/24 00:00:0a:01:02:02 00:01:0a:01:02:02",
        "h2": "10.2.2.2/24 00:00:0a:02:02:02 00:01:0a:02:02:02",
        "server": "10.3.1.2/24 00:00:0a:03:01:02 00:01:0a:03:01:02",
    }
    assert gateways == {"h1": "10.1.1.1", "client": "10.1.2.1", "h2": "10.2.2.1",
                        "server": "10.3.1.1"}  # fmt: skip


def test_the_order_of_links_is_that_of_mininets_graph() -> None:
    # Each link belongs to the node whose name sorts first: the link of web to s1, and the link of
    # client to client. The node s1 occurs before client.
    network = parse_links("s1-s2", "client-s2", "s1-web")
    names = [(each.one.node, each.two.node) for each in sort_by_nodes(network)]
    assert names == [("s1", "s2"), ("s1", "web"), ("client", "s2")]


def test_ports_are_numbered_in_the_order_of_names() -> None:
    network = parse_links("s2-s10", "s1-s2:2", "h2-s2", "h10-s1", "s1-sw+")
    number_ports(network, SWITCHES)
    ports = {(c.one.node, c.two.node): (c.one.port, c.two.port) for c in network}
    assert ports == {
        ("h2", "s2"): (None, 1), ("h10", "s1"): (None, 1), ("s1", "s2"): (2, 2),
        ("s1", "sw+"): (3, None), ("s2", "s10"): (3, 1),
    }  # fmt: skip
    with pytest.raises(TestbedError, match="switch s1: port 4 has two links"):
        number_ports(parse_links("h1-s1:4", "h2-s1:4"), SWITCHES)


def test_names_are_sorted_by_their_numbers() -> None:
    assert sorted(["s10", "s9", "a1b10", "a1b9"], key=natural_key) == ["a1b9", "a1b10", "s9", "s10"]


def test_hosts_without_a_strategy_get_what_is_left() -> None:
    network = parse_links("h2-s1", "h1-s1", "h3-s2", "s1-s2")
    network[0].one.address = "10.0.0.1/24"
    network[2].one.mac = "02:00:00:00:00:01"
    assign_rest(network, SWITCHES)
    assert [c.one.address for c in network[:3]] == ["10.0.0.1/24", "10.0.0.2/8", "10.0.0.3/8"]
    macs = [end.mac for cable in network for end in (cable.one, cable.two)]
    assert len({*macs}) == 8
    assert network[1].one.mac == "02:00:00:00:00:00"
    assert network[2].one.mac == "02:00:00:00:00:01"


@pytest.mark.parametrize(
    ("strategy", "link", "why"),
    [
        ("l2", "h65536-s1", "l2: host h65536: expected a number from 1 to 65535"),
        ("mixed", "h254-s1", "mixed: host h254: expected a number up to 253"),
        ("l3", "h254-s1", "l3: host h254: expected a number up to 253"),
        ("l3", "h1-h2", "l3: link h1 - h2: expected a switch"),
    ],
)
def test_what_a_strategy_cannot_address(strategy: str, link: str, why: str) -> None:
    with pytest.raises(TestbedError, match=why):
        assigned(strategy, link)


def test_l3_has_no_more_networks_than_253_switches() -> None:
    with pytest.raises(TestbedError, match="l3: switch s254 has number 254: expected at most"):
        assign("l3", parse_links("h1-s254"), {"s254": 254})
