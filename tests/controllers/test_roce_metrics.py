"""Metrics of a switch that writes records, and of the collector, equal the number of packets."""

from pathlib import Path

from virtual_networks import virtually

from experiments.shared.roce.reporting import LINK_BPS, RECEIVER, Collection, reporting
from telemark.metrics.folder import MetricsFolder
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic

PACKETS = 50


def test_metrics_equal_the_sent_packets(tmp_path: Path) -> None:
    folder = MetricsFolder(tmp_path / "metrics")

    async def run_flow(run: Run) -> None:
        run.metrics = folder
        collection = Collection(PACKETS)
        async with reporting(run, "system", collection, LINK_BPS, keeps=False) as running:
            flow = Flow(1, "h1", RECEIVER, rate_pps=1000, count=PACKETS)
            async with Traffic(running.net, [flow]) as traffic:
                await traffic.finish()

    virtually(tmp_path / "run", run_flow)
    samples = {
        (name, *sorted(labels.values())): value
        for metric in folder.collect() for name, labels, value, *_ in metric.samples
    }  # fmt: skip
    assert samples["roce_session_sent_total", "1", "s1"] == PACKETS
    assert samples["roce_accepted_packets_total", "h2", "write_only"] == PACKETS
    assert samples["roce_session_out_of_region_total", "1", "s1"] == 0
