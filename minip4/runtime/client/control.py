"""`minip4 control`: change the links and queues of a running switch, and read its counters."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minip4.runtime.switch.control import call
from minip4.runtime.switch.port_options import LINK_KEYS, QUEUE_KEYS, keyed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("socket", type=Path, metavar="SOCKET",
                        help="path given to the switch by --control")  # fmt: skip
    commands = parser.add_subparsers(dest="call", required=True, metavar="command")
    for name, keys, summary in (
        ("set-link", LINK_KEYS, "add or change the link of a port"),
        ("set-queue", QUEUE_KEYS, "change depth and rate of the queues of a port"),
    ):
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument("change", type=keyed(keys), metavar="PORT:KEY=VALUE,...",
                             help="new values; keys: " + ", ".join(keys))  # fmt: skip
    summary = "show the packets that each port received, sent and dropped"
    counters = commands.add_parser("counters", help=summary, description=summary)
    counters.add_argument("--json", action="store_true", help="print all counters as JSON")


def run(args: argparse.Namespace) -> int:
    """Send the command to the switch and print its response. Raises Minip4Error."""
    if args.call != "counters":
        call(args.socket, args.call.replace("-", "_"), **args.change)
        return 0
    counters = call(args.socket, "counters")
    if args.json:
        print(json.dumps(counters))
    else:
        for line in described(counters):
            print(line)
    return 0


def described(counters: dict[str, Any]) -> Iterator[str]:
    """Format the counters of `minip4 switch --counters` as lines of text."""
    for port, count in counters["ports"].items():
        yield (f"port {port} ({count['interface']}): "
               f"received {count['received_packets']} packets, {count['received_bytes']} bytes; "
               f"sent {count['transmitted_packets']}, {count['transmitted_bytes']}")  # fmt: skip
        for priority, queue in count["queues"].items():
            if any(queue.values()):
                yield (f"  queue {priority}: {queue['packets']} packets, {queue['bytes']} bytes "
                       f"queued; {queue['drops']} packets dropped")  # fmt: skip
        yield from _drops(count)
    for port, count in counters["other_ports"].items():
        yield f"port {port} (no interface)"
        yield from _drops(count)


def _drops(count: dict[str, Any]) -> Iterator[str]:
    given = [f"{reason} {number}" for reason, number in count["drops"].items() if number]
    if given:
        yield "  dropped: " + ", ".join(given)
