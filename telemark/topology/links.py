"""Link parameters of Mininet and of Telemark, whose names contain units; also the MTU of hosts."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from minip4.wire.shared import FRAME_ROOM, MAX_FRAME
from telemark.errors import TestbedError

MININET_PARAMETERS = {"port1", "port2", "intfName1", "intfName2", "addr1", "addr2", "params1",
                      "params2", "cls", "cls1", "cls2", "intf", "fast"}  # fmt: skip
PROPERTIES = ("rate_bps", "delay_us", "jitter_us", "loss_probability", "reorder_probability",
              "reorder_us", "queue_packets")  # fmt: skip
TIME = re.compile(r"(\d+(?:\.\d+)?) *(s|ms|us)")
UNIT_US = {"s": 1_000_000, "ms": 1000, "us": 1}

ETHERNET_BYTES = 14  # header length; frame lengths never include the frame check sequence
# length of a VLAN tag; an interface accepts frames that exceed its MTU by one tag
VLAN_TAG_BYTES = 4
IPV4_BYTES, ICMP_BYTES = 20, 8  # headers
UDP_BYTES = IPV4_BYTES + 8  # IPv4 and UDP headers
USUAL_MTU = 1500  # MTU of Ethernet in bytes (RFC 894)
SMALLEST_MTU, LARGEST_MTU = 68, MAX_FRAME - ETHERNET_BYTES  # the minimum is from RFC 791
# MTU of the interfaces of switches. It is so large that the kernel rejects no frame of a P4
# program. The next switch drops and counts frames that are longer than MAX_FRAME.
SWITCH_MTU = FRAME_ROOM


def _rate_bps(value: Any) -> int:
    if not 1e-6 <= value < 1e9:  # not 0, which would mean unlimited
        raise ValueError("expected Mbit/s, e.g. 100")
    return round(value * 1e6)


def _time_us(value: Any) -> float:
    if not (isinstance(value, str) and (match := TIME.fullmatch(value))):
        raise ValueError("expected a string with a unit, e.g. '5ms', '10us' or '1s'")
    return float(match[1]) * UNIT_US[match[2]]


def _probability(value: Any) -> float:
    if not 0 <= value <= 100:
        raise ValueError("expected a percentage from 0 to 100")
    return float(value) / 100


# Map from parameter of Mininet's TCLink to Telemark's parameter and a conversion of the value.
WORDS: Mapping[str, tuple[str, Callable[[Any], float]]] = {
    "bw": ("rate_bps", _rate_bps),
    "delay": ("delay_us", _time_us),
    "jitter": ("jitter_us", _time_us),
    "loss": ("loss_probability", _probability),
    "max_queue_size": ("queue_packets", int),
}


def properties(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Convert link parameters to Telemark's parameters.

    `where` names the link in errors (TestbedError).
    """
    given = {word: value for word, value in given.items() if value is not None}
    if unknown := sorted(given.keys() - {*PROPERTIES, *WORDS}):
        raise TestbedError(
            f"{where}: unknown parameter {', '.join(unknown)}; expected {', '.join(PROPERTIES)}, "
            f"or Mininet's {', '.join(WORDS)}"
        )
    ours = {word: value for word, value in given.items() if word not in WORDS}
    for word in given.keys() - ours.keys():
        own, translate = WORDS[word]
        if own in ours:
            raise TestbedError(f"{where}: {word} and {own} are the same parameter; use one of them")
        try:
            ours[own] = translate(given[word])
        except (TypeError, ValueError, OverflowError) as error:
            raise TestbedError(f"{where}: {word} {given[word]!r}: {error}") from None
    return ours


def of_ends(
    node1: object, node2: object, params: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the link parameters at both ends: those of the link, unless an end has its own.

    `params1` and `params2` contain the parameters of the ends.
    """
    where = f"link {node1}-{node2}"
    common = {word: value for word, value in params.items() if word not in MININET_PARAMETERS}
    shared = properties(common, where)
    one, two = (properties(params.get(key) or {}, where) for key in ("params1", "params2"))
    return {**shared, **one}, {**shared, **two}


def link_option(port: int, given: Mapping[str, Any], seed: int) -> list[str]:
    """Return the option of `minip4 switch` that sets the link at an egress port.

    Every link has a seed, even one without loss, because its parameters may change at run time.
    """
    values = {key: given[key] for key in PROPERTIES if given.get(key)} | {"seed": seed}
    return ["--link", f"{port}:" + ",".join(f"{key}={value}" for key, value in values.items())]


def check_mtu(mtu_bytes: int) -> int:
    """Return the MTU. Raises TestbedError for an invalid MTU."""
    if not (SMALLEST_MTU <= mtu_bytes <= LARGEST_MTU and mtu_bytes == int(mtu_bytes)):
        raise TestbedError(f"mtu_bytes {mtu_bytes}: expected {SMALLEST_MTU} to {LARGEST_MTU}")
    return int(mtu_bytes)
