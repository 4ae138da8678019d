"""INT collector as a separate process: receives Telemetry Reports until Ctrl-C, then prints a
summary as JSON. The default options match the reports of Telemark's switches.
"""

import argparse
import io
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from collectors.int.application import PORT, Collector, Encoding, Findings
from collectors.int.export.prometheus import metrics
from collectors.int.index import endpoints
from telemark.apps.application import Host, HostInfo
from telemark.backends.real.application_host import ProcessHost
from telemark.backends.real.applications import Task
from telemark.errors import TestbedError
from telemark.metrics.prometheus import Endpoint
from telemark.session.cli import Parser
from telemark.topology.links import USUAL_MTU
from telemark.traffic.received import Datagrams

PROGRAM = "python -m collectors.int"
MARKER = int.from_bytes(b"TELEMARK", "big")  # probe marker of the switches (p4src/int/)
LOOPBACK = "127.0.0.1"  # default address, because neither reports nor metrics are authenticated
FLOWS = 20  # the summary contains the FLOWS flows that were seen last


class SharedCollector(Collector):
    """Collector with a findings() that another thread may call."""

    def start(self, host: Host) -> None:
        """Start to listen for reports."""
        self._lock = threading.Lock()
        super().start(host)

    def on_datagrams(self, datagrams: Datagrams) -> None:
        """Decode and index datagrams."""
        with self._lock:
            super().on_datagrams(datagrams)

    def findings(self) -> Findings:
        """Return the current state."""
        with self._lock:
            return super().findings()


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("--address", default=LOOPBACK,
                        help="IP address to receive reports at (default: %(default)s)")  # fmt: skip
    _add_number(parser, "--port", PORT, (1, 0xFFFF), "UDP")
    parser.add_argument("--metrics", type=partial(_number, 0, 0xFFFF), metavar="PORT",
                        help="TCP port for Prometheus metrics (default: none)")  # fmt: skip
    parser.add_argument("--metrics-address", default=LOOPBACK, metavar="ADDRESS",
                        help="IP address to serve metrics at (default: %(default)s)")  # fmt: skip
    parser.add_argument("--store", metavar="FOLDER/RUN", type=Path,
                        help="store all reports as a run of a Parquet dataset")  # fmt: skip
    marks = parser.add_argument_group("detection of INT in reported packets (0: disabled)")
    _add_number(marks, "--int-port", 32767, (0, 0xFFFF), "UDP destination port")
    _add_number(marks, "--int-dscp", 0x04, (0, 63), "DSCP")
    _add_number(marks, "--int-dscp-mask", 0x3C, (0, 63), "bits of the DSCP that are compared")
    _add_number(marks, "--int-marker", MARKER, (0, 2**64 - 1), "probe marker")
    units = parser.add_argument_group("units in reports (in ns)")
    _add_number(units, "--timestamp-unit", 1000, (1, 10**9), "unit of 64-bit timestamps")
    _add_number(units, "--latency-unit", 1000, (1, 10**9), "unit of hop latencies")
    parser.add_argument("--int1-long-times", action="store_true",
                        help="INT 1.0 in the format of the GEANT switches: 64-bit timestamps, "
                        "16-bit level 2 interfaces")  # fmt: skip
    return parser.parse_args(given)


def _add_number(
    to: argparse._ActionsContainer, name: str, default: int, within: tuple[int, int], meaning: str
) -> None:
    to.add_argument(name, type=partial(_number, *within), default=default, metavar="N",
                    help=f"{meaning} (default: %(default)s)")  # fmt: skip


def _number(low: int, high: int, text: str) -> int:
    """Parse a decimal or hexadecimal (0x3C) number."""
    try:
        number = int(text, 0)
    except ValueError:
        number = low - 1
    if not low <= number <= high:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low} to {high}")
    return number


def collect(options: argparse.Namespace) -> dict[str, Any]:
    """Collect reports until a signal arrives, and return a summary. Raises TestbedError."""
    encoding = Encoding(
        options.int_port, options.int_dscp, options.int_dscp_mask, options.int_marker,
        options.timestamp_unit, options.latency_unit, options.int1_long_times,
    )  # fmt: skip
    store = options.store and (options.store.parent, options.store.name)
    collector = SharedCollector(encoding, port=options.port, store=store)
    place = HostInfo("here", options.address, "", USUAL_MTU, {})
    host = ProcessHost(Task(place, "", [], None))
    try:
        collector.start(host)
    except OSError as error:
        raise TestbedError(f"{options.address}: {error.strerror}") from None
    endpoint = None
    if options.metrics is not None:
        endpoint = Endpoint(options.metrics_address, options.metrics,
                            lambda: metrics(collector.findings()))  # fmt: skip
    ended, end = os.pipe()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os.write(end, b"\n"))
    where = f"{options.address}, UDP port {options.port}"
    print(f"listening at {where}; press Ctrl-C to stop", file=sys.stderr, flush=True)
    since = resource.getrusage(resource.RUSAGE_SELF)
    with os.fdopen(ended, "rb", buffering=0) as commands:
        host.serve(commands, io.BytesIO())
    if endpoint is not None:
        endpoint.close()
    found = collector.result()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cost = {
        "user_s": usage.ru_utime - since.ru_utime,
        "system_s": usage.ru_stime - since.ru_stime,
    }
    return {**summary(found, host.kernel_drops()), **cost}


def summary(found: Findings, kernel_drops: int) -> dict[str, Any]:
    """Return a summary of the findings."""
    counted = ("lost", "reordered", "duplicates", "restarts")
    return {
        **{what: getattr(found, what) for what in ("datagrams", "reports", "hops")},
        **{what: int(found.sources[what].sum()) for what in counted},
        "kernel_drops": kernel_drops,
        "malformed": {status.name.lower(): count for status, count in found.parse_errors.items()},
        "overflow": {what: count for what, count in found.overflow.items() if count},
        "dropped_packets": [
            {"node": node, "reason": reason, "packets": count}
            for (node, reason), count in found.drops.items()
        ],
        "flows": len(found.flows),
        "seen_last": [
            {**endpoints(flow["key"]), "reports": int(flow["reports"]),
             "path": flow["path"]["node"][: flow["hops"]].tolist(),
             "changes": int(flow["changes"])}
            for flow in found.flows[:FLOWS]
        ],
    }  # fmt: skip


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    try:
        print(json.dumps(collect(options), indent=2))
    except TestbedError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
