"""Common options of XDP experiments, and requirements on the machine."""

import argparse
import os

from telemark.errors import TestbedError
from telemark.session import cli

ROUNDS, QUICK_ROUNDS = 7, 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options of experiments with interleaved rounds."""
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help=f"rounds of all candidates (default: {ROUNDS})",
    )  # fmt: skip
    parser.add_argument(
        "--packets", type=cli.positive_int, metavar="N",
        help="packets per core, candidate and round",
    )  # fmt: skip


def prepare(options: argparse.Namespace, packets: int, quick_packets: int) -> list[list[int]]:
    """Set default options; return the sets of cores for measurements. Raises TestbedError."""
    require_real_time(options)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    options.packets = options.packets or (quick_packets if options.quick else packets)
    available = cores()
    return [available[-1:], available[-2:]] if len(available) > 1 else [available]


def cores() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def set_realtime_priority(process_id: int, priority: int) -> None:
    """Give a process (0 means this thread) real-time priority (SCHED_FIFO). Raises TestbedError."""
    try:
        os.sched_setscheduler(process_id, os.SCHED_FIFO, os.sched_param(priority))
    except PermissionError as error:
        raise TestbedError(
            f"cannot set real-time priority ({error.strerror}); CAP_SYS_NICE is needed, in Docker "
            "--privileged"
        ) from None


def require_real_time(options: argparse.Namespace) -> None:
    """Raise TestbedError for virtual time or the target bmv2."""
    cli.require_time(options, "real", "eBPF programs need a kernel")
    cli.require_minip4(options, "this experiment has no switch")
