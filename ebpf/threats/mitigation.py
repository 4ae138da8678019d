"""Converts alerts to rules of the DDoS filter. The rules are temporary.

The detector runs before the filter, because its `order` is smaller. So it also counts packets that
the filter drops. While an attack continues, it causes alerts, and each alert prolongs its rules.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from ipaddress import IPv4Network, IPv6Address, ip_network

from ebpf.datapath.ddos_filter import Filter, FilterFull
from ebpf.datapath.rules import UDP, Action, Network, Rule
from ebpf.threats.alerts import Alert, Kind

HOLD_S = 60.0


def rules_for(alert: Alert) -> tuple[Rule, ...]:
    """Return the most specific rules that stop a threat.

    Heavy hitter: packets of this pair of hosts. Superspreader: packets of the source with its
    protocol. Port scan: the same, but only to the scanned host. SYN flood: packets to the attacked
    service from any source, because sources are forged. Here, retransmitted SYNs pass: a rule that
    drops all SYNs would complete the attack. Amplification: packets to the victim from the
    amplifying service, and all UDP fragments to the victim, because only first fragments have
    ports.
    """
    seen = alert.evidence
    source, destination = _host(seen.source), _host(seen.destination)
    match alert.kind:
        case Kind.HEAVY_HITTER:
            return (Rule(source=source, destination=destination),)
        case Kind.SUPERSPREADER:
            return (Rule(source=source, protocol=seen.protocol),)
        case Kind.PORT_SCAN:
            return (Rule(source=source, destination=destination, protocol=seen.protocol),)
        case Kind.SYN_FLOOD:
            return (
                Rule(destination=destination, destination_port=seen.destination_port,
                     protocol=seen.protocol, action=Action.REPEAT),
            )  # fmt: skip
        case Kind.AMPLIFICATION:
            return (
                Rule(destination=destination, source_port=seen.source_port, protocol=UDP),
                Rule(destination=destination, protocol=UDP, is_fragment=True),
            )


class Mitigation:
    """Adds rules for alerts to a filter. Removes a rule `hold_s` after the last alert for it.

    Only alerts of the given kinds cause rules. Rules that the filter already has stay unchanged.
    """

    def __init__(
        self, filter_: Filter, kinds: Collection[Kind] = tuple(Kind), hold_s: float = HOLD_S
    ) -> None:
        self.refused = 0  # number of rules for which the filter had no room
        self._filter = filter_
        self._kinds = kinds
        self._hold_s = hold_s
        self._until_s: dict[Rule, float] = {}

    @property
    def rules(self) -> list[Rule]:
        """Return the rules that alerts have added."""
        return [*self._until_s]

    def act(self, alerts: Iterable[Alert], now_s: float | None = None) -> list[Rule]:
        """Add rules for alerts, and remove old rules. Return the rules that are new.

        `now_s` is a time of CLOCK_MONOTONIC; the default is the current time.
        """
        now_s = time.monotonic() if now_s is None else now_s
        wanted = [
            rule for alert in alerts if alert.kind in self._kinds for rule in rules_for(alert)
        ]
        others = {*self._filter.rules} - self._until_s.keys()
        for rule in [*self._until_s]:
            if self._until_s[rule] <= now_s and rule not in wanted:
                self._filter.remove(rule)
                del self._until_s[rule]
        new = [rule for rule in dict.fromkeys(wanted)
               if rule not in self._until_s and rule not in others]  # fmt: skip
        added = [rule for rule in new if self._is_added(rule)]
        for rule in wanted:
            if rule in self._until_s or rule in added:
                self._until_s[rule] = now_s + self._hold_s
        return added

    def _is_added(self, rule: Rule) -> bool:
        try:
            self._filter.add(rule)
        except FilterFull:
            self.refused += 1
            return False
        return True


def _host(address: bytes) -> Network:
    """Return a subnet that contains one address.

    The address has 16 bytes (IPv4 is mapped into IPv6).
    """
    found = IPv6Address(address)
    mapped = found.ipv4_mapped
    return ip_network(found) if mapped is None else IPv4Network(mapped)
