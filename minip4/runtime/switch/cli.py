"""`minip4 switch`: its options, and what each must look like."""

import argparse
import re
from pathlib import Path

from minip4.runtime.switch import port_options
from minip4.runtime.switch.options import Interface, SwitchOptions
from minip4.runtime.switch.port_options import (
    LINK_KEYS,
    MAX_PRIORITIES,
    QUEUE_KEYS,
    number,
    port_number,
)
from minip4.wire.shared import MAX_SNAPLEN, SNAPLEN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, named as simple_switch_grpc's where it has them."""
    add = parser.add_argument
    add("program", type=Path, metavar="PROGRAM.json", help="the program, as BMv2 JSON")
    add("-i", "--interface", type=_interface, action="append", default=[], dest="interfaces",
        metavar="PORT@INTERFACE", help="bind a port to a network interface (repeat)")  # fmt: skip
    add("--device-id", type=_natural, default=1, metavar="N", help="P4Runtime device id (1)")
    add("--grpc-server-addr", type=_address, default="127.0.0.1:9559", metavar="HOST:PORT",
        help="where P4Runtime answers (127.0.0.1:9559)")  # fmt: skip
    add("--grpc-server-ssl", action="store_true", help="P4Runtime over TLS")
    add("--grpc-server-cert", type=Path, metavar="PEM", help="the server's certificate")
    add("--grpc-server-key", type=Path, metavar="PEM", help="the private key of that certificate")
    add("--grpc-server-cacert", type=Path, metavar="PEM",
        help="the authority that clients' certificates must come from")  # fmt: skip
    add("--grpc-server-with-client-auth", action="store_true",
        help="only clients with such a certificate may connect")  # fmt: skip
    add("--p4info", type=Path, metavar="FILE",
        help="the program's P4Info (text): P4Runtime serves it at once")  # fmt: skip
    add("--cpu-port", type=port_number, metavar="PORT", help="the port of packets in and out")
    add("--link", type=port_options.link, action="append", default=[], dest="links",
        metavar="PORT:KEY=VALUE,...",
        help="put a link behind a port (repeat); keys: " + ", ".join(LINK_KEYS))  # fmt: skip
    add("--queue", type=port_options.queue, action="append", default=[], dest="queues",
        metavar="PORT:KEY=VALUE,...",
        help="depth and rate of a port's queues (repeat); keys: "
        + ", ".join(QUEUE_KEYS))  # fmt: skip
    add("--priority-queues", type=_priorities, default=1, metavar="N",
        help="queues of each port, 1 to 8; of two, the higher is served first (1)")  # fmt: skip
    add("--deflect-on-drop", action="store_true",
        help="what a full queue drops goes through egress before, as instance type 7")  # fmt: skip
    add("--seed", type=_natural, default=0, metavar="N", help="of random() in the program (0)")
    add("--clock-offset-us", type=_clock_offset, default=0, metavar="N",
        help="added to the program's timestamps (0)")  # fmt: skip
    add("--clock-drift-ppb", type=_clock_drift, default=0, metavar="N",
        help="how much faster the program's clock runs, in parts of 10^9 (0)")  # fmt: skip
    add("--pcap", type=Path, metavar="DIR", help="capture each port's frames there")
    add("--drop-log", type=Path, metavar="DIR", help="capture the frames that links lose there")
    add("--snaplen", type=_snaplen, default=SNAPLEN, metavar="BYTES",
        help="bytes of each frame in these two captures (default: %(default)s)")  # fmt: skip
    add("--stamp-log", type=Path, metavar="DIR",
        help="capture there when frames were taken in, and handed on")  # fmt: skip
    add("--counters", type=Path, metavar="FILE",
        help="write the final counters there (else they are printed)")  # fmt: skip
    add("--control", type=Path, metavar="SOCKET",
        help="listen there for set-link, set-queue and counters")  # fmt: skip
    add("--trace", type=Path, nargs="?", const=Path("-"), metavar="FILE",
        help="tell there what is done with each packet (- or nothing: on stdout)")  # fmt: skip
    add("--sanitize", action="store_true", help="run with AddressSanitizer and UBSan")


def run(args: argparse.Namespace) -> int:
    """Run the switch until SIGTERM or SIGINT. Raises Minip4Error."""
    options = SwitchOptions(**{k: v for k, v in vars(args).items() if k in _FIELDS})
    options.check()
    # gRPC and protobuf take 0.1 s to import: `minip4 compile` shall not wait for them
    from minip4.runtime.switch.process import run_switch  # noqa: PLC0415

    return run_switch(options)


_FIELDS = frozenset(SwitchOptions.__dataclass_fields__)


def _natural(text: str) -> int:
    return int(number(text, int, 0, 2**63 - 1))


def _clock_offset(text: str) -> int:
    return int(number(text, int, -(2**47), 2**47))


def _clock_drift(text: str) -> int:
    return int(number(text, int, -(10**8), 10**8))


def _priorities(text: str) -> int:
    return int(number(text, int, 1, MAX_PRIORITIES))


def _snaplen(text: str) -> int:
    return int(number(text, int, 1, MAX_SNAPLEN))


def _address(text: str) -> str:
    if not re.fullmatch(r".+:\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected HOST:PORT")
    number(text.rpartition(":")[2], int, 0, 65535)
    return text


def _interface(text: str) -> Interface:
    port, at, name = text.partition("@")
    if not at or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected PORT@INTERFACE, such as 1@veth1")
    return Interface(port_number(port), name)
