"""`minip4 tables`: show table entries, counters and registers of a running switch (P4Runtime)."""

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
        help="tables, counters, registers to show, or suffixes of names (default: all)"
    )  # fmt: skip
    add("--grpc-server-addr", default="127.0.0.1:9559", metavar="HOST:PORT",
        help="address of the P4Runtime server (default: 127.0.0.1:9559)")  # fmt: skip
    add("--grpc-ssl", action="store_true", help="connect over TLS")
    add("--grpc-cacert", type=Path, metavar="PEM",
        help="CA certificate of the server (default: the system's)")  # fmt: skip
    add("--grpc-cert", type=Path, metavar="PEM", help="client certificate, if required")
    add("--grpc-key", type=Path, metavar="PEM", help="private key of the client certificate")
    add("--device-id", type=int, default=1, metavar="N", help="P4Runtime device id (default: 1)")


def run(args: argparse.Namespace) -> int:
    """Print the state of a switch. Raises Minip4Error."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import grpc  # noqa: PLC0415  takes 0.1 s, which --help does not need

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
