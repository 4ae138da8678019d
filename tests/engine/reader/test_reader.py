"""BMv2 JSON that no compiler writes is rejected in one line, and does not get into the C code."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from small_programs import json_of

from minip4.engine.codegen.generator import Generator
from minip4.engine.engine import Engine
from minip4.engine.errors import EngineError, InvalidArgument
from minip4.engine.reader.program import only_good_json, read_program

BREAK_OUT = 'x */ } int evil(void) { return 1; } " \\ \n ??/ { /*'
ODD = [BREAK_OUT, 10**30, -1, None, [], {}, True, 1.5]
PARTS = {
    "ingress_locals": """
        register<bit<8>>(4) reg; counter(4, CounterType.packets) hits;
        meter(4, MeterType.bytes) speed; action_selector(HashAlgorithm.crc16, 8, 8) choice;
        action go(bit<9> port) { std.egress_spec = port; }
        table t { key = { hdr.h.a: ternary; hdr.h.b: range; hdr.h.c: selector; }
                  actions = { go; } implementation = choice; }""",
    "ingress": """
        t.apply(); reg.write(1, hdr.h.b); hits.count(2); log_msg("a {}", {hdr.h.a});
        digest(1, {hdr.h.a, hdr.h.b}); hash(hdr.h.c, HashAlgorithm.crc32, 16w0, {hdr.h.a}, 16w9);
        clone_preserving_field_list(CloneType.I2E, 5, 1);""",
}


def paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each node of a document, except the paths of source locations."""
    items: Any = node.items() if isinstance(node, dict) else ()
    for key, value in enumerate(node) if isinstance(node, list) else items:
        if key not in ("source_info", "__meta__"):
            yield (*path, key)
            yield from paths(value, (*path, key))


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    document = copy.deepcopy(document)
    node = document
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return document


def test_odd_json_is_refused_or_harmless() -> None:
    document = json_of(**PARTS)
    refused = 0
    for number, path in enumerate(paths(document)):
        for odd in {0: [BREAK_OUT], 1: ODD}[number % 5 == 0]:
            try:
                program = read_program(changed(document, path, odd))
                with only_good_json():
                    text = Generator(program).text
            except EngineError:
                refused += 1
                continue
            assert "} int" not in re.sub(r'"(\\.|[^"\\\n])*"', "", text), path
    assert refused > 100


def test_names_of_any_text_are_only_names() -> None:
    text = json.dumps(json_of(**PARTS))
    for name in ("I.t", "I.go", "I.reg", "h_t", "a {}"):
        odd = name + BREAK_OUT
        text = text.replace(json.dumps(name), json.dumps(odd))
    Engine(json.loads(text)).close()


EMPTY: Any = {
    name: []
    for name in (
        "header_types", "headers", "parsers", "deparsers", "actions", "calculations", "pipelines",
    )
}  # fmt: skip


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "header_types: expected a list"),
        ({"header_types": {}}, "header_types: expected a list"),
        ({**EMPTY, "header_types": [3]}, "writes it: some member is missing or invalid"),
        ({**EMPTY, "headers": [{}]}, "writes it: 'name' is missing or invalid"),
        ({**EMPTY, "header_types": [{"name": "h", "fields": [["a", "8"]]}]}, "fields[0]: expected"),
        ({"register_arrays": [{"name": "r", "id": "1 + 1"}]}, "register_arrays[0].id"),
    ],
)
def test_a_message_says_where(document: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Engine(document)
    assert message in str(caught.value)


def test_metadata_cannot_be_extracted() -> None:
    document = json_of(**PARTS)
    header = document["parsers"][0]["parse_states"][0]["parser_ops"][0]["parameters"][0]["value"]
    (instance,) = [each for each in document["headers"] if each["name"] == header]
    instance["metadata"] = True
    with pytest.raises(InvalidArgument, match=f"extract to {header}, expected a header"):
        Engine(document)


@pytest.mark.parametrize("section", ["register_arrays", "counter_arrays", "meter_arrays",
                                     "calculations", "pipelines", "tables"])  # fmt: skip
def test_names_must_differ(section: str) -> None:
    """The C code has one array element per name, but the numbers would count both objects."""
    document = json_of(**PARTS)
    items = document["pipelines"][0][section] if section == "tables" else document[section]
    items.append(copy.deepcopy(items[0]))
    with pytest.raises(InvalidArgument, match="expected names that differ"):
        Engine(document)


def test_a_document_may_not_be_nested_without_end() -> None:
    document: Any = {}
    for _ in range(900):
        document = {"expression": document}
    with pytest.raises(InvalidArgument, match="400 levels"):
        Engine(document)
