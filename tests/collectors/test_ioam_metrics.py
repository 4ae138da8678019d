"""Metrics of IOAM reports: sums over the data of all nodes."""

from databases import needs_prometheus, unconventional

from collectors.ioam.metrics import TOO_LONG, ReportMetrics
from collectors.ioam.options import IPV6_BYTES, NodeData, Report, Trace, TraceType, options_header

FIELDS = TraceType.HOP_NODE | TraceType.TRANSIT_DELAY | TraceType.QUEUE_DEPTH
MISSING = 0xFFFFFFFF


def report(first: NodeData, last: NodeData) -> bytes:
    """Return the report of node 2 about a trace, which has the data of node 1."""
    trace = Trace(FIELDS, nodes=(first,))
    packet = bytes(IPV6_BYTES) + options_header([trace], next_header=17)
    return Report(2, trace_type=FIELDS, data=last, packet=packet).encode()


def data(node: int, delay_ns: int, queue: int) -> NodeData:
    return NodeData(hop_limit=64, node=node, transit_delay=delay_ns, queue_depth=queue)


def test_metrics_are_sums_over_all_reports() -> None:
    found = ReportMetrics("c2")
    found.add([
        report(data(1, 1000, 3), data(2, 500, 0)),
        report(data(1, 2000, 4), data(2, TOO_LONG | 5, MISSING)),
        b"no report",
    ])  # fmt: skip
    samples = {
        (name, labels["collector"], labels.get("node")): value
        for metric in found.metrics() for name, labels, value, *_ in metric.samples
    }  # fmt: skip
    assert samples == {
        ("ioam_malformed_total", "c2", None): 1,
        ("ioam_reports_total", "c2", "2"): 2,
        ("ioam_transit_delay_seconds_count", "c2", "1"): 2,
        ("ioam_transit_delay_seconds_sum", "c2", "1"): 3e-6,
        ("ioam_transit_delay_seconds_count", "c2", "2"): 1,
        ("ioam_transit_delay_seconds_sum", "c2", "2"): 5e-7,
        ("ioam_queue_depth_count", "c2", "1"): 2,
        ("ioam_queue_depth_sum", "c2", "1"): 7,
        ("ioam_queue_depth_count", "c2", "2"): 1,
        ("ioam_queue_depth_sum", "c2", "2"): 0,
    }


@needs_prometheus
def test_names_follow_conventions() -> None:
    found = ReportMetrics("c2")
    found.add([report(data(1, 1000, 3), data(2, 500, 0))])
    assert unconventional(found.metrics()) == ""
