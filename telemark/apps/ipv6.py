"""UDP over IPv6 for applications.

The IP stacks of hosts have no IPv6. Ipv6Port builds and parses whole frames, in real and virtual
time.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address

from telemark.apps.application import FramePort, Host, check_header, check_range
from telemark.apps.headers import internet_checksum
from telemark.errors import TestbedError
from telemark.topology.links import ETHERNET_BYTES
from telemark.traffic.received import Datagram, Frames

IPV6 = struct.Struct("!IHBB16s16s")  # version to flow label, length, next header, hop limit, ...
UDP = struct.Struct("!HHHH")
TYPE_IPV6 = b"\x86\xdd"
PROTOCOL_UDP = 17


@dataclass(frozen=True)
class Ipv6Host:
    """IPv6 address of a host, and the MAC addresses of the IPv6 addresses to which it may send."""

    address: str
    macs: Mapping[str, str]

    def __post_init__(self) -> None:
        for address in (self.address, *self.macs):
            try:
                short = str(IPv6Address(address))
            except ValueError as error:
                raise TestbedError(f"IPv6 address: {error}") from None
            if short != address:
                raise TestbedError(f"IPv6 address {address}: expected its short form {short}")


class Ipv6Port:
    """UDP port over IPv6. It replaces the IP stack of the host; see Host.frames()."""

    def __init__(
        self, host: Host, local: Ipv6Host, port: int,
        on_datagrams: Callable[[list[Datagram]], None],
    ) -> None:  # fmt: skip
        check_range("UDP port", port, 1, 0xFFFF)
        self._mac = _packed(host.mac)
        self._address = IPv6Address(local.address).packed
        self._macs = local.macs
        self._number = port
        self._on_datagrams = on_datagrams
        self._port: FramePort = host.frames(self._take)

    def send(
        self, payload: bytes, address: str, port: int, *, dscp: int = 0, ecn: int = 0, ttl: int = 64
    ) -> None:
        """Send a datagram immediately. Raises TestbedError."""
        if address not in self._macs:
            raise TestbedError(f"address {address}: no MAC address; add it to Ipv6Host.macs")
        check_header(port, dscp, ecn, ttl)
        length = UDP.size + len(payload)
        addresses = self._address + IPv6Address(address).packed
        datagram = UDP.pack(self._number, port, length, 0) + payload
        checksum = _checksum(addresses, datagram) or 0xFFFF
        datagram = datagram[:6] + checksum.to_bytes(2, "big") + datagram[8:]
        head = struct.pack("!IHBB", 6 << 28 | (dscp << 2 | ecn) << 20, length, PROTOCOL_UDP, ttl)
        link = _packed(self._macs[address]) + self._mac + TYPE_IPV6
        self._port.send(link + head + addresses + datagram)

    def _take(self, frames: Frames) -> None:
        datagrams = [self._parse(frame.time_ns, frame.frame) for frame in frames]
        if found := [datagram for datagram in datagrams if datagram is not None]:
            self._on_datagrams(found)

    def _parse(self, time_ns: int, frame: bytes) -> Datagram | None:
        """Return the datagram of a frame; None if it is no valid datagram for this port."""
        packet = frame[ETHERNET_BYTES:]
        if frame[:6] != self._mac or frame[12:14] != TYPE_IPV6 or len(packet) < IPV6.size:
            return None
        first, length, protocol, hop_limit, source, destination = IPV6.unpack_from(packet)
        datagram = packet[IPV6.size : IPV6.size + length]
        if first >> 28 != 6 or protocol != PROTOCOL_UDP or destination != self._address:
            return None
        if not UDP.size <= length == len(datagram):
            return None
        source_port, port, udp_length, checksum = UDP.unpack_from(datagram)
        if port != self._number or udp_length != length or not checksum:
            return None
        if _checksum(source + destination, datagram):
            return None
        traffic_class = first >> 20 & 0xFF
        return Datagram(
            time_ns, str(IPv6Address(source)), source_port, datagram[UDP.size :],
            traffic_class >> 2, traffic_class & 3, hop_limit,
        )  # fmt: skip


def _checksum(addresses: bytes, datagram: bytes) -> int:
    """Return the UDP checksum (RFC 8200 section 8.1); 0 if the datagram contains the right one."""
    pseudo = addresses + struct.pack("!II", len(datagram), PROTOCOL_UDP)
    return internet_checksum(pseudo + datagram)


def _packed(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))
