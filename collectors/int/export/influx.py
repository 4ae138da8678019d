"""InfluxDB line protocol. There is one line per flow, hop, report source and gap."""

from collections.abc import Iterator

from collectors.int.application import Findings
from collectors.int.index import endpoints
from telemark.metrics.influx import line

STATISTICS = ("count", "sum", "min", "max", "last")


def lines(findings: Findings, epoch_ns: int) -> Iterator[str]:
    """Return lines without line breaks.

    `epoch_ns` is added to all times, so that they become Unix times.
    """
    now_ns = findings.time_ns + epoch_ns
    for flow in findings.flows:
        tags = endpoints(flow["key"])
        names = ("reports", "paths", "partial", "changes", "dropped", "congested")
        yield line("int_flow", tags, {name: f"{flow[name]}i" for name in names}, now_ns)
        for position, hop in enumerate(flow["path"][: flow["hops"]]):
            fields = {
                f"{name}_{which}": f"{hop[name][which]}i"
                for name in ("latency_ns", "occupancy", "link_ns") if hop[name]["count"]
                for which in STATISTICS
            }  # fmt: skip
            if fields:
                yield line("int_hop", {**tags, "hop": position, "node": int(hop["node"])},
                            fields, now_ns)  # fmt: skip
    for source in findings.sources:
        tags = {"node": int(source["node"]), "hw_id": int(source["hw_id"])}
        names = ("datagrams", "lost", "missing", "reordered", "duplicates", "restarts")
        yield line("int_source", tags, {name: f"{source[name]}i" for name in names}, now_ns)
    for gap in findings.gaps:
        tags = {"node": int(gap["node"]), "hw_id": int(gap["hw_id"])}
        yield line("int_gap", tags, {name: f"{gap[name]}i" for name in ("first", "count")},
                    int(gap["time_ns"]) + epoch_ns)  # fmt: skip
