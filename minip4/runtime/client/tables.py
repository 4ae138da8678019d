"""`minip4 tables`: what a running switch holds, read over P4Runtime: entries, counts, registers."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from minip4.errors import Minip4Error

if TYPE_CHECKING:
    import grpc

DEADLINE_S = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME",
        help="tables, counters, registers to show; a name's last part will do (all)")  # fmt: skip
    add("--grpc-server-addr", default="127.0.0.1:9559", metavar="HOST:PORT",
        help="where the switch's P4Runtime answers (127.0.0.1:9559)")  # fmt: skip
    add("--grpc-ssl", action="store_true", help="the switch answers over TLS")
    add("--grpc-cacert", type=Path, metavar="PEM",
        help="the authority of the switch's certificate (the system's)")  # fmt: skip
    add("--grpc-cert", type=Path, metavar="PEM", help="this client's certificate, where asked for")
    add("--grpc-key", type=Path, metavar="PEM", help="the private key of that certificate")
    add("--device-id", type=int, default=1, metavar="N", help="its device id (1)")


def run(args: argparse.Namespace) -> int:
    """Print the state of a switch. Raises Minip4Error."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import grpc  # noqa: PLC0415  0.1 s: not for those who only ask for help

    from minip4.runtime.client.dump import describe  # noqa: PLC0415

    try:
        with _channel(args) as channel:
            for line in describe(channel, args.device_id, args.names, DEADLINE_S):
                print(line)
    except grpc.RpcError as error:
        raise Minip4Error(
            f"{args.grpc_server_addr}: {error.code().name}: {error.details()}"
        ) from error
    return 0


def _channel(args: argparse.Namespace) -> "grpc.Channel":
    import grpc  # noqa: PLC0415

    from minip4.runtime.service.tls import channel_credentials  # noqa: PLC0415

    files = (args.grpc_cacert, args.grpc_cert, args.grpc_key)
    if not args.grpc_ssl:
        if any(files):
            raise Minip4Error("--grpc-cacert, --grpc-cert and --grpc-key need --grpc-ssl")
        return grpc.insecure_channel(args.grpc_server_addr)
    return grpc.secure_channel(args.grpc_server_addr, channel_credentials(*files))
