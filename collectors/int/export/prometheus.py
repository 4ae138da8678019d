"""Findings as Prometheus metrics."""

from collections.abc import Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)  # fmt: skip

from collectors.int.application import OTHERS, Findings
from collectors.int.index import endpoints
from telemark.metrics.prometheus import counter

FLOW = ("source", "destination", "protocol", "source_port", "destination_port")  # endpoints()


def metrics(findings: Findings) -> Iterator[Metric]:
    """Return all metrics."""
    yield from _total_metrics(findings)
    yield from _flow_metrics(findings)


def _total_metrics(found: Findings) -> Iterator[Metric]:
    yield CounterMetricFamily("int_datagrams", "Received datagrams.", found.datagrams)
    yield CounterMetricFamily("int_reports", "Decoded reports.", found.reports)
    yield counter(
        "int_malformed", "Malformed input, by reason.", ["reason"],
        (([status.name.lower()], count) for status, count in found.parse_errors.items()),
    )  # fmt: skip
    yield counter(
        "int_overflow", "Entries beyond the limits of the collector.", ["what"],
        (([what], count) for what, count in found.overflow.items()),
    )  # fmt: skip
    yield counter(
        "int_drops", "Packets reported as dropped.", ["node", "reason"],
        (
            (["other"] * 2 if kind == OTHERS else [str(number) for number in kind], count)
            for kind, count in found.drops.items()
        ),
    )  # fmt: skip
    for name, meaning in (
        ("lost", "Report datagrams that were lost, by node."),
        ("reordered", "Report datagrams that arrived late, by node."),
        ("duplicates", "Report datagrams that arrived twice, by node."),
        ("restarts", "Restarts of the report sequence numbers, by node."),
    ):
        yield counter(
            f"int_sequence_{name}", meaning, ["node", "hw_id"],
            (
                ([str(source["node"]), str(source["hw_id"])], int(source[name]))
                for source in found.sources
            ),
        )  # fmt: skip


def _flow_metrics(found: Findings) -> Iterator[Metric]:
    yield GaugeMetricFamily("int_flows", "Flows in the index.", len(found.flows))
    flows = [(flow, [str(value) for value in endpoints(flow["key"]).values()])
             for flow in found.flows]  # fmt: skip
    for name, meaning in (
        ("reports", "Reports of a flow."),
        ("paths", "Packets of a flow with a reported path."),
        ("changes", "Path changes of a flow."),
        ("dropped", "Drop reports of a flow."),
    ):
        yield counter(
            f"int_flow_{name}", meaning, FLOW, ((labels, int(flow[name])) for flow, labels in flows)
        )
    for name, field, scale, meaning in (
        ("int_hop_latency_seconds", "latency_ns", 10**9, "Latency of a flow's packets in a node."),
        ("int_link_latency_seconds", "link_ns", 10**9, "Link latency from the previous node."),
        ("int_queue_occupancy", "occupancy", 1, "Queue occupancy at a node."),
    ):
        labels = (*FLOW, "hop", "node")
        summary = SummaryMetricFamily(name, meaning, labels=labels)
        maximum = GaugeMetricFamily(f"{name}_max", f"{meaning[:-1]}, maximum.", labels=labels)
        for flow, values in flows:
            for position, hop in enumerate(flow["path"][: flow["hops"]]):
                statistics = hop[field]
                if count := int(statistics["count"]):
                    at = [*values, str(position), str(hop["node"])]
                    summary.add_metric(at, count, int(statistics["sum"]) / scale)
                    maximum.add_metric(at, int(statistics["max"]) / scale)
        yield summary
        yield maximum
