"""`minip4 switch`: its options, and what each must look like."""

import argparse
import re
from pathlib import Path

from minip4.runtime.options import Interface, LinkOptions, SwitchOptions

MAX_PORT = 510  # 511 is v1model's drop port


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
    add("--cpu-port", type=_port, metavar="PORT", help="the port of packets in and out")
    add("--link", type=_link, action="append", default=[], dest="links",
        metavar="PORT:KEY=VALUE,...",
        help="put a link behind a port (repeat); keys: " + ", ".join(_LINK_KEYS))  # fmt: skip
    add("--seed", type=_natural, default=0, metavar="N", help="of random() in the program (0)")
    add("--clock-offset-us", type=int, default=0, metavar="N",
        help="added to the program's timestamps (0)")  # fmt: skip
    add("--pcap", type=Path, metavar="DIR", help="capture each port's frames there")
    add("--drop-log", type=Path, metavar="DIR", help="capture the frames that links lose there")
    add("--counters", type=Path, metavar="FILE",
        help="write the final counters there (else they are printed)")  # fmt: skip
    add("--sanitize", action="store_true", help="run with AddressSanitizer and UBSan")


def run(args: argparse.Namespace) -> int:
    """Run the switch until SIGTERM or SIGINT. Raises Minip4Error."""
    options = SwitchOptions(**{k: v for k, v in vars(args).items() if k in _FIELDS})
    options.check()
    # gRPC and protobuf take 0.1 s to import: `minip4 compile` shall not wait for them
    from minip4.runtime.switch import run_switch  # noqa: PLC0415

    return run_switch(options)


_FIELDS = frozenset(SwitchOptions.__dataclass_fields__)


def _natural(text: str) -> int:
    return _number(text, int, 0, 2**63 - 1)


def _port(text: str) -> int:
    return int(_number(text, int, 0, MAX_PORT))


def _address(text: str) -> str:
    if not re.fullmatch(r".+:\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected HOST:PORT")
    _number(text.rpartition(":")[2], int, 0, 65535)
    return text


def _interface(text: str) -> Interface:
    port, at, name = text.partition("@")
    if not at or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected PORT@INTERFACE, such as 1@veth1")
    return Interface(_port(port), name)


def _number(text: str, kind: type, low: float, high: float) -> int:
    try:
        value = kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number") from None
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{text}: expected {low:g} to {high:g}")
    return value


_HOUR_US = 3_600_000_000
_LINK_KEYS: dict[str, tuple[type, float, float]] = {
    "rate_bps": (int, 0, 10**13),
    "delay_us": (float, 0, _HOUR_US),
    "jitter_us": (float, 0, _HOUR_US),
    "loss": (float, 0, 1),
    "reorder": (float, 0, 1),
    "reorder_us": (float, 0, _HOUR_US),
    "queue": (int, 1, 10**6),
    "seed": (int, 0, 2**63 - 1),
}


def _link(text: str) -> LinkOptions:
    port, colon, rest = text.partition(":")
    values = {}
    for item in rest.split(",") if colon else [""]:
        key, _, value = item.partition("=")
        if key not in _LINK_KEYS or key in values:
            raise argparse.ArgumentTypeError(
                f"{text!r}: expected PORT:KEY=VALUE,... with each of these at most once: "
                + ", ".join(_LINK_KEYS)
            )
        try:
            values[key] = _number(value, *_LINK_KEYS[key])
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{key}: {error}") from None
    link = LinkOptions(_port(port), **values)
    if link.jitter_us > link.delay_us:
        raise argparse.ArgumentTypeError(
            f"{text!r}: jitter_us {link.jitter_us:g} is above delay_us {link.delay_us:g}"
        )
    return link
