"""Reader of the file that describes a DTA system for `telemark dta`.

docs/how-to/dta-system.md describes the keys. An error is reported in one line: file, key, value and
expected value.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, TypeAlias

from collectors.dta.captures import read_reports
from collectors.dta.load import Format, Load, Reports
from controllers.dta.manager.stores import KINDS, KeyIncrements, StoreKind
from controllers.dta.reporter import Reporter
from controllers.dta.watch import Counts, Data, EventList, Postcards, ReportKind, WatchedFlow, Word
from telemark.json_input import Document, Readers
from telemark.topology.checks import NAME, NAMES
from telemark.topology.links import PROPERTIES
from telemark.traffic.flows import Flow

MOST = (1 << 64) - 1
Link: TypeAlias = tuple[str, str, Mapping[str, Any]]  # two nodes, and the properties of their link


@dataclass(frozen=True)
class Kept:
    """A store of a collector, and the maximum rate of requests to it (None: no limit)."""

    kind: StoreKind
    requests_per_s: float | None = None
    burst: int = 1


@dataclass(frozen=True)
class Sender:
    """A generator of reports to a collector."""

    to: str
    load: Load | Reports
    rate_per_s: float


@dataclass(frozen=True)
class Question:
    """Keys, flows or lists for which a store is queried."""

    collector: str
    store: str
    keys: Sequence[str]


@dataclass(frozen=True)
class Configuration:
    """Content of the file. Nodes are hosts, unless they are translators or reporters."""

    links: Sequence[Link]
    collectors: Mapping[str, Mapping[str, Kept]]
    # map from translator to the collectors that it writes to
    translators: Mapping[str, Sequence[str]]
    reporters: Mapping[str, Reporter]
    generators: Mapping[str, Sender]
    flows: Sequence[Flow]
    questions: Sequence[Question]

    @property
    def nodes(self) -> list[str]:
        """Names of all nodes."""
        return [*dict.fromkeys(node for link in self.links for node in link[:2])]

    @property
    def switches(self) -> list[str]:
        """Names of all switches: translators and reporters."""
        return [node for node in self.nodes if node in {**self.translators, **self.reporters}]

    def translator_of(self, collector: str) -> str:
        """Return the translator of a collector."""
        return next(name for name, each in self.translators.items() if collector in each)


def read(path: Path) -> Configuration:
    """Read the whole file. Raises TestbedError, whose message is one line."""
    document = Document.load(path)
    found = document.fields(
        {
            "links": _links, "collectors": partial(_each, _stores),
            "translators": partial(_each, _names), "reporters": partial(_each, _reporter),
            "generators": partial(_each, _sender), "flows": _flows, "questions": _questions,
        },
        required=("links", "collectors", "translators"),
    )  # fmt: skip
    none: dict[str, Any] = {"reporters": {}, "generators": {}, "flows": [], "questions": []}
    made = Configuration(**none | found)
    _check_places(document, made)
    _check_translators(document, made)
    _check_reports(document, made)
    return made


def fields_of(made: type, **others: Callable[[Document], Any]) -> Readers:
    """Return a reader for each field of a dataclass.

    `others` are readers by field name; None means that the field gets no reader. For all other
    fields, the type selects the reader.
    """
    readers: dict[Any, Callable[[Document], Any]] = {
        int: _natural, int | None: _natural, bool: Document.boolean, float: Document.number,
        float | None: Document.number, str: Document.text,
    }  # fmt: skip
    known = {each.name: readers.get(each.type) for each in dataclasses.fields(made)}
    return {key: reader for key, reader in (known | others).items() if reader is not None}


def required_of(made: type) -> list[str]:
    """Return the names of those fields of a dataclass that have no default value."""
    return [
        each.name for each in dataclasses.fields(made)
        if each.default is each.default_factory is dataclasses.MISSING
    ]  # fmt: skip


def _natural(document: Document) -> int:
    return document.natural(MOST)


def _each(read: Callable[[Document], Any], document: Document) -> dict[str, Any]:
    return {name: read(value) for name, value in document.nodes().items()}


def _names(document: Document) -> list[str]:
    return [each.text() for each in document.entries()]


def _links(document: Document) -> list[Link]:
    found: list[Link] = []
    for each in document.entries():
        if len(each.entries()) not in (2, 3):
            each.wrong(
                'two nodes such as ["h1", "s1"], and link properties such as {"delay_us": 5}'
            )
        first, second, *rest = each.entries()
        for node in (first, second):
            if not NAME.fullmatch(node.text()):
                node.wrong(NAMES)
        if first.text() == second.text():
            each.wrong("two nodes")
        properties = rest[0].fields(dict.fromkeys(PROPERTIES, Document.number)) if rest else {}
        found.append((first.text(), second.text(), properties))
    return found


def _stores(document: Document) -> dict[str, Kept]:
    return {name: _store(value) for name, value in document.nodes().items()}


def _store(document: Document) -> Kept:
    _, kind = document["primitive"].one_of(KINDS)
    limits = {"requests_per_s": Document.number, "burst": _natural}
    found = document.fields(
        {"primitive": Document.text, **fields_of(kind), **limits}, required_of(kind)
    )
    of_limits = {key: found.pop(key) for key in limits if key in found}
    del found["primitive"]
    made = document.make(kind, **found)
    # Create the store already here, so that an error message contains the location in the file.
    document.make(lambda: made.area("", 0).store(range(1, 2)))
    return Kept(made, **of_limits)


def _reporter(document: Document) -> Reporter:
    collectors = _names(document["to"])

    def events(of: Document) -> EventList:
        readers = {"list": _natural, "to": lambda to: to.one_of(numbers),
                   **dict.fromkeys(("immediate", "retransmittable"), Document.boolean)}  # fmt: skip
        found = of.fields(readers, ("list",))
        number, translator = found.pop("list"), found.pop("to", 1)
        return of.make(EventList, number, translator, **found)

    numbers = {name: number for number, name in enumerate(collectors, 1)}
    found = document.fields(
        {
            "to": _names, "watch": lambda each: [_watched(flow) for flow in each.entries()],
            **fields_of(Reporter, address=_address, clock_offset_us=None),  # type: ignore[arg-type]
            "data": _data, "counts": partial(_made, Counts), "postcards": partial(_made, Postcards),
            "started": events, "resent": events, "dropped": events,
        },
        ("address", "to", "watch"),
    )  # fmt: skip
    return document.make(Reporter, translators=found.pop("to"), flows=found.pop("watch"), **found)


def _made(kind: type, document: Document) -> Any:
    return document.make(kind, **document.fields(fields_of(kind), required_of(kind)))


def _watched(document: Document) -> WatchedFlow:
    def wanted(each: Document) -> ReportKind:
        names = {want.name.lower(): want for want in ReportKind if want.name}
        return sum((one.one_of(names) for one in each.entries()), ReportKind(0))

    fields = fields_of(WatchedFlow, wanted=wanted)
    return document.make(WatchedFlow, **document.fields(fields, ("src_addr", "dst_addr")))


def _data(document: Document) -> Data:
    words = {word.name.lower(): word for word in Word}

    def changes(each: Document) -> tuple[tuple[Word, int], ...]:
        for name in each.mapping():
            if name not in words:
                each.wrong(f"a mask for each of some of {', '.join(words)}")
        return tuple((words[name], mask.natural((1 << 32) - 1)) for name, mask in each.items())

    fields = fields_of(Data, first=lambda each: each.one_of(words), changes=changes)
    return document.make(Data, **document.fields(fields))


def _sender(document: Document) -> Sender:
    ways = {"to": Document.text, "rate_per_s": Document.number}
    to, rate = document["to"].text(), document.get("rate_per_s")
    rate_per_s = 1000.0 if rate is None else rate.number()
    if not rate_per_s:
        document["rate_per_s"].wrong("more than 0")
    if (capture := document.get("capture")) is not None:
        fields = document.fields({**ways, "capture": Document.text, "speed": Document.number})
        path = document.path.parent / fields["capture"]
        return Sender(to, capture.make(read_reports, path, fields.get("speed", 1.0)), rate_per_s)
    fields = document.fields(
        {
            **ways,
            **fields_of(
                Load, mix=_mix,
                format=lambda each: each.one_of({f.name.lower(): f for f in Format}),
                lists=lambda each: range(each.natural(1 << 32, 1)),
            ),
        },
        ("to", "count"),
    )  # fmt: skip
    made = document.make(Load, **{key: value for key, value in fields.items() if key not in ways})
    return Sender(to, made, rate_per_s)


def _mix(document: Document) -> dict[Any, float]:
    for name in document.mapping():
        if name not in KINDS:
            document.wrong(f"shares of some of {', '.join(KINDS)}")
    return {KINDS[name][0]: share.number() for name, share in document.items()}


def _address(document: Document) -> str:
    text = document.text()
    try:
        return str(IPv4Address(text))
    except ValueError:
        document.wrong("an IPv4 address")


def _flows(document: Document) -> list[Flow]:
    found = []
    for number, each in enumerate(document.entries(), 1):
        fields = {"id": number} | each.fields(
            fields_of(Flow), ("source", "destination", "rate_pps", "count")
        )
        found.append(each.make(Flow, **fields))
    return found


def _questions(document: Document) -> list[Question]:
    found = []
    for each in document.entries():
        readers = {"collector": Document.text, "store": Document.text, "keys": _keys}
        found.append(Question(**each.fields(readers, readers)))
    return found


def _keys(document: Document) -> list[str]:
    """Return keys as strings. In the file, keys are strings or numbers."""
    for each in document.entries():
        if not isinstance(each.value, str | int):
            each.wrong("a string or a number")
    return [str(each.value) for each in document.entries()]


def _check_places(document: Document, made: Configuration) -> None:
    """Check that names refer to nodes of the right kind."""
    nodes, switches = made.nodes, made.switches
    hosts = [node for node in nodes if node not in switches]
    for part, wanted, what in (
        ("collectors", hosts, "a host"), ("generators", hosts, "a host"),
        ("translators", nodes, "a node"), ("reporters", nodes, "a node"),
    ):  # fmt: skip
        for name in getattr(made, part):
            if name not in wanted:
                document[part][name].wrong(f"{name} to be {what} with a link, one of {wanted}")
    for name in made.reporters:
        if name in made.translators:
            document["reporters"][name].wrong("another switch: this one is a translator")
    for name in made.generators:
        if name in made.collectors:
            document["generators"][name].wrong("another host: this one is a collector")
    for flow, place in zip(made.flows, document["flows"].entries() if made.flows else [],
                           strict=True):  # fmt: skip
        for end in ("source", "destination"):
            if getattr(flow, end) not in hosts:
                place[end].wrong(f"one of {', '.join(hosts)}")
    for host in hosts:
        if (count := sum(host in link[:2] for link in made.links)) != 1:
            document["links"].wrong(f"one link of host {host}, not {count}")


def _check_translators(document: Document, made: Configuration) -> None:
    """Check that each collector has one translator, and that each report passes this translator."""
    named = [name for names in made.translators.values() for name in names]
    for translator, names in made.translators.items():
        for name in names:
            if name not in made.collectors:
                document["translators"][translator].wrong(
                    f"some of the collectors {', '.join(made.collectors)}"
                )
    for name in made.collectors:
        if named.count(name) != 1:
            document["translators"].wrong(
                f"one translator of collector {name}, not {named.count(name)}"
            )
    for name, reporter in made.reporters.items():
        place = document["reporters"][name]["to"]
        for to in reporter.translators:
            if to not in made.collectors:
                place.wrong(f"some of the collectors {', '.join(made.collectors)}")
        ways = [made.translator_of(to) for to in reporter.translators]
        if len({*ways}) < len(ways):
            place.wrong(
                "collectors of different translators, since each translator tracks the "
                "reporter's reports"
            )


def _check_reports(document: Document, made: Configuration) -> None:
    """Check that generators and questions name existing stores."""
    for name, sender in made.generators.items():
        place = document["generators"][name]
        if sender.to not in made.collectors:
            place["to"].wrong(f"one of the collectors {', '.join(made.collectors)}")
        for store, kept in made.collectors[sender.to].items():
            if (isinstance(kept.kind, KeyIncrements) and isinstance(sender.load, Load)
                    and KINDS["key-increment"][0] in sender.load.mix
                    and sender.load.redundancy > kept.kind.rows):  # fmt: skip
                place.wrong(
                    f"a redundancy of at most {kept.kind.rows}, the number of rows of {store}"
                )
    for question, place in zip(made.questions,
                               document["questions"].entries() if made.questions else [],
                               strict=True):  # fmt: skip
        if question.collector not in made.collectors:
            place["collector"].wrong(f"one of {', '.join(made.collectors)}")
        if question.store not in made.collectors[question.collector]:
            place["store"].wrong(f"one of {', '.join(made.collectors[question.collector])}")
