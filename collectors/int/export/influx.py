"""InfluxDB line protocol. There is one line per flow, hop, report source and gap."""

from collections.abc import Iterator, Mapping

from collectors.int.application import Findings
from collectors.int.index import endpoints

STATISTICS = ("count", "sum", "min", "max", "last")


def lines(findings: Findings, epoch_ns: int) -> Iterator[str]:
    """Return lines without line breaks.

    `epoch_ns` is added to all times, so that they become Unix times.
    """
    now_ns = findings.time_ns + epoch_ns
    for flow in findings.flows:
        tags = endpoints(flow["key"])
        names = ("reports", "paths", "partial", "changes", "dropped", "congested")
        yield _line("int_flow", tags, {name: int(flow[name]) for name in names}, now_ns)
        for position, hop in enumerate(flow["path"][: flow["hops"]]):
            fields = {
                f"{name}_{which}": int(hop[name][which])
                for name in ("latency_ns", "occupancy", "link_ns") if hop[name]["count"]
                for which in STATISTICS
            }  # fmt: skip
            if fields:
                yield _line("int_hop", {**tags, "hop": position, "node": int(hop["node"])},
                            fields, now_ns)  # fmt: skip
    for source in findings.sources:
        tags = {"node": int(source["node"]), "hw_id": int(source["hw_id"])}
        names = ("datagrams", "lost", "missing", "reordered", "duplicates", "restarts")
        yield _line("int_source", tags, {name: int(source[name]) for name in names}, now_ns)
    for gap in findings.gaps:
        tags = {"node": int(gap["node"]), "hw_id": int(gap["hw_id"])}
        yield _line("int_gap", tags, {name: int(gap[name]) for name in ("first", "count")},
                    int(gap["time_ns"]) + epoch_ns)  # fmt: skip


def _line(
    measurement: str, tags: Mapping[str, object], fields: Mapping[str, int], time_ns: int
) -> str:
    """Format a line. Nothing is escaped, because names and addresses have no special characters."""
    head = ",".join([measurement, *(f"{name}={value}" for name, value in tags.items())])
    body = ",".join(f"{name}={value}i" for name, value in fields.items())
    return f"{head} {body} {time_ns}"
