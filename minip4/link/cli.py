"""`minip4 link`: the link component as a separate process between two interfaces."""

import argparse
import math
import os
import socket
from pathlib import Path
from typing import NoReturn

from minip4 import ports, wire
from minip4.errors import Minip4Error
from minip4.native.build import program

SOURCES = (
    *sorted(wire.C_FOLDER.glob("*.c")),
    *sorted(ports.C_FOLDER.glob("*.c")),
    Path(__file__).parent / "c" / "program.c",
)
INCLUDE = (wire.C_FOLDER, ports.C_FOLDER)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add(
        "interfaces", nargs=2, metavar="INTERFACE", help="the two interfaces that the link connects"
    )
    add("--rate-bps", type=_natural, default=0, metavar="N",
        help="rate of frame bytes, in bit/s (default: 0, unlimited)")  # fmt: skip
    add("--queue-packets", type=_natural, default=64, metavar="N",
        help="queue length, in packets (default: %(default)s)")  # fmt: skip
    add("--delay-us", type=_microseconds, default=0.0, metavar="US", help="propagation delay")
    add("--jitter-us", type=_microseconds, default=0.0, metavar="US",
        help="delay is uniform in delay +- jitter; frames keep their order")  # fmt: skip
    add("--loss-probability", type=_probability, default=0.0, metavar="P",
        help="probability (0..1) that a frame is lost")  # fmt: skip
    add("--reorder-probability", type=_probability, default=0.0, metavar="P",
        help="probability (0..1) that a frame is held back")  # fmt: skip
    add("--reorder-us", type=_microseconds, default=0.0, metavar="US",
        help="additional delay of a frame that is held back")  # fmt: skip
    add("--seed", type=_natural, default=0, metavar="N",
        help=
"random seed of the first direction; the second direction uses N + 1 "
"(default: 0)")  # fmt: skip
    add("--drop-log", type=Path, metavar="DIR",
        help="write lost frames to DIR/<destination interface>_lost.pcap"
    )  # fmt: skip


def run(args: argparse.Namespace) -> NoReturn:
    """Run the link; it prints its counters as JSON on SIGTERM or SIGINT. Raises Minip4Error."""
    _check(args)
    executable = program(SOURCES, include=INCLUDE)
    values = (
        *args.interfaces, args.rate_bps, round(args.delay_us * 1000),
        round(args.jitter_us * 1000), repr(args.loss_probability), repr(args.reorder_probability),
        round(args.reorder_us * 1000), args.seed, args.queue_packets, args.drop_log or "",
    )  # fmt: skip
    os.execv(executable, [str(executable), *map(str, values)])


def _check(args: argparse.Namespace) -> None:
    names = [name for _, name in socket.if_nameindex()]
    for interface in args.interfaces:
        if interface not in names:
            raise Minip4Error(f"{interface}: no such interface; available: {', '.join(names)}")
    if args.interfaces[0] == args.interfaces[1]:
        raise Minip4Error(f"{args.interfaces[0]}: expected two different interfaces")
    if args.jitter_us > args.delay_us:
        raise Minip4Error(
            f"--jitter-us {args.jitter_us:g}: expected at most the delay, {args.delay_us:g} us "
            "(no frame can arrive before it was sent)"
        )
    if args.reorder_probability and not args.reorder_us:
        raise Minip4Error("--reorder-probability needs --reorder-us")
    if not args.queue_packets:
        raise Minip4Error("--queue-packets 0: expected at least 1")
    if os.geteuid() != 0:
        raise Minip4Error("packet sockets need root; run with sudo")


def _natural(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= value < 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer >= 0")
    return value


def _microseconds(text: str) -> float:
    return _number(text, 1e12, "a number of microseconds >= 0")


def _probability(text: str) -> float:
    return _number(text, 1, "a probability from 0 to 1")


def _number(text: str, high: float, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= high:  # this also rejects NaN
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value
