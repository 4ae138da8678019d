"""Fills an engine with state for a fuzzer, for example with entries that frames can match."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from minip4.engine import model as m
from minip4.engine.engine import Engine
from minip4.engine.errors import AlreadyExists, EngineError, TableFull
from minip4.engine.keys import Exact, Lpm, MatchKey, Range, Ternary

ENTRIES = 24  # entries per table
MEMBERS = 8
PRIORITIES = 3
GROUPS = range(6)  # multicast groups and mirroring sessions
PORTS = [*range(8), 510]  # port 510 is down


def fill(engine: Engine, config: dict[str, Any], seed: int) -> None:
    """Add entries to each table, members and groups to each profile, and other state."""
    rng = random.Random(seed)
    values = Values(rng, config)
    members = {p.name: _fill_profile(engine, p, values) for p in engine.program.profiles.values()}
    for table in engine.program.tables.values():
        if not table.is_const and table.key:
            for _ in range(ENTRIES):
                _add(engine, table, values, members)
        if not table.is_default_const and table.type == "simple":
            action = rng.choice(table.actions)
            try:
                engine.table_set_default(table.name, action.name, values.of(action))
            except EngineError:
                continue  # some actions cannot be the default action
    _fill_state(engine, values)


class Values:
    """Generator of values that frames often have.

    Such values are small numbers, limits of types, and constants of the program.
    """

    def __init__(self, rng: random.Random, config: dict[str, Any]) -> None:
        self.rng = rng
        self.constants = sorted({int(c, 16) for c in constants(config)})

    def number(self, width: int) -> int:
        small = self.rng.randrange(9)
        edge = self.rng.choice([0, 1, (1 << width) - 1, 1 << max(0, width - 1)])
        wild = self.rng.getrandbits(width)
        constant = self.rng.choice(self.constants or [0])
        return self.rng.choice([small, edge, constant, wild]) % (1 << width)

    def of(self, action: m.Action) -> list[int]:
        return [self.number(param.width) for param in action.params]

    def key(self, field: m.KeyField) -> MatchKey:
        width, value = field.width, self.number(field.width)
        if field.match_type == "exact":
            return Exact(value)
        if field.match_type == "lpm":
            length = self.rng.choice([0, 1, width // 2, width])
            return Lpm(value >> (width - length) << (width - length), length)
        if field.match_type == "range":
            other = self.number(width)
            return Range(min(value, other), max(value, other))
        full = (1 << width) - 1
        masks = [0, full] if field.match_type == "optional" else [0, 0, 1, full >> 1, full]
        mask = self.rng.choice(masks)
        return Ternary(value & mask, mask)


def constants(config: dict[str, Any]) -> list[str]:
    """Return the constants of a program, for example those of select, as hexadecimal digits."""
    return re.findall(r'"0x([0-9a-f]{1,32})"', json.dumps(config))


def _fill_profile(engine: Engine, profile: m.Profile, values: Values) -> list[int]:
    table = next(t for t in engine.program.tables.values() if t.profile == profile.name)
    members = []
    for _ in range(min(MEMBERS, profile.max_size)):
        action = values.rng.choice(table.actions)
        members.append(engine.member_add(profile.name, action.name, values.of(action)))
    if profile.algorithm is not None:
        for count in (0, 1, 3):
            group = engine.group_add(profile.name)
            engine.group_set_members(profile.name, group, values.rng.choices(members, k=count))
    return members


def _add(engine: Engine, table: m.Table, values: Values, members: dict[str, list[int]]) -> None:
    key = [values.key(field) for field in table.key]
    ranked = any(f.match_type not in ("exact", "lpm") for f in table.key)
    priority = values.rng.randrange(1, 5) if ranked else 0
    try:
        if table.profile is None:
            action = values.rng.choice(table.actions)
            engine.table_add(table.name, key, action.name, values.of(action), priority)
        elif table.type == "indirect_ws" and values.rng.randrange(2):
            engine.table_add_group(table.name, key, values.rng.randrange(3), priority)
        else:
            member = values.rng.choice(members[table.profile])
            engine.table_add_member(table.name, key, member, priority)
    except (AlreadyExists, TableFull):
        return


def _fill_state(engine: Engine, values: Values) -> None:
    rng = values.rng
    for value_set in engine.program.value_sets.values():
        engine.value_set_set(value_set.name, [values.number(value_set.width) for _ in range(3)])
    for meter in engine.program.meters.values():
        if meter.table is None:
            for index in range(min(meter.size, 16)):
                engine.meter_set_rates(meter.name, index, (1000.0, 100 * index, 5000.0, 1000))
    for number in GROUPS:
        replicas = [(rng.choice(PORTS), number) for _ in range(number)]
        engine.multicast_set(number, replicas)
        engine.mirror_set(number, replicas, rng.choice([0, 1, 60]))
    engine.set_priorities(PRIORITIES)
    engine.clock = lambda: 0  # the fuzzer starts at this time
    for port in (1, 2):
        engine.set_link(
            port, rate_bps=10**7 * port, delay_ns=50_000, jitter_ns=20_000, loss=0.1, reorder=0.1,
            reorder_ns=100_000,
        )  # fmt: skip
        for priority in range(PRIORITIES):
            engine.set_queue(port, priority, depth_packets=4)
    engine.set_queue(3, 0, depth_packets=64, rate_pps=1000)
