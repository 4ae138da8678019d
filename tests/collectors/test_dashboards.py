"""Grafana dashboards: fields, metrics, queries in Debian's Prometheus, and the how-to."""

import json
import re
from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest
from databases import needs_prometheus, prometheus
from metric_runs import ampm, dta
from prometheus_client.core import Metric
from test_int_export import findings  # noqa: F401  a fixture

from collectors.int.application import Findings
from collectors.int.export.prometheus import metrics
from telemark import REPOSITORY

FILES = sorted((REPOSITORY / "collectors/dashboards").glob("*.json"))
COLUMNS = 24  # width of Grafana's grid
PREFIXES = ("ampm_", "int_", "dta_")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Metric]:
    """Metrics of small runs with alternate marking and DTA."""
    folders = (run(tmp_path_factory.mktemp("run"))[0] for run in (ampm, dta))
    return [metric for folder in folders for metric in folder.collect()]


@pytest.fixture
def exported(runs: list[Metric], findings: Findings) -> list[Metric]:  # noqa: F811
    """All metrics that collectors export."""
    return [*runs, *metrics(findings)]


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def expressions(dashboard: Any) -> Iterator[str]:
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def test_each_system_has_a_dashboard() -> None:
    assert [path.stem for path in FILES] == ["ampm", "dta", "int"]
    dashboards = [read(path) for path in FILES]
    for field in ("uid", "title"):
        assert len({each[field] for each in dashboards}) == len(dashboards)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_dashboard_has_the_fields_that_grafana_needs(path: Path) -> None:
    """See the dashboard JSON model in Grafana's documentation."""
    dashboard = read(path)
    assert isinstance(dashboard["schemaVersion"], int)
    assert dashboard["time"].keys() == {"from", "to"}
    assert "id" not in dashboard  # Grafana chooses it
    (variable,) = dashboard["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    source = {"type": "prometheus", "uid": f"${{{variable['name']}}}"}
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] in ("timeseries", "stat")
        assert panel["title"]
        assert panel["datasource"] == source
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["fieldConfig"]["overrides"] == []
        references = [target["refId"] for target in panel["targets"]]
        assert len({*references}) == len(references) > 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_panels_fit_the_grid_and_do_not_overlap(path: Path) -> None:
    places = [panel["gridPos"] for panel in read(path)["panels"]]
    for place in places:
        assert place.keys() == {"x", "y", "w", "h"}
        assert 0 <= place["x"] < place["x"] + place["w"] <= COLUMNS
        assert place["y"] >= 0 < place["h"]
    for one, other in combinations(places, 2):
        assert any(
            first[at] + first[length] <= second[at]
            for at, length in (("x", "w"), ("y", "h"))
            for first, second in ((one, other), (other, one))
        ), (one, other)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_dashboard_uses_only_metrics_and_labels_that_exist(
    path: Path, exported: list[Metric]
) -> None:
    labels: dict[str, set[str]] = {}
    for sample in chain.from_iterable(metric.samples for metric in exported):
        labels.setdefault(sample.name, set()).update(sample.labels)
    for expression in expressions(read(path)):
        names = [name for name in re.findall(r"\w+", expression) if name.startswith(PREFIXES)]
        assert names
        assert {*names} <= labels.keys()
        for group in re.findall(r"by \(([^)]*)\)", expression):
            assert {*group.split(", ")} <= set.intersection(*(labels[name] for name in names))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_legends_use_labels_of_the_result(path: Path) -> None:
    for panel in read(path)["panels"]:
        for target in panel["targets"]:
            kept = {label for group in re.findall(r"by \(([^)]*)\)", target["expr"])
                    for label in group.split(", ")}  # fmt: skip
            assert {*re.findall(r"{{(\w+)}}", target["legendFormat"])} == kept


@needs_prometheus
def test_prometheus_has_data_for_each_query(exported: list[Metric], tmp_path: Path) -> None:
    queries = list(chain.from_iterable(expressions(read(path)) for path in FILES))
    with prometheus(lambda: exported, tmp_path) as query:
        empty = [each for each in queries if not query(each.replace("$__rate_interval", "1m"))]
    assert empty == []


def test_the_how_to_names_all_commands_with_metrics() -> None:
    page = (REPOSITORY / "docs/how-to/dashboards.md").read_text()
    table = page[: page.index("Other experiments of these systems")]
    named = {*re.findall(r"`([a-z]+_\w+)`", table)}
    scripts = (REPOSITORY / "experiments").glob("*.py")
    assert named == {each.stem for each in scripts if "add_metrics_option" in each.read_text()}
    for name in re.findall(r"`(docs/examples/\w+\.py)`", page):
        assert "add_metrics_option" in (REPOSITORY / name).read_text()
