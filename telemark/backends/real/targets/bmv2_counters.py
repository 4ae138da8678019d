"""Numbers of frames that entered and left bmv2, from the counters of its panel."""

from collections.abc import Mapping
from typing import Any

from telemark.topology.checks import PORTS

PANEL_PORTS = PORTS["bmv2"]  # number of the panel's first port towards bmv2


def with_inner_counts(counters: Mapping[str, Any]) -> dict[str, Any]:
    """Add the entry `inner` to the panel's counters: numbers of frames that entered and left bmv2.

    Frames that entered bmv2 but did not leave it are counted as drops at a port called bmv2.
    """
    inner = [port for number, port in counters["ports"].items() if int(number) >= PANEL_PORTS]
    into, out = (sum(port[counter] for port in inner)
                 for counter in ("transmitted_packets", "received_packets"))  # fmt: skip
    drops = {"bmv2": {"drops": {"bmv2": max(into - out, 0)}}}
    return {
        **counters,
        "inner": {"into": into, "out": out},
        "other_ports": {**counters["other_ports"], **drops},
    }
