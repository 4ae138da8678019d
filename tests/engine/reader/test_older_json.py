"""minip4 accepts BMv2 JSON as older compilers wrote it."""

import copy

from small_programs import json_of

from minip4.engine.engine import Engine
from minip4.engine.keys import Exact


def test_tables_that_tell_their_actions_by_name_only() -> None:
    document = copy.deepcopy(
        json_of(
            ingress_locals="""
                action set(bit<8> v) { hdr.h.b = v; }
                table t { key = { hdr.h.a: exact; } actions = { set; NoAction; } }""",
            ingress="t.apply();",
        )
    )
    for pipeline in document["pipelines"]:
        for table in pipeline["tables"]:
            del table["action_ids"]
    engine = Engine(document)
    engine.table_add("I.t", [Exact(1)], "I.set", [9], 0)
    assert engine.process(1, bytes.fromhex("01020304"), 0) == [(0, bytes.fromhex("01090304"))]
    assert engine.process(1, bytes.fromhex("02020304"), 0) == [(0, bytes.fromhex("02020304"))]
    engine.close()
