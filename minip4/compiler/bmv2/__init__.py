"""The back end: converts a lowered program to BMv2 JSON (behavioral-model, docs/JSON_format.md)."""

from __future__ import annotations

from minip4.compiler import ir
from minip4.compiler.bmv2.actions import action, action_body
from minip4.compiler.bmv2.expressions import Json, data, expression, hexstr, source_info, target
from minip4.compiler.bmv2.parser import parser
from minip4.compiler.bmv2.pipeline import Ids, pipeline

_VERSION = [2, 24]


def bmv2_json(program: ir.Program) -> Json:
    ids = Ids()
    for number, a in enumerate(program.actions):
        ids.actions[id(a)] = number
        ids.names.add(a.name)
        ids.json_actions.append(action(number, a))
    pipelines = [pipeline(i, p, ids) for i, p in enumerate(program.pipelines)]
    return {
        **_storage(program),
        "field_lists": [
            {"id": f.id, "name": f.name, "elements": [target(e) for e in f.elements]}
            for f in program.field_lists
        ],
        "errors": [list(e) for e in program.errors],
        "enums": [
            {"name": name, "entries": [list(m) for m in members]}
            for name, members in program.enums.items()
        ],
        "parsers": [parser(i, p) for i, p in enumerate(program.parsers)],
        "parse_vsets": [
            {"name": v.name, "id": i, "compressed_bitwidth": v.width_bits, "max_size": v.size}
            for i, v in enumerate(program.value_sets)
        ],
        "deparsers": [_deparser(i, d) for i, d in enumerate(program.deparsers)],
        "meter_arrays": [_meter(i, m) for i, m in enumerate(program.meters)],
        "counter_arrays": [_counter(i, c) for i, c in enumerate(program.counters)],
        "register_arrays": [_register(i, r) for i, r in enumerate(program.registers)],
        "calculations": [_calculation(i, c) for i, c in enumerate(program.calculations)],
        "learn_lists": [_learn_list(d) for d in program.digests],
        "actions": ids.json_actions,
        "pipelines": pipelines,
        "checksums": [_checksum(i, c) for i, c in enumerate(program.checksums)],
        "force_arith": [],
        "extern_instances": [],
        "field_aliases": [
            [alias, [t.name, field]] for t in program.header_types for alias, field in t.aliases
        ],
        "program": program.path,
        "__meta__": _meta(program),
    }


def _storage(program: ir.Program) -> Json:
    metadata_types = {h.type for h in program.headers if h.is_metadata}
    header_ids = {h.name: i for i, h in enumerate(program.headers)}
    union_ids = {u.name: i for i, u in enumerate(program.unions)}
    headers = [
        {
            "name": h.name,
            "id": i,
            "header_type": h.type,
            "metadata": h.is_metadata,
            "pi_omit": True,
        }
        for i, h in enumerate(program.headers)
    ]
    unions = [
        {
            "name": u.name,
            "id": i,
            "union_type": u.type,
            "header_ids": [header_ids[m] for m in u.members],
            "pi_omit": True,
        }
        for i, u in enumerate(program.unions)
    ]
    return {
        "header_types": [
            _header_type(i, t, is_metadata=t.name in metadata_types)
            for i, t in enumerate(program.header_types)
        ],
        "headers": headers,
        "header_stacks": _stacks(program, header_ids, is_union=False),
        "header_union_types": [
            {"name": name, "id": i, "headers": [list(m) for m in members]}
            for i, (name, members) in enumerate(program.union_types.items())
        ],
        "header_unions": unions,
        "header_union_stacks": _stacks(program, union_ids, is_union=True),
    }


def _header_type(number: int, t: ir.HeaderType, *, is_metadata: bool) -> Json:
    """Return a header type; metadata types are padded to whole bytes, as BMv2 requires."""
    has_varbit = any(f.is_varbit for f in t.fields)
    width = sum(f.width_bits for f in t.fields)
    fields = [
        [f.name, "*"] if f.is_varbit else [f.name, f.width_bits, f.is_signed] for f in t.fields
    ]
    if is_metadata and not has_varbit and width % 8:
        padding = "_padding_0" if t.name == ir.SCALARS_TYPE else "_padding"
        fields.append([padding, 8 - width % 8, False])
    result: Json = {"name": t.name, "id": number, "fields": fields}
    if has_varbit:
        result["max_length"] = (width + 7) // 8
    return result


def _stacks(program: ir.Program, ids: dict[str, int], *, is_union: bool) -> list[Json]:
    kind, members = (
        ("union_type", "header_union_ids") if is_union else ("header_type", "header_ids")
    )
    stacks = [s for s in program.stacks if s.is_union == is_union]
    return [
        {
            "name": s.name,
            "id": i,
            kind: s.type,
            "size": len(s.elements),
            members: [ids[e] for e in s.elements],
        }
        for i, s in enumerate(stacks)
    ]


def _deparser(number: int, d: ir.Deparser) -> Json:
    return {
        "name": d.name,
        "id": number,
        **source_info(d.source),
        "order": d.order,
        "primitives": action_body(d.body),
    }


def _meta(program: ir.Program) -> Json:
    meta: Json = {"version": _VERSION, "compiler": "minip4"}
    if program.architecture != "v1model":
        meta["architecture"] = program.architecture
    return {**meta, **program.meta}


def _counter(number: int, c: ir.Counter) -> Json:
    result: Json = {"name": c.name, "id": number, **source_info(c.source)}
    if c.table is not None:
        return {**result, "is_direct": True, "binding": c.table}
    return {**result, "size": c.size, "is_direct": False}


def _meter(number: int, m: ir.Meter) -> Json:
    result: Json = {
        "name": m.name,
        "id": number,
        **source_info(m.source),
        "is_direct": m.table is not None,
        "rate_count": 2,
        "type": m.unit,
        "size": m.size,
    }
    if m.table is not None:
        result["binding"] = m.table
    if m.result is not None:
        result["result_target"] = target(m.result)["value"]
    return result


def _register(number: int, r: ir.Register) -> Json:
    result: Json = {
        "name": r.name,
        "id": number,
        **source_info(r.source),
        "size": r.size,
        "bitwidth": r.width_bits,
    }
    if r.initial:
        result["initial_value"] = hexstr(r.initial)
    if r.table is not None:
        result["binding"] = r.table
    return result


def _learn_list(d: ir.Digest) -> Json:
    return {
        "id": d.id,
        "name": d.name,
        **source_info(d.source),
        "elements": [target(e) for e in d.elements],
    }


def _calculation(number: int, c: ir.Calculation) -> Json:
    inputs: list[Json] = []
    for e in c.inputs:
        if isinstance(e, ir.Constant):
            width = ir.width_of(e)
            inputs.append({**data(e.value, width), "bitwidth": width})
        else:
            inputs.append(target(e))
    if c.with_payload:
        inputs.append({"type": "payload", "value": None})
    return {
        "name": c.name,
        "id": number,
        **source_info(c.source),
        "algo": c.algorithm,
        "input": inputs,
    }


def _checksum(number: int, c: ir.Checksum) -> Json:
    return {
        "name": c.name,
        "id": number,
        **source_info(c.source),
        "target": target(c.target)["value"],
        "type": "generic",
        "calculation": c.calculation,
        "verify": c.is_verify,
        "update": not c.is_verify,
        "if_cond": expression(c.condition),
    }
