"""Metrics of a window of the statistics program."""

import numpy as np
import pytest
from databases import needs_prometheus, unconventional
from statistics_models import find_classes, make_key

from ebpf.statistics.flows import Flows
from ebpf.statistics.metrics import TOP, metrics
from ebpf.statistics.program import Window
from ebpf.statistics.quantiles import CLASSES, RELATIVE_ERROR, Histogram
from ebpf.statistics.totals import Totals


def values(window: Window) -> dict[tuple[str, ...], float]:
    return {
        (name, *labels.values()): value
        for metric in metrics(window) for name, labels, value, *_ in metric.samples
    }  # fmt: skip


def test_statistics_that_were_not_selected_have_no_metrics() -> None:
    window = Window(Totals(packets=3, bytes=200, squares=0, ignored=0, uncounted=0))
    assert values(window) == {("ebpf_window_packets",): 3, ("ebpf_window_bytes",): 200}


def test_percentiles_are_labelled() -> None:
    lengths = Histogram(np.bincount(find_classes(np.arange(100)), minlength=CLASSES))
    window = Window(Totals(100, 0, 0, 0, 0), lengths=lengths)
    assert values(window)["ebpf_window_packet_length_bytes", "90"] == pytest.approx(
        89, rel=RELATIVE_ERROR
    )


def test_only_top_flows_are_published() -> None:
    keys = [make_key("10.0.0.1", "10.0.0.2", 1000, port, 17) for port in range(TOP + 1)]
    window = Window(Totals(0, 0, 0, 0, 0), heavy=Flows(np.stack(keys), np.arange(TOP + 1) + 5))
    flows = {key: value for key, value in values(window).items() if len(key) > 1}
    assert len(flows) == TOP
    flow = "10.0.0.1", "10.0.0.2", "17", "1000", str(TOP)
    assert flows[("ebpf_window_flow_packets", *flow)] == TOP + 5


@needs_prometheus
def test_names_follow_conventions() -> None:
    lengths = Histogram(np.bincount(find_classes(np.arange(100)), minlength=CLASSES))
    assert unconventional(metrics(Window(Totals(100, 0, 0, 0, 0), lengths=lengths))) == ""
