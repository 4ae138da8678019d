"""Findings as Prometheus scrapes them: text exposition format 0.0.4.

Names are as is usual there: base units, `_total` for what only grows, `_sum` and `_count`.
"""

from collections.abc import Iterable, Iterator, Mapping

from collectors.int.application import OTHERS, Findings
from collectors.int.keys import endpoints

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, object]
Sample = tuple[str, Labels, float]  # what comes after the name, labels, value


def text(findings: Findings) -> str:
    """All metrics."""
    lines: list[str] = []
    for name, kind, meaning, samples in (*_of_all(findings), *_of_flows(findings)):
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{suffix}{_braced(labels)} {value!r}" for suffix, labels, value in samples]
    return "\n".join(lines) + "\n"


def _of_all(found: Findings) -> Iterator[tuple[str, str, str, Iterable[Sample]]]:
    yield "int_datagrams_total", "counter", "Datagrams that came.", [("", {}, found.datagrams)]
    yield "int_reports_total", "counter", "Reports that were read.", [("", {}, found.reports)]
    yield (
        "int_malformed_total",
        "counter",
        "What was malformed, by reason.",
        [
            ("", {"reason": status.name.lower()}, count)
            for status, count in found.parse_errors.items()
        ],
    )
    yield (
        "int_overflow_total",
        "counter",
        "What did not fit the collector's limits.",
        [("", {"what": what}, count) for what, count in found.overflow.items()],
    )
    yield "int_drops_total", "counter", "Packets that nodes report as dropped.", [
        ("", dict(zip(("node", "reason"), kind if kind != OTHERS else ("other",) * 2, strict=True)),
         count)
        for kind, count in found.drops.items()
    ]  # fmt: skip
    for name, meaning in (
        ("lost", "Numbered datagrams of a node that did not come."),
        ("reordered", "Numbered datagrams of a node that came late."),
        ("duplicates", "Numbered datagrams of a node that came again."),
        ("restarts", "New beginnings of a node's numbers."),
    ):
        yield (
            f"int_sequence_{name}_total",
            "counter",
            meaning,
            [
                (
                    "",
                    {"node": int(source["node"]), "hw_id": int(source["hw_id"])},
                    int(source[name]),
                )
                for source in found.sources
            ],
        )


def _of_flows(found: Findings) -> Iterator[tuple[str, str, str, Iterable[Sample]]]:
    yield "int_flows", "gauge", "Flows that are kept.", [("", {}, len(found.flows))]
    for name, meaning in (
        ("reports", "Reports of a flow."),
        ("paths", "Packets of a flow whose path was told."),
        ("changes", "Changes of a flow's path."),
        ("dropped", "Drop reports of a flow."),
    ):
        yield (
            f"int_flow_{name}_total",
            "counter",
            meaning,
            [("", endpoints(flow["key"]), int(flow[name])) for flow in found.flows],
        )
    for name, field, scale, meaning in (
        ("int_hop_latency_seconds", "latency_ns", 10**9, "Time of a flow's packets in a node."),
        ("int_link_latency_seconds", "link_ns", 10**9, "Time from the node before."),
        ("int_queue_occupancy", "occupancy", 1, "Queue that a flow's packets met in a node."),
    ):
        yield (
            name,
            "summary",
            meaning,
            _at_hops(found, field, {"_sum": "sum", "_count": "count"}, scale),
        )
        yield f"{name}_max", "gauge", f"{meaning[:-1]}: the most.", _at_hops(
            found, field, {"": "most"}, scale)  # fmt: skip


def _at_hops(found: Findings, field: str, parts: Mapping[str, str], scale: int) -> Iterator[Sample]:
    """Parts of a field's statistics, by what follows the name; at all hops that have some."""
    for flow in found.flows:
        labels = endpoints(flow["key"])
        for position, hop in enumerate(flow["path"][: flow["hops"]]):
            if hop[field]["count"]:
                at = {**labels, "hop": position, "node": int(hop["node"])}
                for suffix, part in parts.items():
                    value = int(hop[field][part])
                    yield suffix, at, value if part == "count" else value / scale


def _braced(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""
