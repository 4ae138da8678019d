"""Options that XDP experiments share, and what they need of a machine."""

import argparse
import os

from telemark.errors import TestbedError
from telemark.session import cli

ROUNDS, QUICK_ROUNDS = 7, 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of experiments with contenders in turns."""
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help=f"of all contenders, one after the other (default: {ROUNDS})",
    )  # fmt: skip
    parser.add_argument(
        "--packets", type=cli.positive_int, metavar="N",
        help="that each core offers a contender in a round",
    )  # fmt: skip


def prepare(options: argparse.Namespace, packets: int, quick_packets: int) -> list[list[int]]:
    """Fill in what was left out; the sets of cores to measure with. Raises TestbedError."""
    require_real_time(options)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    options.packets = options.packets or (quick_packets if options.quick else packets)
    available = cores()
    return [available[-1:], available[-2:]] if len(available) > 1 else [available]


def cores() -> list[int]:
    """Those that this process may use."""
    return sorted(os.sched_getaffinity(0))


def come_first(process_id: int, priority: int) -> None:
    """Have a process (0: this thread) come before all without such a priority.

    By SCHED_FIFO, so that others on the machine do not disturb it. Raises TestbedError.
    """
    try:
        os.sched_setscheduler(process_id, os.SCHED_FIFO, os.sched_param(priority))
    except PermissionError as error:
        raise TestbedError(
            f"no real-time priority ({error.strerror}): CAP_SYS_NICE is needed, in Docker "
            "--privileged"
        ) from None


def require_real_time(options: argparse.Namespace) -> None:
    """Raise TestbedError where there is no kernel to run programs in, or another's switch."""
    if options.time == "virtual":
        raise TestbedError("--time virtual: programs in the kernel are of real time alone")
    if options.target == "bmv2":
        raise TestbedError("--target bmv2: there is no switch in this experiment")
