"""Grouping of several reports in one datagram. The switches run p4src/int/grouped.p4.

    domain = Domain("h3", flows, grouping=Grouping(reports=8))
    ...
    await flush(switches.values())      # send incomplete groups

The P4 side is p4src/int/grouping.p4.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import finsy as fy

from telemark.network import Network

MOST_REPORTS = 8  # GROUP_SLOTS in p4src/int/grouping.p4
HARDWARE_IDS = range(3)  # HW_EGRESS and so on, in p4src/include/telemetry_report.p4

_FLUSH_GROUP = 0xFFFF  # in p4src/int/grouping.p4
_LONGEST_WORDS = 63  # maximum length of a report that waits for a group
_HEADER_BYTES = 20 + 8 + 8  # IPv4, UDP, group header
# Maximum number of words that a switch can add to a packet that collects other reports. minip4 can
# add 1,024 bytes, and bmv2 512 bytes. The added words include the report that completes a group,
# because this report may be longer than the reported packet.
_WORDS, _BMV2_WORDS = 240, 63


@dataclass(frozen=True)
class Grouping:
    """Grouping with at most `reports` reports per datagram.

    A group is sent when it is full. It is also sent at the first report that is at least `wait_us`
    later than the first report of the group. Switches have no timer, so see flush_every(). Raises
    ValueError for invalid parameters.
    """

    reports: int = MOST_REPORTS
    # half of the time for which the collector waits for all reports of a packet (settle_us)
    wait_us: int = 50_000

    def __post_init__(self) -> None:
        if not 1 <= self.reports <= MOST_REPORTS:
            raise ValueError(f"{self}: expected 1 to {MOST_REPORTS} reports")
        if not 0 <= self.wait_us < 1 << 48:
            raise ValueError(f"{self}: expected 0 to 2^48 - 1 us")

    def action(self, net: Network, node: int, mtu_bytes: int, port: int) -> fy.Action:
        """Return the action for the switch's table `grouping`.

        Groups leave the switch through `port`.
        """
        most = (mtu_bytes - _HEADER_BYTES) // 4 - _LONGEST_WORDS
        words = max(0, min(most, _BMV2_WORDS if net.has_panels else _WORDS))
        return fy.Action("gather", node_id=node, reports=self.reports, words=words,
                         wait_us=self.wait_us, port=port)  # fmt: skip


async def flush(switches: Iterable[fy.Switch]) -> None:
    """Make switches send their incomplete groups."""
    for switch in switches:
        await switch.write([fy.P4PacketOut(b"", record=_FLUSH_GROUP, index=hw_id)
                            for hw_id in HARDWARE_IDS])  # fmt: skip


async def flush_every(switches: Iterable[fy.Switch], period_s: float) -> None:
    """Flush periodically, until cancelled.

    Flushes are necessary because switches have no timer.
    """
    switches = list(switches)
    while True:
        await asyncio.sleep(period_s)
        await flush(switches)
