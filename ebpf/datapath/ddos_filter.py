"""The DDoS filter: writes rules to maps, and reads the counters of the rules.

If several rules match, the most specific rule applies. Tuples come first. Among tuples, those with
more mask bits come earlier. Then come the longest source prefix, the destination port, and the
source port. If a map is full, its rules stay, and new rules are rejected and counted.
"""

import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ebpf.datapath.rules import TCP, Kind, Rule, address_of, length_of
from ebpf.loader import LoadError, Map, ProgramObject

MAX_RULES, MAX_MASKS, BANKS = 65536, 16, 2  # as in ddos_filter.bpf.c
SOURCE = "ebpf/datapath/ddos_filter.bpf.c"


class FilterFull(LoadError):
    """A rule does not fit into a map."""


class Filter:
    """The rules of a loaded filter. No other Filter may write to the maps of this program."""

    def __init__(self, loaded: ProgramObject) -> None:
        self.program = loaded.programs["ddos_filter"]
        self.refused = 0
        self._maps = loaded.maps
        self._shared = loaded.maps[".bss"].mapped()[0]
        self._shared["opening_seed"] = secrets.randbits(32)
        self._banks = [_Bank(loaded.maps, number) for number in range(BANKS)]
        self._current = 0
        self._numbers: dict[Rule, int] = {}
        # room for two sets of rules, because one replaces the other
        self._free = [*range(2 * MAX_RULES - 1, -1, -1)]

    @property
    def rules(self) -> list[Rule]:
        """Return the rules that are in effect."""
        return [*self._numbers]

    def add(self, rule: Rule) -> None:
        """Add a rule. Raises FilterFull, or ValueError if a rule with the same match exists."""
        bank = self._banks[self._current]
        if rule in self._numbers:
            raise ValueError(f"a rule with the same match as {rule} exists")
        if rule.kind is Kind.TUPLE and rule.mask not in bank.masks:
            self.replace([*self._numbers, rule])  # this inserts the new mask between existing masks
            return
        self._check_room(len(self._numbers) + 1, len(bank.masks))
        self._numbers[rule] = self._free.pop()
        bank.put({rule: self._numbers[rule]})
        self._tell(self._current, self._numbers)

    def remove(self, rule: Rule) -> None:
        """Remove a rule and its counters. Raises KeyError if there is no such rule."""
        number = self._numbers.pop(rule)
        self._banks[self._current].take_out([rule])
        self._tell(self._current, self._numbers)
        self._wait_for_packets()
        self._release([number])

    def replace(self, rules: Iterable[Rule]) -> None:
        """Replace all rules. Each packet sees either the old set or the new set.

        Rules that are in both sets keep their counters. If FilterFull is raised, nothing has
        changed.
        """
        wanted = dict.fromkeys(rules)
        masks = _masks(wanted)
        self._check_room(len(wanted), len(masks))
        gone = [number for rule, number in self._numbers.items() if rule not in wanted]
        numbers = {
            rule: self._numbers[rule] if rule in self._numbers else self._free.pop()
            for rule in wanted
        }
        old, new = self._current, (self._current + 1) % BANKS
        self._banks[new].set_masks(masks)
        self._banks[new].put(numbers)
        self._tell(new, numbers)
        self._shared["bank"] = self._current = new
        replaced, self._numbers = [*self._numbers], numbers
        self._wait_for_packets()
        self._banks[old].take_out(replaced)
        self._release(gone)

    def hits(self) -> dict[Rule, tuple[int, int]]:
        """Return the numbers of packets and bytes that matched each rule."""
        hits = self._maps["hits"].read()
        packets, size = hits["packets"].sum(axis=1), hits["bytes"].sum(axis=1)
        return {rule: (int(packets[at]), int(size[at])) for rule, at in self._numbers.items()}

    def counts(self) -> dict[str, int]:
        """Return the number of packets for each outcome."""
        counts = self._maps["counts"].read()[0]
        return {name: int(counts[name].sum()) for name in counts.dtype.names}

    def _check_room(self, rules: int, masks: int) -> None:
        if rules > MAX_RULES or masks > MAX_MASKS:
            self.refused += 1
            raise FilterFull(
                f"the filter has no room for {rules} rules with {masks} kinds of tuples; expected "
                f"at most {MAX_RULES} and {MAX_MASKS}"
            )

    def _tell(self, bank: int, rules: Iterable[Rule]) -> None:
        """Set which kinds of rules the program looks up in a bank."""
        kinds = {rule.kind for rule in rules}
        masks = len(self._banks[bank].masks)
        self._shared["used"][bank] = (masks, Kind.PREFIX in kinds, Kind.PORT in kinds)

    def _wait_for_packets(self) -> None:
        """Wait until no packet uses rules that were removed.

        An update of a map of maps returns only when no packet uses the removed rules.
        """
        self._maps["masks"][self._current] = self._maps[f"masks_{self._current}"].fd

    def _release(self, numbers: Sequence[int]) -> None:
        """Make the numbers of rules free. No packet may still use these rules."""
        hits = self._maps["hits"]
        for number in numbers:
            hits[number] = np.zeros_like(hits[number])
        self._free += numbers


class _Bank:
    """One of the two sets of maps.

    A rule's mask has a number: `masks[i]` is the mask with the number i.
    """

    def __init__(self, maps: Mapping[str, Map], number: int) -> None:
        self.masks: list[bytes] = []
        self._masks = maps[f"masks_{number}"]
        self._ports = maps[f"ports_{number}"]
        self._keyed = {
            Kind.TUPLE: maps[f"tuples_{number}"],
            Kind.PREFIX: maps[f"prefixes_{number}"],
        }

    def set_masks(self, masks: Sequence[bytes]) -> None:
        """Set the masks of an empty bank."""
        self.masks = [*masks]
        for index, mask in enumerate(masks):
            self._masks[index] = np.frombuffer(mask, self._masks.value)[0]

    def put(self, numbers: Mapping[Rule, int]) -> None:
        """Add rules. Their numbers are given.

        The masks of their tuples must already exist.
        """
        for kind, into in self._keyed.items():
            of = {rule: number for rule, number in numbers.items() if rule.kind is kind}
            entries = np.zeros(len(of), [("key", into.key), ("value", into.value)])
            entries["key"] = np.frombuffer(b"".join(map(self._key, of)), into.key)
            entries["value"] = [rule.numbered(number) for rule, number in of.items()]
            into.write(entries)
        for rule, number in numbers.items():
            if rule.kind is Kind.PORT:
                self._put_port(rule, rule.numbered(number))

    def take_out(self, rules: Iterable[Rule]) -> None:
        """Remove rules."""
        for rule in rules:
            if rule.kind is Kind.PORT:
                self._put_port(rule, 0)
            else:
                of = self._keyed[rule.kind]
                del of[np.frombuffer(self._key(rule), of.key)[0]]

    def _key(self, rule: Rule) -> bytes:
        if rule.kind is Kind.TUPLE:
            return rule.tuple_under(self.masks.index(rule.mask))
        length = length_of(rule.source)
        return length.to_bytes(4, sys.byteorder) + address_of(rule.source).to_bytes(16, "big")

    def _put_port(self, rule: Rule, value: int) -> None:
        end = "source" if rule.destination_port is None else "destination"
        port = getattr(rule, f"{end}_port")
        rules = self._ports[port]
        rules[end][int(rule.protocol == TCP)] = value
        self._ports[port] = rules


def _masks(rules: Iterable[Rule]) -> list[bytes]:
    """Return the masks of all tuples.

    Masks with more bits come first, because the first match applies.
    """
    masks = {rule.mask for rule in rules if rule.kind is Kind.TUPLE}
    return sorted(masks, key=lambda mask: (-int.from_bytes(mask, "big").bit_count(), mask))
