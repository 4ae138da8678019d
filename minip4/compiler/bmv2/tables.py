"""Tables in BMv2 JSON."""

from __future__ import annotations

from minip4.compiler import ir
from minip4.compiler.bmv2.expressions import Json, hexstr, source_info, target
from minip4.compiler.errors import P4Error


def table(
    number: int,
    t: ir.Table,
    action_ids: list[int],
    default_id: int | None,
    all_ids: dict[int, int],
) -> Json:
    """Return a table without its successors.

    `all_ids` maps id() of each action to its number.
    """
    result: Json = {
        "name": t.name,
        "id": number,
        **source_info(t.source),
        "key": [_key(k) for k in t.keys],
        "match_type": _match_type(t),
    }
    if t.profile is None:
        result["type"] = "simple"
    else:
        result["type"] = "indirect_ws" if t.selector else "indirect"
        result["action_profile"] = t.profile
    result |= {
        "max_size": t.size,
        "with_counters": t.counter is not None,
        "support_timeout": t.support_timeout,
        "direct_meters": t.meter,
        "action_ids": action_ids,
        "actions": [a.name for a in t.actions],
        "base_default_next": None,
        "next_tables": {},
    }
    if default_id is not None:
        result["default_entry"] = {
            "action_id": default_id,
            "action_const": t.is_default_const,
            "action_data": [hexstr(v) for v in t.default_arguments],
            "action_entry_const": t.is_default_const,
        }
    if t.entries is not None:
        result["entries"] = [_entry(t, e, all_ids[id(e.action)]) for e in t.entries]
    return result


def _key(key: ir.KeyField) -> Json:
    kind = "ternary" if key.match_kind == "optional" else key.match_kind
    return {
        "match_type": kind,
        "name": key.name,
        "target": target(key.target)["value"],
        "mask": None,
    }


def _match_type(t: ir.Table) -> str:
    kinds = [key.match_kind for key in t.keys]
    if kinds.count("lpm") > 1:
        raise P4Error("a table can have only one lpm key", t.source)
    if "range" in kinds:
        return "range"
    if "ternary" in kinds or "optional" in kinds:
        return "ternary"
    return "lpm" if "lpm" in kinds else "exact"


def _entry(t: ir.Table, entry: ir.Entry, action_id: int) -> Json:
    keys = [_match(m, k.width_bits) for m, k in zip(entry.keys, t.keys, strict=True)]
    return {
        **source_info(entry.source),
        "match_key": keys,
        "action_entry": {
            "action_id": action_id,
            "action_data": [hexstr(v) for v in entry.arguments],
        },
        "priority": entry.priority,
    }


def _match(match: ir.KeyMatch, width: int) -> Json:
    first, second = hexstr(match.first, width), hexstr(match.second, width)
    if match.match_kind == "range":
        return {"match_type": "range", "start": first, "end": second}
    result: Json = {"match_type": match.match_kind, "key": first}
    if match.match_kind == "lpm":
        result["prefix_length"] = match.second
    elif match.match_kind == "ternary":
        result["mask"] = second
    return result
