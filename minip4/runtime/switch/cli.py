"""`minip4 switch`: its command line options and their formats."""

import argparse
import re
from pathlib import Path

from minip4.errors import Minip4Error
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

NO_PROGRAM = Path(__file__).with_name("no_program.json")  # drops each packet; see no_program.p4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options.

    If simple_switch_grpc has the same option, the option has the same name.
    """
    add = parser.add_argument
    add("program", type=Path, nargs="?", metavar="PROGRAM.json",
        help="program as BMv2 JSON")  # fmt: skip
    add("--no-p4", action="store_true",
        help="start without a program, and drop packets until a controller loads one"
    )  # fmt: skip
    add_switch_options(parser)


def add_switch_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that do not concern the program."""
    add = parser.add_argument
    add("-i", "--interface", type=_interface, action="append", default=[], dest="interfaces",
        metavar="PORT@INTERFACE",
        help="bind a port to a network interface (repeatable)")  # fmt: skip
    add("--device-id", type=_natural, default=1, metavar="N",
        help="P4Runtime device id (default: 1)")  # fmt: skip
    add("--grpc-server-addr", type=_address, default="127.0.0.1:9559", metavar="HOST:PORT",
        help="address of the P4Runtime server (default: 127.0.0.1:9559)")  # fmt: skip
    add("--grpc-server-ssl", action="store_true", help="serve P4Runtime over TLS")
    add("--grpc-server-cert", type=Path, metavar="PEM", help="certificate of the server")
    add("--grpc-server-key", type=Path, metavar="PEM", help="private key of the certificate")
    add("--grpc-server-cacert", type=Path, metavar="PEM",
        help="CA certificate for client certificates")  # fmt: skip
    add("--grpc-server-with-client-auth", action="store_true",
        help="require client certificates")  # fmt: skip
    add("--p4info", type=Path, metavar="FILE",
        help="P4Info of the program (text); without it, a controller must push a pipeline"
    )  # fmt: skip
    add("--cpu-port", type=port_number, metavar="PORT",
        help="port of packet-in and packet-out; in TNA, also of copy_to_cpu (default in TNA: 64)"
    )  # fmt: skip
    add("--link", type=port_options.link, action="append", default=[], dest="links",
        metavar="PORT:KEY=VALUE,...",
        help="add a link to a port (repeatable); keys: " + ", ".join(LINK_KEYS))  # fmt: skip
    add("--queue", type=port_options.queue, action="append", default=[], dest="queues",
        metavar="PORT:KEY=VALUE,...",
        help="depth and rate of the queues of a port (repeatable); keys: "
        + ", ".join(QUEUE_KEYS))  # fmt: skip
    add("--priority-queues", type=_priorities, default=1, metavar="N",
        help="priority queues per port, 1 to 8; the highest is served first (default: 1)"
    )  # fmt: skip
    add("--deflect-on-drop", action="store_true",
        help="if a full queue drops a packet, first process it in egress, with instance_type 7"
    )  # fmt: skip
    add("--seed", type=_natural, default=0, metavar="N",
        help="seed of random() in the program (default: 0)")  # fmt: skip
    add("--clock-offset-us", type=_clock_offset, default=0, metavar="N",
        help="offset of the program's timestamps (default: 0)")  # fmt: skip
    add("--clock-drift-ppb", type=_clock_drift, default=0, metavar="N",
        help="drift of the program's clock, in parts per billion (default: 0)")  # fmt: skip
    add("--pcap", type=Path, metavar="DIR", help="capture the frames of each port in DIR")
    add("--drop-log", type=Path, metavar="DIR", help="capture frames lost by links in DIR")
    add("--snaplen", type=_snaplen, default=SNAPLEN, metavar="BYTES",
        help="captured bytes per frame (default: %(default)s)")  # fmt: skip
    add("--stamp-log", type=Path, metavar="DIR",
        help="capture the receive and transmit times of frames in DIR")  # fmt: skip
    add("--counters", type=Path, metavar="FILE",
        help="write the final counters to FILE (default: stdout)")  # fmt: skip
    add("--control", type=Path, metavar="SOCKET",
        help="Unix socket for set-link, set-queue and counters")  # fmt: skip
    add("--trace", type=Path, nargs="?", const=Path("-"), metavar="FILE",
        help="write a trace of each packet to FILE (default: stdout)")  # fmt: skip
    add("--log-console", action="store_const", dest="trace", const=Path("-"),
        help="the same as --trace without FILE")  # fmt: skip
    add("--log-file", type=Path, dest="trace", metavar="FILE", help="the same as --trace FILE")
    for name, value in (("--thrift-port", "N"), ("--log-level", "LEVEL")):
        add(name, metavar=value, help="no effect, accepted for scripts of bmv2")
    add("--sanitize", action="store_true", help="run with AddressSanitizer and UBSan")


def run(args: argparse.Namespace) -> int:
    """Run the switch until SIGTERM or SIGINT. Raises Minip4Error."""
    set_program(args)
    return run_program(args)


def set_program(args: argparse.Namespace) -> None:
    """Set `args.program` if there is --no-p4. Raises Minip4Error."""
    if (args.program is None) is not args.no_p4:
        raise Minip4Error("expected either PROGRAM.json or --no-p4")
    if args.no_p4:
        if args.p4info is not None:
            raise Minip4Error("--p4info needs PROGRAM.json; with --no-p4, a controller sends both")
        args.program = NO_PROGRAM


def run_program(args: argparse.Namespace) -> int:
    """Run the switch with `args.program`. Raises Minip4Error."""
    options = switch_options(args)
    # Importing gRPC and protobuf takes 0.1 s, which `minip4 compile` does not need.
    from minip4.runtime.switch.process import run_switch  # noqa: PLC0415

    return run_switch(options)


def switch_options(args: argparse.Namespace) -> SwitchOptions:
    """Return the options. Raises Minip4Error if they contradict each other."""
    options = SwitchOptions(**{k: v for k, v in vars(args).items() if k in _FIELDS})
    options.check()
    return options


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
