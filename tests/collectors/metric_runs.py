"""Small runs in virtual time whose collectors publish metrics, and the ground truth of metrics."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from block_scene import Scene, Setting, collect, expected_records
from virtual_networks import virtually

from collectors.int.application import Collector, Encoding
from controllers.ampm.records import Point
from controllers.ampm.watch import Method
from controllers.connection import connections, cpu_ports
from controllers.int.domain import Domain, configure
from controllers.int.watch import Instruction, WatchedFlow
from experiments.shared.dta.lossy_reports import Found, RecoveryMode, flows, measure
from telemark.metrics.folder import MetricsFolder
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import Line

Sample = tuple[str, tuple[tuple[str, str], ...]]  # name and sorted labels
Truth = dict[Sample, float]
DELAYS = "ampm_delay_seconds"
PORTS = ("source_port", "destination_port")
METADATA = Instruction.NODE_ID | Instruction.LATENCY | Instruction.QUEUE
ENCODING = Encoding(
    port=32767, dscp=0x04, dscp_mask=0x3C, timestamp_unit_ns=1000, latency_unit_ns=1000
)


def sample(name: str, **labels: str) -> Sample:
    return name, tuple(sorted(labels.items()))


def ampm(folder: Path) -> tuple[MetricsFolder, Truth]:
    """Mark a flow over three switches and two links that lose packets, with double marking."""
    metrics = MetricsFolder(folder / "metrics")

    async def run_flow(run: Run) -> Scene:
        run.metrics = metrics
        return await collect(run, Setting(Method.DOUBLE))

    scene: Scene = virtually(folder / "run", run_flow)
    truth: Counter[Sample] = Counter()  # sums of int and float
    for report in scene.reports:
        records = expected_records(scene, Method.DOUBLE, report.block)
        truth[sample("ampm_blocks_total", flow="7", result="complete")] += 1
        for (switch, point), record in records.items():
            at = {"flow": "7", "switch": switch, "point": point}
            truth[sample("ampm_packets_total", **at)] += record["packets"]
            truth[sample("ampm_bytes_total", **at)] += record["bytes"]
        for first, second in pairwise(report.records[7]):  # in the order of the path
            _add_segment(truth, first, second, (records[first], records[second]))
    return metrics, dict(truth)


def _add_segment(
    truth: Counter[Sample], first: Point, second: Point, records: Sequence[Any]
) -> None:
    """Add loss and delay of a segment."""
    names = dict.fromkeys((first.switch, second.switch))
    segment = {"flow": "7", "segment": "-".join(names)}
    (sent, got), (early, late), pulses = (
        [record[key] for record in records] for key in ("packets", "pulse_us", "pulses")
    )
    truth[sample("ampm_lost_packets_total", **segment)] += sent - got
    if pulses == [1, 1]:
        truth[sample(f"{DELAYS}_count", **segment)] += 1
        truth[sample(f"{DELAYS}_sum", **segment)] += (late - early) / 1e6


def int_md(folder: Path) -> tuple[MetricsFolder, Truth]:
    """Report each packet of a flow by INT-MD, over a link that loses packets."""
    metrics = MetricsFolder(folder / "metrics")

    async def run_flow(run: Run) -> int:
        run.metrics = metrics
        topo = Line(loss_probability=0.1, delay_us=1000)
        program = "p4src/int/int.p4"
        with Network(topo, run, program=program, switch_options=cpu_ports(topo)) as net:
            net.run_application("h2", Collector(ENCODING))
            watched = WatchedFlow(net.host("h1").IP(), net.host("h2").IP(), instructions=METADATA)
            async with connections(net) as switches:
                await configure(net, switches, Domain("h2", [watched]))
                flow = Flow(1, "h1", "h2", rate_pps=100, count=200)
                async with Traffic(net, [flow]) as traffic:
                    records = await traffic.finish()
            (published,) = metrics.path.iterdir()
            assert "int_reports_total 0" not in published.read_text()
            published.unlink()  # the collector must publish again at the end
        return len(records[1].received)

    received = virtually(folder / "run", run_flow)
    flow = {"source": "10.0.0.1", "destination": "10.0.0.2", "protocol": "17"}
    samples = {name: labels for metric in metrics.collect() for name, labels, *_ in metric.samples}
    ports = {name: samples["int_flow_paths_total"][name] for name in PORTS}
    return metrics, {
        sample("int_datagrams_total"): received,
        sample("int_reports_total"): received,
        sample("int_flow_paths_total", **flow, **ports): received,
        sample("int_hop_latency_seconds_count", **flow, **ports, hop="2", node="3"): received,
        sample("int_sequence_lost_total", node="3", hw_id="0"): 0,
    }


def dta(folder: Path) -> tuple[MetricsFolder, Truth]:
    """Report 300 flows over a link that loses reports."""
    metrics, keys = MetricsFolder(folder / "metrics"), flows(300, seed=1)

    async def run_reports(run: Run) -> Found:
        run.metrics = metrics
        return await measure(run, "lossy", RecoveryMode(loses_reports=True), probability=0.2,
                             lossy=250, keys=keys, rate_pps=500)  # fmt: skip

    found: Found = virtually(folder / "run", run_reports)
    translator = {"switch": "s2", "reporter": "10.255.0.1 0"}
    arrived, sent = int(found.arrived.sum()), int(found.transmissions.sum())
    return metrics, {
        sample("dta_reports_total", result="translated", **translator): arrived,
        sample("dta_reports_total", result="malformed", **translator): 0,
        sample("dta_reporter_sent_total", switch="s1", collector="h2"): len(keys),
        sample("dta_reporter_resent_total", switch="s1", collector="h2"): sent - len(keys),
        sample("dta_session_sent_total", switch="s2", session="1"): found.requests,
    }
