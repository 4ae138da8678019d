"""Options of links and queues, as text (PORT:KEY=VALUE,...) or as JSON."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from minip4.runtime.switch.options import LinkOptions, QueueOptions, link_fault

MAX_PORT = 510  # v1model's drop port is 511
MAX_PRIORITIES = 8  # standard_metadata.priority has 3 bits

_HOUR_US = 3_600_000_000
Keys = Mapping[str, tuple[type, float, float]]
LINK_KEYS: Keys = {
    "rate_bps": (int, 0, 10**13),
    "delay_us": (float, 0, _HOUR_US),
    "jitter_us": (float, 0, _HOUR_US),
    "loss_probability": (float, 0, 1),
    "reorder_probability": (float, 0, 1),
    "reorder_us": (float, 0, _HOUR_US),
    "queue_packets": (int, 1, 10**6),
    "seed": (int, 0, 2**63 - 1),
}
QUEUE_KEYS: Keys = {
    "priority": (int, 0, MAX_PRIORITIES - 1),
    "depth": (int, 1, 10**6),
    "bytes": (int, 0, 10**12),
    "rate_pps": (int, 0, 10**9),
    "rate_bps": (int, 0, 10**13),
}


def number(text: str, kind: type, low: float, high: float) -> Any:
    """Parse a number within limits.

    Integers may be written as 1e6. Raises ArgumentTypeError.
    """
    try:
        value = _whole(text) if kind is int else kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"{text!r}: expected {what}") from None
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{text}: expected {low:g} to {high:g}")
    return value


def _whole(text: str) -> int:
    try:
        return int(text)  # exact for integers of any size, unlike float()
    except ValueError:
        value = float(text)
    if not value.is_integer():
        raise ValueError(text)
    return int(value)


def port_number(text: str) -> int:
    return int(number(text, int, 0, MAX_PORT))


def keyed(keys: Keys) -> Callable[[str], dict[str, Any]]:
    """Return a parser of PORT:KEY=VALUE,... with the result {"port": PORT, KEY: VALUE, ...}."""

    def parse(text: str) -> dict[str, Any]:
        port, colon, rest = text.partition(":")
        values: dict[str, Any] = {}
        for item in rest.split(",") if colon else [""]:
            key, _, value = item.partition("=")
            if key not in keys or key in values:
                raise argparse.ArgumentTypeError(
                    f"{text!r}: expected PORT:KEY=VALUE,... with each of these at most once: "
                    + ", ".join(keys)
                )
            try:
                values[key] = number(value, *keys[key])
            except argparse.ArgumentTypeError as error:
                raise argparse.ArgumentTypeError(f"{key}: {error}") from None
        return {"port": port_number(port), **values}

    return parse


def link(text: str) -> LinkOptions:
    """Parse the option --link."""
    options = LinkOptions(**keyed(LINK_KEYS)(text))
    fault = link_fault(options)
    if fault:
        raise argparse.ArgumentTypeError(f"{text!r}: {fault}")
    return options


def queue(text: str) -> QueueOptions:
    """Parse the option --queue."""
    return QueueOptions(**keyed(QUEUE_KEYS)(text))


def checked(values: Mapping[str, Any], keys: Keys) -> dict[str, Any]:
    """Check a request that has a port and some of the keys. Raises ArgumentTypeError."""
    limits = {"port": (int, 0, MAX_PORT), **keys}
    if "port" not in values:
        raise argparse.ArgumentTypeError("port: missing")
    result = {}
    for key, value in values.items():
        if key not in limits:
            raise argparse.ArgumentTypeError(f"{key}: expected one of {', '.join(limits)}")
        kind = limits[key][0]
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        is_number = is_whole if kind is int else isinstance(value, int | float)
        if isinstance(value, bool) or not is_number:
            what = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{key}: expected {what}, not {value!r}")
        try:
            result[key] = number(str(value), *limits[key])
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{key} {error}") from None
    return result
