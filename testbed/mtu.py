"""How long packets may be: hosts have an MTU, and switches pass on all that they have room for."""

from minip4.wire.shared import FRAME_ROOM, MAX_FRAME
from testbed.errors import TestbedError

ETHERNET_BYTES = 14  # of a frame's header; its check sequence never counts
VLAN_TAG_BYTES = 4  # for which interfaces leave room beyond their MTU
UDP_BYTES = 20 + 8  # of a datagram's headers, IPv4's among them
USUAL_MTU = 1500  # bytes of the longest IP packet: Ethernet's (RFC 894)
SMALLEST_MTU, LARGEST_MTU = 68, MAX_FRAME - ETHERNET_BYTES  # the smallest: RFC 791
# Of switches' interfaces: the kernel is to refuse nothing that a program makes. What is longer than
# MAX_FRAME, the next switch drops and counts.
SWITCH_MTU = FRAME_ROOM


def check_mtu(mtu_bytes: int) -> int:
    """The same. Raises TestbedError for an MTU that hosts cannot have."""
    if not (SMALLEST_MTU <= mtu_bytes <= LARGEST_MTU and mtu_bytes == int(mtu_bytes)):
        raise TestbedError(f"mtu_bytes {mtu_bytes}: expected {SMALLEST_MTU} to {LARGEST_MTU}")
    return int(mtu_bytes)
