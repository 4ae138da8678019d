"""Ping from a host in virtual time: ICMP echo, ARP, a gateway, and static neighbours.

The event queue's own hosts reply to echo requests but do not send any. This application sends echo
requests. For everything that `ping` displays, it behaves like a kernel. It looks up the next hop
and the MAC address of the next hop, and sends an ARP request if this address is unknown. It ignores
packets that are for other hosts or have a wrong checksum.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface

from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet
from scapy.utils import checksum

from telemark.apps.application import Application, Host
from telemark.traffic.received import Frames

BROADCAST = "ff:ff:ff:ff:ff:ff"
REQUEST, REPLY = 8, 0  # ICMP types
PAYLOAD = bytes(56)  # default payload size of `ping`
WAIT_S = 1.0  # maximum time to wait for a reply


@dataclass(frozen=True)
class Answer:
    """RTT and TTL of an echo reply."""

    round_trip_ns: int
    ttl: int


class PingHost(Application):
    """Host that sends pings and replies to them; `neighbours` is a map from IPv4 to MAC address."""

    def __init__(
        self, address: IPv4Interface, gateway: str | None, neighbours: Mapping[str, str]
    ) -> None:
        self.address = str(address.ip)
        self._subnet = address.network
        self._gateway = gateway
        self._macs = dict(neighbours)
        # map from next hop to the packets that wait for its MAC address
        self._held: dict[str, list[Packet]] = {}
        self._pending: dict[tuple[int, int], tuple[int, asyncio.Future[Answer]]] = {}
        self._identifier = 0

    def start(self, host: Host) -> None:
        """Receive all frames of the host."""
        self._host = host
        self._port = host.frames(self._take)

    def result(self) -> None:
        """Return None, because ping() returns the results."""

    def has_route(self, address: str) -> bool:
        """Return whether there is a route."""
        return self._next_hop(address) is not None

    def new_identifier(self) -> int:
        """Return an ICMP identifier for a series of pings."""
        self._identifier += 1
        return self._identifier & 0xFFFF

    async def ping(self, address: str, identifier: int, sequence: int) -> Answer | None:
        """Send an echo request; return the reply, or None if there is none within WAIT_S."""
        key = identifier, sequence & 0xFFFF
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending[key] = self._host.now_ns(), future
        self._send(address, ICMP(type=REQUEST, id=key[0], seq=key[1]) / PAYLOAD)
        try:
            return await asyncio.wait_for(future, WAIT_S)
        except asyncio.TimeoutError:
            return None
        finally:
            del self._pending[key]

    def _next_hop(self, address: str) -> str | None:
        is_local = IPv4Address(address) in self._subnet or address in self._macs
        return address if is_local else self._gateway

    def _send(self, address: str, payload: Packet) -> None:
        hop = self._next_hop(address)
        if hop is None:
            return
        packet = IP(src=self.address, dst=address) / payload
        if hop in self._macs:
            self._send_frame(self._macs[hop], packet)
            return
        self._held.setdefault(hop, []).append(packet)
        request = ARP(op="who-has", hwsrc=self._host.mac, psrc=self.address, pdst=hop)
        self._send_frame(BROADCAST, request)

    def _send_frame(self, mac: str, packet: Packet) -> None:
        self._port.send(bytes(Ether(src=self._host.mac, dst=mac) / packet))

    def _take(self, frames: Frames) -> None:
        for arrival in frames:
            frame = Ether(arrival.frame)
            if frame.dst not in (self._host.mac.lower(), BROADCAST):
                continue
            if ARP in frame:
                self._take_arp(frame[ARP])
            elif IP in frame and ICMP in frame and _is_whole(frame[IP]):
                self._take_echo(frame[IP], arrival.time_ns)

    def _take_arp(self, arp: ARP) -> None:
        """Handle an ARP packet, and store the sender's MAC address (RFC 826)."""
        if arp.pdst != self.address:
            return
        self._macs[arp.psrc] = arp.hwsrc
        if arp.op == 1:
            answer = ARP(op="is-at", hwsrc=self._host.mac, psrc=self.address, hwdst=arp.hwsrc,
                         pdst=arp.psrc)  # fmt: skip
            self._send_frame(arp.hwsrc, answer)
        for packet in self._held.pop(arp.psrc, ()):
            self._send_frame(arp.hwsrc, packet)

    def _take_echo(self, packet: IP, time_ns: int) -> None:
        echo = packet[ICMP]
        if packet.dst != self.address:
            return
        if echo.type == REQUEST:
            answer = ICMP(type=REPLY, id=echo.id, seq=echo.seq) / bytes(echo.payload)
            self._send(packet.src, answer)
        elif echo.type == REPLY and (pending := self._pending.get((echo.id, echo.seq))):
            sent_ns, future = pending
            if not future.done():
                future.set_result(Answer(time_ns - sent_ns, packet.ttl))


def _is_whole(packet: IP) -> bool:
    """Return whether the packet is complete, and its IPv4 and ICMP checksums are right."""
    raw = bytes(packet.original)
    header = 4 * packet.ihl
    if not 20 <= header <= packet.len <= len(raw):
        return False
    return checksum(raw[:header]) == 0 and checksum(raw[header : packet.len]) == 0
