"""Reads the pipelines of a TNA program."""

from __future__ import annotations

from itertools import count
from typing import Any

from minip4.engine import model as m
from minip4.engine.errors import InvalidArgument
from minip4.engine.reader.check import is_number

Json = dict[str, Any]

GRESSES = ("ingress", "egress")
PIPES = 4
PARSERS_OF_PIPE = 18
MAX_PORT_METADATA_BYTES = 64  # TNA_ROOM in tna.h has room for it and for the intrinsic metadata
PORT_METADATA_BYTES = 8  # of Tofino 1, and of the data of Resubmit, which replace them
ALONE: Json = {"pipes": [], "ingress_parsers": [[]], "egress_parsers": [[]]}


def read_tna(document: Json) -> m.TnaProgram:
    """Return the pipelines of a program. Raises InvalidArgument."""
    meta = document["__meta__"]
    size = meta.get("port_metadata_bytes", PORT_METADATA_BYTES)
    if not is_number(size, MAX_PORT_METADATA_BYTES) or size < PORT_METADATA_BYTES:
        raise InvalidArgument(
            f"port_metadata_bytes {size!r}: expected a number from {PORT_METADATA_BYTES} to "
            f"{MAX_PORT_METADATA_BYTES}"
        )
    described = meta.get("pipelines", [ALONE])
    _check(described)
    _check_counts(document, described)
    names = [p["name"] for p in document["pipelines"]]
    numbers = count()
    pipelines = []
    for i, pipeline in enumerate(described):
        ingress, egress = (
            tuple(m.TnaParser(next(numbers), frozenset(of)) for of in pipeline[f"{gress}_parsers"])
            for gress in GRESSES
        )
        pipes = frozenset(pipeline["pipes"])
        pipelines.append(m.TnaPipeline(pipes, (names[2 * i], names[2 * i + 1]), (ingress, egress)))
    return m.TnaProgram(tuple(pipelines), size)


def _check(pipelines: list[Json]) -> None:
    """Require that each pipe has one pipeline, and each of its parsers is described once."""
    _check_numbers("pipes", [p["pipes"] for p in pipelines], PIPES)
    for pipeline in pipelines:
        for gress in GRESSES:
            parsers = pipeline[f"{gress}_parsers"]
            if not parsers:
                raise InvalidArgument(f"a pipeline has no {gress}_parsers")
            _check_numbers(f"{gress}_parsers", parsers, PARSERS_OF_PIPE)


def _check_numbers(what: str, lists: list[list[Any]], limit: int) -> None:
    numbers = [number for numbers in lists for number in numbers]
    if not all(is_number(n, limit - 1) for n in numbers) or len(set(numbers)) < len(numbers):
        raise InvalidArgument(f"{what} {lists}: expected different numbers from 0 to {limit - 1}")


def _check_counts(document: Json, pipelines: list[Json]) -> None:
    parsers = sum(len(p[f"{gress}_parsers"]) for p in pipelines for gress in GRESSES)
    blocks = 2 * len(pipelines)
    expected = {"parsers": parsers, "deparsers": blocks, "pipelines": blocks}
    found = {kind: len(document[kind]) for kind in expected}
    if found != expected:
        raise InvalidArgument(f"{_listed(found)}; expected {_listed(expected)} in this TNA program")


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in counts.items())
