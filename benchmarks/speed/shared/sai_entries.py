"""Full tables for a router with the structure and the names of the P4 programs of SAI."""

import random
from collections.abc import Iterator
from ipaddress import IPv4Address

import finsy as fy

ROUTES, COVERING_LENGTH = 10_000, 20
NEXTHOPS, INTERFACES, GROUPS, MEMBERS = 100, 16, 50, 16
PRE_INGRESS_ACL = INGRESS_ACL = 250
NETWORK = 0x0A00_0000  # 10.0.0.0/12, the destination addresses of generate.c
NETWORK_LENGTH = 12
ABSENT = 0xC0A8_0000  # no frame has this destination
OUT_PORT = 2
IN_GROUPS = "groups"  # routes lead to "nexthops" or to "groups"

_Entry, _Match, _Action = fy.P4TableEntry, fy.Match, fy.Action


def entries(leads_to: str, *, translated: bool, seed: int) -> list[fy.P4TableEntry]:
    """Return the entries that route all packets to OUT_PORT.

    There are 10,000 routes of several prefix lengths and 500 ternary entries. A packet matches only
    the ternary entry that sets its VRF. If `translated` is true, ids are strings instead of
    numbers.
    """

    def name(kind: str, number: int) -> str | int:
        return f"{kind}-{number}" if translated else number

    port = str(OUT_PORT) if translated else OUT_PORT
    rng = random.Random(seed)
    vrf = name("vrf", 1)
    made = [
        _Entry("vrf_table", match=_Match(vrf_id=vrf), action=_Action("no_action")),
        _Entry("l3_admit_table", match=_Match(), action=_Action("admit_to_l3"), priority=1),
    ]
    for i in range(INTERFACES):
        interface, neighbor = name("interface", i), f"fe80::{i + 1:x}"
        made += [
            _Entry("router_interface_table", match=_Match(router_interface_id=interface),
                   action=_Action("unicast_set_port_and_src_mac", port=port,
                                  src_mac=f"02:00:00:00:01:{i:02x}")),
            _Entry("neighbor_table",
                   match=_Match(router_interface_id=interface, neighbor_id=neighbor),
                   action=_Action("set_dst_mac", dst_mac=f"02:00:00:00:02:{i:02x}")),
        ]  # fmt: skip
    for i in range(NEXTHOPS):
        interface = i % INTERFACES
        made.append(_Entry(
            "nexthop_table", match=_Match(nexthop_id=name("nexthop", i)),
            action=_Action("set_ip_nexthop", router_interface_id=name("interface", interface),
                           neighbor_id=f"fe80::{interface + 1:x}"),
        ))  # fmt: skip
    for i in range(GROUPS):
        hops = (name("nexthop", (i + j) % NEXTHOPS) for j in range(MEMBERS))
        made.append(_Entry(
            "wcmp_group_table", match=_Match(wcmp_group_id=name("group", i)),
            action=fy.P4IndirectAction(
                [(1, _Action("set_nexthop_id", nexthop_id=hop)) for hop in hops]
            ),
        ))  # fmt: skip
    for network, length in _prefixes(rng):
        if leads_to == IN_GROUPS:
            action = _Action(
                "set_wcmp_group_id", wcmp_group_id=name("group", rng.randrange(GROUPS))
            )
        else:
            action = _Action("set_nexthop_id", nexthop_id=name("nexthop", rng.randrange(NEXTHOPS)))
        match = _Match(vrf_id=vrf, ipv4_dst=f"{IPv4Address(network)}/{length}")
        made.append(_Entry("ipv4_table", match=match, action=action))
    return made + list(_acls(vrf, rng))


def _prefixes(rng: random.Random) -> Iterator[tuple[int, int]]:
    """Yield ROUTES different prefixes. The shortest of them cover the whole NETWORK."""
    step = 1 << (32 - COVERING_LENGTH)
    found = {
        (network, COVERING_LENGTH)
        for network in range(NETWORK, NETWORK + (1 << (32 - NETWORK_LENGTH)), step)
    }
    while len(found) < ROUTES:
        length = rng.randint(COVERING_LENGTH + 1, 32)
        network = NETWORK | rng.getrandbits(32 - NETWORK_LENGTH)
        found.add((network >> (32 - length) << (32 - length), length))
    yield from sorted(found)


def _acls(vrf: str | int, rng: random.Random) -> Iterator[fy.P4TableEntry]:
    set_vrf = _Action("set_vrf", vrf_id=vrf)
    yield _Entry("acl_pre_ingress_table", match=_Match(is_ipv4=1), action=set_vrf, priority=1)
    for i in range(1, PRE_INGRESS_ACL):
        match = _Match(is_ipv4=1, dst_ip=_absent(i, rng))
        yield _Entry("acl_pre_ingress_table", match=match, action=set_vrf, priority=i + 1)
    for i in range(INGRESS_ACL):
        match = _Match(is_ipv4=1, dst_ip=_absent(i, rng), ip_protocol=f"{i}/&0xff")
        drop = _Action("acl_drop")
        yield _Entry("acl_ingress_table", match=match, action=drop, priority=i + 1)


def _absent(number: int, rng: random.Random) -> str:
    """Return a value and a mask that match no packet; each `number` gives a different pair."""
    mask = 0xFFFF_FF00 | rng.getrandbits(8)
    value = (ABSENT | number << 8 | rng.getrandbits(8)) & mask
    return f"{IPv4Address(value)}/&{IPv4Address(mask)}"
