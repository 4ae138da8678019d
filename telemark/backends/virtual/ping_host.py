"""A virtual host that pings: ARP and ICMP echo, by way of a gateway and the neighbours it knows.

The event queue's own hosts answer, but never begin. Here a host does what a kernel would, as far as
`ping` shows it: it looks up the next hop and that one's MAC address, asks by ARP where it does not
know it, and takes nothing that is not addressed to it or has a wrong checksum.
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
REQUEST, REPLY = 8, 0  # ICMP's types of echo
PAYLOAD = bytes(56)  # as many as `ping` sends
WAIT_S = 1.0  # for an answer


@dataclass(frozen=True)
class Answer:
    """What came back: after `round_trip_ns`, with so many hops left."""

    round_trip_ns: int
    ttl: int


class PingHost(Application):
    """`neighbours`, IPv4 -> MAC, are those that it need not ask for."""

    def __init__(
        self, address: IPv4Interface, gateway: str | None, neighbours: Mapping[str, str]
    ) -> None:
        self.address = str(address.ip)
        self._subnet = address.network
        self._gateway = gateway
        self._macs = dict(neighbours)
        self._held: dict[str, list[Packet]] = {}  # for a next hop whose MAC address is asked for
        self._asked: dict[tuple[int, int], tuple[int, asyncio.Future[Answer]]] = {}
        self._identifier = 0

    def start(self, host: Host) -> None:
        """Take the host over."""
        self._host = host
        self._port = host.frames(self._take)

    def result(self) -> None:
        """Nothing: what came of pings is known at once."""

    def has_route(self, address: str) -> bool:
        """Whether there is a route."""
        return self._next_hop(address) is not None

    def new_identifier(self) -> int:
        """For the pings that belong together."""
        self._identifier += 1
        return self._identifier & 0xFFFF

    async def ping(self, address: str, identifier: int, sequence: int) -> Answer | None:
        """What came back within WAIT_S; None: nothing."""
        key = identifier, sequence & 0xFFFF
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[key] = self._host.now_ns(), future
        self._send(address, ICMP(type=REQUEST, id=key[0], seq=key[1]) / PAYLOAD)
        try:
            return await asyncio.wait_for(future, WAIT_S)
        except asyncio.TimeoutError:
            return None
        finally:
            del self._asked[key]

    def _next_hop(self, address: str) -> str | None:
        is_near = IPv4Address(address) in self._subnet or address in self._macs
        return address if is_near else self._gateway

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
        """RFC 826: whoever speaks to this host is known from then on."""
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
        elif echo.type == REPLY and (asked := self._asked.get((echo.id, echo.seq))):
            sent_ns, future = asked
            if not future.done():
                future.set_result(Answer(time_ns - sent_ns, packet.ttl))


def _is_whole(packet: IP) -> bool:
    """Whether both checksums are right, and nothing is missing."""
    raw = bytes(packet.original)
    header = 4 * packet.ihl
    if not 20 <= header <= packet.len <= len(raw):
        return False
    return checksum(raw[:header]) == 0 and checksum(raw[header : packet.len]) == 0
