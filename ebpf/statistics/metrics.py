"""Statistics of a window as Prometheus metrics."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ebpf.statistics.flows import Flows, format_address, unpack_keys
from ebpf.statistics.program import Window
from telemark.metrics.folder import MetricsFolder

if TYPE_CHECKING:
    from prometheus_client.core import Metric

FLOW = ("source", "destination", "protocol", "source_port", "destination_port")
PERCENTILES = (50, 90, 99)
TOP = 20  # number of published flows


def publish(folder: MetricsFolder | None, window: Window) -> None:
    """With --metrics, publish the statistics of a window. They replace those of the last window."""
    if folder is not None:
        folder.publish("ebpf", metrics(window))


def metrics(window: Window) -> "Iterator[Metric]":
    """Return the metrics of the statistics that were selected."""
    # takes 0.05 s, which runs without --metrics do not need
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

    totals, lengths = window.totals, window.lengths
    yield GaugeMetricFamily("ebpf_window_packets", "Packets of the window.", totals.packets)
    yield GaugeMetricFamily("ebpf_window_bytes", "Bytes of the window.", totals.bytes)
    if window.registers is not None:
        yield GaugeMetricFamily(
            "ebpf_window_flows", "Estimated flows of the window.", window.registers.estimate
        )
    if lengths is not None and totals.packets:
        # Prometheus reserves the label "quantile" for summaries
        percentiles = GaugeMetricFamily(
            "ebpf_window_packet_length_bytes", "Estimated percentiles of the packet lengths.",
            labels=["percentile"],
        )  # fmt: skip
        for percentile in PERCENTILES:
            percentiles.add_metric([str(percentile)], lengths.quantile(percentile / 100))
        yield percentiles
    flows = window.heavy if window.counted is None else window.counted
    if flows is not None:
        family = GaugeMetricFamily(
            "ebpf_window_flow_packets", f"Packets of the top {TOP} flows.", labels=FLOW
        )
        for labels, count in _top(flows):
            family.add_metric(labels, count)
        yield family


def _top(flows: Flows) -> Iterator[tuple[list[str], int]]:
    """Return labels and packets of the flows with the most packets."""
    top = flows.top(TOP)
    for key, count in zip(unpack_keys(top.keys), top.counts.tolist(), strict=True):
        ends = [format_address(bytes(key[name])) for name in ("source", "destination")]
        numbers = [str(key[name]) for name in ("protocol", "source_port", "destination_port")]
        yield [*ends, *numbers], count
