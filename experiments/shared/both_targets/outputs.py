"""Comparison of the outputs that two targets produce from the same packets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import note_invalid
from telemark.network import Network
from telemark.results.report import Check
from telemark.session.clock import Clock

PACKETS_PER_S = 100  # far below the capacity of bmv2 with any of the programs
# idle time before the first and after the last packet
LEAD_NS, SETTLE_NS = 200_000_000, 400_000_000

Port = tuple[str, str]
"""Port of a switch: the names of the switch and of the neighbour."""


@dataclass(frozen=True)
class Part:
    """Part of the outputs that must be equal on both targets."""

    measured: Sequence[bytes]  # frames, or one memory region; time values are set to 0
    expected: Sequence[bytes] | None = None  # ground truth; None if it is unknown


@dataclass(frozen=True)
class Outputs:
    """Outputs of one system on one target."""

    system: str
    parts: Mapping[str, Part]
    counts: Mapping[str, tuple[int, int]]  # quantity -> (measured value, ground truth)
    # number of frames captured at each port; it depends only on the input packets
    sent: Mapping[Port, int]
    accounting: PacketAccounting


async def send(net: Network, host: str, frames: Sequence[bytes], clock: Clock) -> None:
    """Send frames at a constant rate and wait until the network has processed them."""
    start_ns = clock.now_ns() + LEAD_NS
    times = [start_ns + number * 10**9 // PACKETS_PER_S for number in range(len(frames))]
    net.send_frames(host, times, frames)
    await clock.sleep_until(times[-1] + SETTLE_NS)


def count_sent(net: Network, ports: Iterable[Port]) -> dict[Port, int]:
    """Count the frames that switches sent on these ports; the network must have stopped."""
    return {port: len(pcap.read(net.capture(*port, "out")).length) for port in ports}


def differing_bytes(ours: Sequence[bytes], theirs: Sequence[bytes]) -> int:
    """Count the differing bytes, including bytes that exist in only one of the sequences."""
    return sum(
        sum(a != b for a, b in zip_longest(one, other))
        for one, other in zip_longest(ours, theirs, fillvalue=b"")
    )


def compare(at: str, ours: Outputs, theirs: Outputs) -> list[Check]:
    """Check that each part is equal on both targets, byte by byte."""
    return [
        Check(f"{at}: {ours.system}: {name}: difference between targets (bytes)",
              differing_bytes(ours.parts[name].measured, theirs.parts[name].measured), 0)
        for name in ours.parts
    ]  # fmt: skip


def check(at: str, found: Outputs) -> list[Check]:
    """Compare the outputs of one target with ground truth."""
    name = f"{at}: {found.system}"
    return [
        *(Check(f"{name}: {part}: error (bytes)", differing_bytes(of.measured, of.expected), 0)
          for part, of in found.parts.items() if of.expected is not None),
        *(Check(f"{name}: {quantity}", *values) for quantity, values in found.counts.items()),
        *found.accounting.checks(name),
    ]  # fmt: skip


def reject_drops(ours: Outputs, theirs: Outputs) -> None:
    """Make the run inconclusive if bmv2 (`theirs`) sent fewer frames than minip4.

    The counters of bmv2 do not distinguish drops by the P4 program from drops because the machine
    is overloaded.
    """
    for (switch, neighbour), count in ours.sent.items():
        if (dropped := count - theirs.sent[switch, neighbour]) > 0:
            note_invalid(
                f"{ours.system}: bmv2 dropped {dropped} frames in {switch} for {neighbour}"
            )
