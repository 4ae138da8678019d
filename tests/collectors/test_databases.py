"""Metrics have the values of ground truth, also in Debian's Prometheus and InfluxDB.

The tests with these servers are skipped where they are not installed.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from databases import influxdb, needs_prometheus, prometheus, unconventional
from metric_runs import Sample, Truth, ampm, dta, int_md
from prometheus_client.parser import text_string_to_metric_families
from test_int_export import EPOCH_NS, findings  # noqa: F401  a fixture

from collectors.int.application import Findings
from collectors.int.export import influx
from collectors.int.export.prometheus import metrics
from telemark.metrics.folder import MetricsFolder
from telemark.metrics.influx import lines
from telemark.metrics.prometheus import text

needs_influxdb = pytest.mark.skipif(
    shutil.which("influxd") is None, reason="influxdb is not installed"
)
FLOW = 'source="10.0.0.1",destination="10.0.0.2"'


@pytest.fixture(scope="module", params=[ampm, dta, int_md])
def published(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[MetricsFolder, Truth]:
    """Metrics of a run, and their ground truth."""
    run: Callable[[Path], tuple[MetricsFolder, Truth]] = request.param
    return run(tmp_path_factory.mktemp("run"))


def test_published_metrics_equal_ground_truth(published: tuple[MetricsFolder, Truth]) -> None:
    folder, truth = published
    families = [*text_string_to_metric_families(text(folder.collect()))]
    found: dict[Sample, float] = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families for sample in family.samples
    }  # fmt: skip
    assert {key: found.get(key) for key in truth} == pytest.approx(truth, abs=1e-12)
    assert all(family.name.startswith(("ampm_", "dta_", "int_", "roce_")) for family in families)


@needs_prometheus
def test_names_follow_conventions(published: tuple[MetricsFolder, Truth]) -> None:
    folder, _ = published
    assert unconventional(folder.collect()) == ""


@needs_prometheus
def test_prometheus_answers_with_ground_truth(
    published: tuple[MetricsFolder, Truth], tmp_path: Path
) -> None:
    folder, truth = published
    with prometheus(folder.collect, tmp_path) as query:
        for (name, labels), value in truth.items():
            selector = ",".join(f'{label}="{text}"' for label, text in labels)
            ((_, answer),) = query(f"sum({name}{{{selector}}})")
            assert answer == pytest.approx(value, abs=1e-12)


@needs_influxdb
def test_influxdb_answers_with_ground_truth(
    published: tuple[MetricsFolder, Truth], tmp_path: Path
) -> None:
    folder, truth = published
    with influxdb([*lines(folder.collect(), time.time_ns())], tmp_path) as query:
        for (name, labels), value in truth.items():
            where = " AND ".join(f"\"{label}\" = '{text}'" for label, text in labels)
            ((answer,),) = query(f'SELECT value FROM "{name}" WHERE {where or "true"}')
            assert answer == pytest.approx(value, abs=1e-12)


@needs_prometheus
def test_prometheus_scrapes_the_int_collector_and_answers_queries(
    findings: Findings,  # noqa: F811
    tmp_path: Path,
) -> None:
    with prometheus(lambda: metrics(findings), tmp_path) as query:

        def by_node(expression: str) -> dict[str, float]:
            return {labels.get("node", ""): value for labels, value in query(expression)}

        assert by_node("int_reports_total") == {"": 4}
        assert by_node(f"sum(int_flow_dropped_total{{{FLOW}}})") == {"": 1}
        assert by_node("sum by (node) (int_sequence_lost_total)") == {"5": 1, "6": 0}
        latency = "int_link_latency_seconds_sum / int_link_latency_seconds_count"
        assert by_node(f"{latency} > 0")["6"] == pytest.approx(500e-9)
        assert by_node("max by (node) (int_queue_occupancy_max)")["6"] == 60


@needs_influxdb
def test_influxdb_ingests_the_lines_of_the_int_collector(
    findings: Findings,  # noqa: F811
    tmp_path: Path,
) -> None:
    written = list(influx.lines(findings, EPOCH_NS))
    with influxdb(written, tmp_path) as query:
        stored = [query(f"SELECT * FROM {name}")
                  for name in ("int_flow", "int_hop", "int_source", "int_gap")]  # fmt: skip
        assert sum(map(len, stored)) == len(written)
        assert query("SELECT SUM(reports), SUM(dropped) FROM int_flow") == [
            [int(findings.flows["reports"].sum()), int(findings.flows["dropped"].sum())]
        ]
        assert query("SELECT link_ns_max FROM int_hop WHERE node = '6'") == [[500]]
        assert query("SELECT first, count FROM int_gap WHERE node = '5'") == [[1, 1]]
