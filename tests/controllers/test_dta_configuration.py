"""The file of a DTA system: each error is reported in one line, with its location."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controllers.dta.manager.configuration import read
from controllers.dta.manager.system import Links, system
from telemark.errors import TestbedError
from telemark.topology.checks import check_topology

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "dta.json"
ODD = ("", "x", "10.0.0.999", -1, 0, 3, 1 << 70, 2.5, True, [], ["h1"], {}, {"x": 1}, None)


def example() -> dict[str, Any]:
    return dict(json.loads(EXAMPLE.read_text()))


def error_in(folder: Path, content: object) -> str:
    """Return the one-line error for a file with this content, or an empty text."""
    path = folder / "dta.json"
    path.write_text(json.dumps(content))
    said = ""
    try:
        made = read(path)
        check_topology(Links(made))
    except TestbedError as error:
        said = str(error)
    if said:
        assert said.startswith(f"{path}: ")
        assert "\n" not in said
        return said.removeprefix(f"{path}: ")
    try:
        system(made, folder)
    except ValueError as error:
        return str(error)
    return ""


def test_example_is_valid(tmp_path: Path) -> None:
    assert error_in(tmp_path, example()) == ""


def stores(what: dict[str, Any]) -> Any:
    return what["collectors"]["h2"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.pop("links"), "top level: {"),
        (lambda c: c.update(link=[]),
         "link: unknown key; expected one of links, collectors, translators"),
        (lambda c: c["links"].append(["h1", "s2"]), "one link of host h1, not 2"),
        (lambda c: c["links"].append(["h1"]), 'links[4]: ["h1"]: expected two nodes'),
        (lambda c: c["links"][2].append(7), "expected two nodes such as"),
        (lambda c: c["links"][2][2].update(speed=7), "links[2][2].speed: unknown key; exp"),
        (lambda c: c["links"].append(["s1", "s1"]), 'links[4]: ["s1", "s1"]: expected two nodes'),
        (lambda c: stores(c)["values"].update(slots=100),
         "collectors.h2.values: Key-Write store of 1 words: 100 slots: expected a power of 2"),
        (lambda c: stores(c)["values"].update(slots="many"),
         'collectors.h2.values.slots: "many": expected a whole number'),
        (lambda c: stores(c)["values"].update(primitive="write"),
         'collectors.h2.values.primitive: "write": expected one of key-write, key-increment'),
        (lambda c: stores(c)["values"].update(lists=3),
         "collectors.h2.values.lists: unknown key; expected one of primitive, slots, words"),
        (lambda c: stores(c)["events"].update(lists=5000), "registers 0 to 4999"),
        (lambda c: c["collectors"].update(h9={}),
         "collectors.h9: {}: expected h9 to be a host with a link"),
        (lambda c: c["translators"].update(s2=["h2", "h3"]),
         'translators.s2: ["h2", "h3"]: expected some of the collectors h2'),
        (lambda c: c["translators"].update(s2=[]),
         "expected one translator of collector h2, not 0"),
        (lambda c: c["reporters"].update(s2=c["reporters"]["s1"]), "this one is a translator"),
        (lambda c: c["reporters"]["s1"].update(address="here"),
         'reporters.s1.address: "here": expected an IPv4 address'),
        (lambda c: c["reporters"]["s1"].update(to=["h2", "h2"]),
         "expected collectors of different translators"),
        (lambda c: c["reporters"]["s1"]["watch"][0].update(wanted=["all"]),
         'reporters.s1.watch[0].wanted[0]: "all": expected one of start, resent'),
        (lambda c: c["reporters"]["s1"]["data"].update(changes={"port": 1}), "some of ports, pack"),
        (lambda c: c["reporters"]["s1"]["started"].update(to="h3"),
         'reporters.s1.started.to: "h3": expected one of h2'),
        (lambda c: c["generators"].update(h2=c["generators"]["h3"]), "this one is a collector"),
        (lambda c: c["generators"]["h3"].update(mix={"write": 1}), "expected shares of some of"),
        (lambda c: c["generators"]["h3"].update(redundancy=3), "a redundancy of at most 2"),
        (lambda c: c["generators"]["h3"].update(redundancy=9), "redundancy 9: expected 1 to 8"),
        (lambda c: c["generators"]["h3"].update(rate_per_s=0), "rate_per_s: 0: expected more than"),
        (lambda c: c["generators"].update(h3={"to": "h2", "capture": "no.pcap"}), "no.pcap"),
        (lambda c: c["flows"][0].update(source="s1"), 'flows[0].source: "s1": expected one of h1'),
        (lambda c: c["questions"][0].update(store="no"), 'questions[0].store: "no": expected one '),
    ],
)  # fmt: skip
def test_errors_are_reported_with_their_place(
    change: Callable[[Any], object], said: str, tmp_path: Path
) -> None:
    content = example()
    change(content)
    assert said in error_in(tmp_path, content)


def test_two_collectors_of_a_translator_share_its_registers(tmp_path: Path) -> None:
    content = example()
    content["links"].append(["s2", "h4"])
    content["collectors"]["h4"] = copy.deepcopy(content["collectors"]["h2"])
    content["translators"]["s2"] = ["h2", "h4"]
    assert error_in(tmp_path, content) == ""


def places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key of each value."""
    keys = content if isinstance(content, dict) else range(len(content))
    for key in keys:
        yield content, key
        if isinstance(content[key], dict | list):
            yield from places(content[key])


def test_no_odd_value_anywhere_is_more_than_one_line(tmp_path: Path) -> None:
    content, wrong = example(), 0
    for holder, key in [*places(content)]:
        right = holder[key]
        for odd in ODD:
            holder[key] = odd
            wrong += error_in(tmp_path, content) != ""
        holder[key] = right
    assert wrong > 1000
