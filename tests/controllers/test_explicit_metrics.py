"""Metrics of explicit flow measurements equal the reports of the observer."""

from pathlib import Path

from virtual_networks import virtually

from experiments.shared.explicit.path import PROGRAM, Setting, StreamResult, measure
from telemark.apps.explicit_bits import Scheme
from telemark.metrics.folder import MetricsFolder
from telemark.session.run import Run


def test_metrics_equal_the_reports(tmp_path: Path) -> None:
    folder = MetricsFolder(tmp_path / "metrics")

    async def run_connections(run: Run) -> list[StreamResult]:
        run.metrics = folder
        setting = Setting("lossy", rate_pps=1000, count=400, losses=(0.02, 0.02, 0.02, 0.02))
        results, _ = await measure(setting, PROGRAM, run)
        return results

    results: list[StreamResult] = virtually(tmp_path / "run", run_connections)
    published = {
        (name, labels["scheme"], labels["direction"]): value
        for metric in folder.collect() for name, labels, value, *_ in metric.samples
    }  # fmt: skip
    assert {each.scheme for each in results} == {*Scheme}
    for each in results:
        report = each.report
        expected = {
            "spin_rtt_seconds_count": report.spin.count,
            "spin_rtt_seconds_sum": report.spin.sum_us / 1e6,
            "delay_rtt_seconds_sum": report.delay.sum_us / 1e6,
            "half_rtt_seconds_sum": report.half.sum_us / 1e6,
            "square_blocks_total": report.square.blocks,
            "square_packets_total": report.square.packets,
            "reflection_blocks_total": report.reflection.blocks,
            "reflection_packets_total": report.reflection.packets,
            "packets_total": report.loss.packets,
            "loss_marks_total": report.loss.marked,
            "trip_generated_total": report.trip.generated,
            "trip_reflected_total": report.trip.reflected,
        }
        labels = each.scheme.name.lower(), each.direction.name.lower()
        assert {name: published[(f"explicit_{name}", *labels)] for name in expected} == expected
