"""Addresses that p4-utils assigns to hosts, by strategy: l2, mixed, l3, or none.

In each strategy, the address of a host named h12 contains 12. Other hosts get addresses that are
free.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import IPv4Interface, IPv4Network

from importers.p4app.links import End, P4AppLink, sort_by_names
from telemark.errors import TestbedError

HOSTS_L2 = IPv4Network("10.0.0.0/16")
LEFT = IPv4Network("10.0.0.0/8")  # subnet of hosts to which the strategy gives no address
MAX_HOST_L2 = 0xFFFF
MAX_HOST, MAX_SWITCH_L3 = 253, 253
Gateways = dict[str, str]  # map from host to the address of its gateway


def assign(strategy: str, links: Iterable[P4AppLink], switch_ids: Mapping[str, int]) -> Gateways:
    """Assign addresses to hosts, and to the switch ports that lead to hosts. Raises TestbedError.

    Links must be in the order of sort_by_nodes().
    """
    pairs = [pair for link in links for pair in link.ends()]
    hosts = [pair for pair in pairs if pair[0].node not in switch_ids]
    for host, across in hosts:
        if across.node not in switch_ids:
            raise TestbedError(f"{strategy}: link {host.node} - {across.node}: expected a switch")
    return STRATEGIES[strategy](hosts, switch_ids)


def assign_rest(links: Sequence[P4AppLink], switch_ids: Mapping[str, int]) -> None:
    """Assign IPv4 addresses to the remaining hosts, and MAC addresses to all interfaces.

    MAC addresses are deterministic; those of p4-utils are random.
    """
    ordered = sort_by_names(links)
    ends = [end for link in ordered for end in (link.one, link.two)]
    hosts = [end for end in ends if end.node not in switch_ids]
    given = {IPv4Interface(end.address).ip for end in hosts if end.address is not None}
    free = (address for address in LEFT.hosts() if address not in given)
    for host in hosts:
        if host.address is None:
            host.address = f"{next(free)}/{LEFT.prefixlen}"
    macs = {end.mac for end in ends}
    numbers = (f"02:00:00:00:{number >> 8:02x}:{number & 0xFF:02x}" for number in range(1 << 16))
    unused = (mac for mac in numbers if mac not in macs)
    for end in ends:
        if end.mac is None:
            end.mac = next(unused)


def _number(name: str) -> int | None:
    """Return the number in the name of a host (12 for h12); None for other names."""
    return int(name[1:]) if name[0] == "h" and name[1:].isdecimal() else None


def _l2(hosts: Sequence[tuple[End, End]], _switch_ids: Mapping[str, int]) -> Gateways:
    """Put all hosts in one subnet."""
    numbers = {host.node: _number(host.node) for host, _ in hosts}
    for name, number in numbers.items():
        if number is not None and not 0 < number <= MAX_HOST_L2:
            raise TestbedError(f"l2: host {name}: expected a number from 1 to {MAX_HOST_L2}")
    taken = {number for number in numbers.values() if number is not None}
    free = (number for number in range(1, MAX_HOST_L2) if number not in taken)
    for host, across in hosts:
        number = numbers[host.node]
        _set(host, across, HOSTS_L2[next(free) if number is None else number], 16)
    return {}


def _mixed(hosts: Sequence[tuple[End, End]], switch_ids: Mapping[str, int]) -> Gateways:
    """Use one subnet per switch; the switch has the second highest address of the subnet."""
    numbers = {host.node: _small_number("mixed", host.node) for host, _ in hosts}
    gateways = {}
    for switch, number in switch_ids.items():
        network = IPv4Network((10 << 24 | number << 8, 24))
        near = [(host, across) for host, across in hosts if across.node == switch]
        taken = {numbers[host.node] for host, _ in near}
        free = (n for n in range(1, 255) if n not in taken)
        for host, across in near:
            own = numbers[host.node]
            _set(host, across, network[next(free) if own is None else own], 24)
            across.address = f"{network[254]}/24"
            gateways[host.node] = str(network[254])
    return gateways


def _l3(hosts: Sequence[tuple[End, End]], switch_ids: Mapping[str, int]) -> Gateways:
    """Use one subnet per host. The switch of the host has the first address of the subnet."""
    numbers = {host.node: _small_number("l3", host.node) for host, _ in hosts}
    gateways = {}
    for switch, switch_id in switch_ids.items():
        near = [(host, across) for host, across in hosts if across.node == switch]
        if near and switch_id > MAX_SWITCH_L3:
            raise TestbedError(f"l3: switch {switch} has number {switch_id}: expected at most "
                               f"{MAX_SWITCH_L3}")  # fmt: skip
        taken = {numbers[host.node] for host, _ in near}
        free = (n for n in range(1, 255) if n not in taken)
        for host, across in near:
            own = numbers[host.node]
            number = next(free) if own is None else own
            network = IPv4Network((10 << 24 | switch_id << 16 | number << 8, 24))
            _set(host, across, network[2], 24)
            across.address = f"{network[1]}/24"
            gateways[host.node] = str(network[1])
    return gateways


STRATEGIES: Mapping[str, Callable[[Sequence[tuple[End, End]], Mapping[str, int]], Gateways]] = {
    "l2": _l2,
    "mixed": _mixed,
    "l3": _l3,
}


def _small_number(strategy: str, name: str) -> int | None:
    number = _number(name)
    if number is not None and number > MAX_HOST:
        raise TestbedError(f"{strategy}: host {name}: expected a number up to {MAX_HOST}")
    return number


def _set(host: End, across: End, address: object, prefix: int) -> None:
    """Set the IP address of a host, and the MAC addresses of both ends of its link."""
    octets = ":".join(f"{int(octet):02x}" for octet in str(address).split("."))
    host.address = f"{address}/{prefix}"
    host.mac, across.mac = f"00:00:{octets}", f"00:01:{octets}"
