"""`minip4 tables`: what a running switch holds, read over P4Runtime: entries, counts, registers."""

import argparse
import os

from minip4.errors import Minip4Error

DEADLINE_S = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME",
        help="tables, counters, registers to show; a name's last part will do (all)")  # fmt: skip
    add("--grpc-server-addr", default="127.0.0.1:9559", metavar="HOST:PORT",
        help="where the switch's P4Runtime answers (127.0.0.1:9559)")  # fmt: skip
    add("--device-id", type=int, default=1, metavar="N", help="its device id (1)")


def run(args: argparse.Namespace) -> int:
    """Print the state of a switch. Raises Minip4Error."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import grpc  # noqa: PLC0415  0.1 s: not for those who only ask for help

    from minip4.runtime.dump import describe  # noqa: PLC0415

    try:
        with grpc.insecure_channel(args.grpc_server_addr) as channel:
            for line in describe(channel, args.device_id, args.names, DEADLINE_S):
                print(line)
    except grpc.RpcError as error:
        raise Minip4Error(
            f"{args.grpc_server_addr}: {error.code().name}: {error.details()}"
        ) from error
    return 0
