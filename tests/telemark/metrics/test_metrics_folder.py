"""Metrics of several collectors of a run."""

from pathlib import Path

from telemark.metrics.folder import MetricsFolder
from telemark.metrics.prometheus import counter, text


def test_samples_of_metrics_with_equal_names_are_joined(tmp_path: Path) -> None:
    folder = MetricsFolder(tmp_path)
    for collector, count in (("c1", 1), ("c2", 2)):
        folder.publish(collector, [counter("a", "A.", ["collector"], [((collector,), count)])])
    assert text(folder.collect()).splitlines() == [
        "# HELP a_total A.", "# TYPE a_total counter",
        'a_total{collector="c1"} 1.0', 'a_total{collector="c2"} 2.0',
    ]  # fmt: skip
