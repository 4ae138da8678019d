"""Link properties, with units in their names or as Mininet names them, and the MTU of hosts."""

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

ETHERNET_BYTES = 14  # of a frame's header; its check sequence never counts
VLAN_TAG_BYTES = 4  # for which interfaces leave room beyond their MTU
UDP_BYTES = 20 + 8  # of a datagram's headers, IPv4's among them
USUAL_MTU = 1500  # bytes of the longest IP packet: Ethernet's (RFC 894)
SMALLEST_MTU, LARGEST_MTU = 68, MAX_FRAME - ETHERNET_BYTES  # the smallest: RFC 791
# Of switches' interfaces: the kernel is to refuse nothing that a program makes. What is longer than
# MAX_FRAME, the next switch drops and counts.
SWITCH_MTU = FRAME_ROOM


def _rate_bps(value: Any) -> int:
    if not 1e-6 <= value < 1e9:  # a link of 0 bit/s would be one without a limit
        raise ValueError("expected Mbit/s, as in 100")
    return round(value * 1e6)


def _time_us(value: Any) -> float:
    if not (isinstance(value, str) and (match := TIME.fullmatch(value))):
        raise ValueError("expected a text with a unit, as in '5ms', '10us' or '1s'")
    return float(match[1]) * UNIT_US[match[2]]


def _probability(value: Any) -> float:
    if not 0 <= value <= 100:
        raise ValueError("expected a percentage from 0 to 100")
    return float(value) / 100


# Of Mininet's TCLink: what each is called here, and what its values are then.
WORDS: Mapping[str, tuple[str, Callable[[Any], float]]] = {
    "bw": ("rate_bps", _rate_bps),
    "delay": ("delay_us", _time_us),
    "jitter": ("jitter_us", _time_us),
    "loss": ("loss_probability", _probability),
    "max_queue_size": ("queue_packets", int),
}


def properties(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What is given, in our words alone. Raises TestbedError, beginning with `where`."""
    given = {word: value for word, value in given.items() if value is not None}
    if unknown := sorted(given.keys() - {*PROPERTIES, *WORDS}):
        raise TestbedError(
            f"{where}: no property {', '.join(unknown)}: there are {', '.join(PROPERTIES)}, "
            f"and Mininet's {', '.join(WORDS)}"
        )
    ours = {word: value for word, value in given.items() if word not in WORDS}
    for word in given.keys() - ours.keys():
        own, translate = WORDS[word]
        if own in ours:
            raise TestbedError(f"{where}: {word} and {own} say the same: give one of them")
        try:
            ours[own] = translate(given[word])
        except (TypeError, ValueError, OverflowError) as error:
            raise TestbedError(f"{where}: {word} {given[word]!r}: {error}") from None
    return ours


def of_ends(
    node1: object, node2: object, params: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The properties of both ends: those of `params1` and `params2` come before the link's."""
    where = f"link {node1}-{node2}"
    common = {word: value for word, value in params.items() if word not in MININET_PARAMETERS}
    shared = properties(common, where)
    one, two = (properties(params.get(key) or {}, where) for key in ("params1", "params2"))
    return {**shared, **one}, {**shared, **two}


def link_option(port: int, given: Mapping[str, Any], seed: int) -> list[str]:
    """The option of `minip4 switch` for the link behind an egress port: `given` are properties.

    One without properties has a seed too: it may be given some while the switch runs.
    """
    values = {key: given[key] for key in PROPERTIES if given.get(key)} | {"seed": seed}
    return ["--link", f"{port}:" + ",".join(f"{key}={value}" for key, value in values.items())]


def check_mtu(mtu_bytes: int) -> int:
    """The same. Raises TestbedError for an MTU that hosts cannot have."""
    if not (SMALLEST_MTU <= mtu_bytes <= LARGEST_MTU and mtu_bytes == int(mtu_bytes)):
        raise TestbedError(f"mtu_bytes {mtu_bytes}: expected {SMALLEST_MTU} to {LARGEST_MTU}")
    return int(mtu_bytes)
