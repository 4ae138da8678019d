"""Read the pipelines of a BMv2 JSON document: tables, conditionals, action profiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minip4.engine import model as m
from minip4.engine.errors import NotSupported

Json = dict[str, Any]


def where(node: Json) -> str:
    """Return `file:line: fragment` of a JSON node's source_info, or ''."""
    info = node.get("source_info")
    if not info:
        return ""
    return f"{info.get('filename')}:{info.get('line')}: {info.get('source_fragment', '')}"


class PipelineReader:
    """Reads pipelines.

    `expr` reads a type-value object; `width` returns the width of an expression in a key.
    """

    def __init__(
        self,
        expr: Callable[[Any], m.Expr],
        actions: dict[int, m.Action],
        width: Callable[[m.Expr], int],
    ) -> None:
        self.expr, self.actions, self.width = expr, actions, width
        self.tables: dict[str, m.Table] = {}
        self.profiles: dict[str, m.Profile] = {}

    def pipeline(self, p: Json) -> m.Pipeline:
        for profile in p.get("action_profiles", []):
            self._profile(profile)
        nodes: dict[str, m.Table | m.Conditional | m.ActionCall] = {}
        for t in p["tables"]:
            nodes[t["name"]] = self.tables[t["name"]] = self._table(t)
        for c in p.get("conditionals", []):
            expr = self.expr(c["expression"])
            nodes[c["name"]] = m.Conditional(
                c["name"], expr, c["true_next"], c["false_next"], where(c)
            )
        for a in p.get("action_calls", []):
            action = self.actions[a["action_id"]]
            nodes[a["name"]] = m.ActionCall(a["name"], action, a["next_node"])
        return m.Pipeline(p["name"], p["init_table"], nodes)

    def _profile(self, p: Json) -> None:
        selector = p.get("selector") or {}
        inputs = tuple(self.expr(i) for i in selector.get("input", []))
        self.profiles[p["name"]] = m.Profile(
            p["name"], len(self.profiles), p["max_size"], selector.get("algo"), inputs
        )

    def _table(self, t: Json) -> m.Table:
        key = tuple(self._key_field(k) for k in t["key"])
        default = t.get("default_entry") or {}
        action = self.actions[default["action_id"]] if "action_id" in default else None
        ids = t.get("action_ids")
        if ids is None:  # older JSON has only names; there, names are unique
            by_name = {a.name: a.id for a in self.actions.values()}
            ids = [by_name[name] for name in t["actions"]]
        names = dict(zip(t["actions"], ids, strict=True))
        next_tables = t["next_tables"]
        next_by_action = {
            id_: next_tables[name] for name, id_ in names.items() if name in next_tables
        }
        return m.Table(
            name=t["name"],
            index=len(self.tables),
            match_type=t["match_type"],
            type=t["type"],
            key=key,
            actions=tuple(self.actions[i] for i in ids),
            max_size=t["max_size"],
            has_counters=t.get("with_counters", False),
            support_timeout=t.get("support_timeout", False),
            meter=t.get("direct_meters"),
            profile=t.get("action_profile"),
            default_action=action,
            default_params=tuple(int(d, 16) for d in default.get("action_data", [])),
            is_default_const=default.get("action_entry_const", False),
            next_by_action=next_by_action,
            next_hit=next_tables.get("__HIT__"),
            next_miss=next_tables.get("__MISS__"),
            is_hit_miss="__HIT__" in next_tables or "__MISS__" in next_tables,
            base_default_next=t.get("base_default_next"),
            entries=tuple(self._entry(e, key) for e in t.get("entries", [])),
            is_const="entries" in t,
            where=where(t),
        )

    def _key_field(self, k: Json) -> m.KeyField:
        target = k["target"]
        if k["match_type"] == "valid":
            header = target if isinstance(target, str) else target[0]
            expr = self.expr({"type": "field", "value": [header, "$valid$"]})
            return m.KeyField("exact", k.get("name", header), expr, 1)
        if k["match_type"] not in ("exact", "lpm", "ternary", "range", "optional"):
            raise NotSupported(f"match kind {k['match_type']!r} of key {k.get('name')} is unknown")
        expr = self.expr({"type": "field", "value": target})
        mask = None if k.get("mask") is None else int(k["mask"], 16)
        name = k.get("name") or ".".join(target)
        return m.KeyField(k["match_type"], name, expr, self.width(expr), mask)

    def _entry(self, entry: Json, key: tuple[m.KeyField, ...]) -> m.ConstEntry:
        values = []
        for k, field in zip(entry["match_key"], key, strict=True):
            ones = (1 << field.width) - 1
            kind = k["match_type"]
            if kind == "valid":
                values.append((int(bool(k["key"])), ones))
            elif kind == "range":
                values.append((int(k["start"], 16), int(k["end"], 16)))
            elif kind == "lpm":
                values.append((int(k["key"], 16), k["prefix_length"]))
            else:
                value = int(k["key"], 16) if isinstance(k["key"], str) else int(k["key"])
                mask = int(k["mask"], 16) if kind in ("ternary", "optional") else ones
                values.append((value, mask))
        action = entry["action_entry"]
        params = tuple(int(d, 16) for d in action["action_data"])
        return m.ConstEntry(tuple(values), action["action_id"], params, entry.get("priority", 0))
