"""A RoCE switch in this process. It gets packets of users and responses, and sends records."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import subject
from forwarder import CPU_PORT, IN, OUT, TO_COLLECTOR, Forwarder, check_ipv4_checksum
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from simple_switch import Twins

from collectors.roce.endpoint import gid
from collectors.roce.packets import AETH, BTH, GRH, RETH, AtomicAckETH, Nak, Op, icrc
from minip4.engine.engine import Engine
from minip4.engine.keys import Exact, Ternary

PROGRAM = Path(__file__).parents[2] / "p4src" / "roce" / "roce.p4"
HOST_MAC, SWITCH_MAC, COLLECTOR_MAC = 0x020000000002, 0x0200000000FF, 0x020000000063
SWITCH_ADDR, COLLECTOR_ADDR = "10.0.9.1", "10.0.9.9"
SWITCH_ADDR6, COLLECTOR_ADDR6 = "fd09::1", "fd09::9"
VERSIONS = ("v1", "v2", "v2_ipv6")  # versions of RoCE; "v2" is over IPv4, and the default
SWITCH_QPN, COLLECTOR_QPN = 0x800011, 0x000263
RKEY, BASE = 0xCAFE0001, 0x7F00_0000_1000
NEVER = 0xFFFFFFFF  # mask that selects no record
FLOW, HOP = 44, 32  # size of each part of a record, in bytes
FLOW_ALONE, FLOW_AND_HOP, FLOW_AND_PATH = 1, 2, 3  # parts of a record
KINDS = ("sent", "acked", "naked", "not ready", "refused", "resumed", "probed", "damaged",
         "out of region")  # fmt: skip
ETHER = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
CRC_OF_UDP = {"sport": 0xC011, "dport": 4791, "chksum": 0}


@dataclass(frozen=True)
class Session:
    """Parameters of a session, as a controller sets them.

    With `fetch_add`, the session has counters instead of records.
    """

    number: int = 1
    version: str = "v2"
    unreliable: bool = False
    fetch_add: bool = False
    slots: int = 8
    stride: int = FLOW
    length: int | None = None  # size of the region in bytes; None: the size of all slots
    content: int = FLOW_ALONE
    ack_mask: int = 0xFFFFFF
    immediate_mask: int = NEVER
    patience: int = 0
    qpn: int = COLLECTOR_QPN

    @property
    def region(self) -> int:
        """Return the size of the region in bytes."""
        return self.slots * self.stride if self.length is None else self.length


class Switch(Forwarder):
    """A RoCE switch. Packets of users arrive at port 1, and leave by port 2.

    The collector is behind port 3.
    """

    def __init__(self, *sessions: Session, watch: bool = True) -> None:
        self.engine = subject.switch(PROGRAM, ports=(IN, OUT, TO_COLLECTOR, CPU_PORT))
        self.add = self.engine.table_add
        for mac, port in ((HOST_MAC, OUT), (COLLECTOR_MAC, TO_COLLECTOR)):
            self.add("RoceIngress.forwarding", [Exact(mac)], "RoceIngress.forward", [port])
        for session in sessions or (Session(),):
            install(self.engine, session)
        if watch:
            self.watch("record", [1, 1])

    def watch(self, action: str, params: Sequence[int], dst_port: int | None = None) -> None:
        """Record packets of both IP versions: all packets, or those to this port."""
        port = Ternary(0, 0) if dst_port is None else Ternary(dst_port, 0xFFFF)
        for table in ("record_list", "record_list_ipv6"):
            self.add(f"RoceIngress.watch.recorded.{table}", [*[Ternary(0, 0)] * 4, port],
                     f"RoceIngress.watch.recorded.{action}", params, 1)  # fmt: skip

    def records(self, frame: bytes, time_us: int = 0) -> list[bytes]:
        """Return the frames that the collector gets.

        Assert that the packet is forwarded unchanged.
        """
        (port, out), *others = self.send(frame, time_us)
        assert (port, out) == (OUT, frame)
        assert all(port == TO_COLLECTOR for port, _ in others)
        return [frame for _, frame in others]

    def record(self, frame: bytes | None = None, time_us: int = 0) -> Packet:
        """Return the only record of a packet. Assert that its iCRC is correct."""
        (record,) = self.records(udp() if frame is None else frame, time_us)
        return parse_request(record)

    def hear(self, frame: bytes) -> None:
        """Process a response of the collector. Assert that the switch sends nothing."""
        assert self.send(frame, port=TO_COLLECTOR) == []
        self.events()

    def events(self, session: int = 1) -> dict[str, int]:
        """Return the nonzero event counters of a session."""
        return self.count_events(KINDS, "roce_events", first=16 * session)

    def state(self, session: int = 1) -> tuple[int, ...]:
        """Read the state of a session by a readout packet.

        The state consists of the PSN, the slot, and the numbers of lost and of unanswered records.
        """
        request = b"\0\x01" + session.to_bytes(4, "big") + b"number 7"
        ((port, answer),) = self.send(request, port=CPU_PORT)
        assert port == CPU_PORT
        return tuple(int.from_bytes(answer[i : i + 8], "big") for i in range(12, 44, 8))


def install(engine: Engine | Twins, s: Session, kind: str = "Roce") -> None:
    """Install a session in a switch. The names of its ingress and egress begin with `kind`."""
    writes, answers = f"{kind}Egress.write_record", f"{kind}Ingress.answers"
    macs = [SWITCH_MAC, COLLECTOR_MAC]
    addresses = ends(s.version)
    gids = [int(IPv6Address(gid(a))) for a in addresses]
    if s.version == "v2":
        params = [*(int(IPv4Address(a)) for a in addresses), 0xC011]
    else:
        params = [*gids, 0xC011][: 2 if s.version == "v1" else 3]
    engine.table_add(f"{writes}.to_collector.collectors", [Exact(s.number)],
                     f"{writes}.to_collector.over_{s.version}", [*macs, *params])  # fmt: skip
    pair = [s.qpn, RKEY, BASE, s.region]
    if s.fetch_add:
        engine.table_add(f"{writes}.queue_pairs", [Exact(s.number)], f"{writes}.fetch_add",
                         [*pair, s.patience])  # fmt: skip
    else:
        engine.table_add(f"{writes}.queue_pairs", [Exact(s.number)], f"{writes}.write",
                         [int(s.unreliable), *pair, s.stride, s.slots, s.content, s.ack_mask,
                          s.immediate_mask, s.patience])  # fmt: skip
    key = [1 if s.version == "v1" else 2, SWITCH_QPN + s.number - 1, *gids[::-1]]
    engine.table_add(f"{answers}.answers", [*map(Exact, key)], f"{answers}.answer",
                     [s.number, s.slots])  # fmt: skip
    engine.mirror_set(s.number, [(TO_COLLECTOR, 0)])


def ends(version: str) -> tuple[str, str]:
    """Return the address of the switch, and the address of the collector."""
    return (
        (SWITCH_ADDR6, COLLECTOR_ADDR6) if version == "v2_ipv6" else (SWITCH_ADDR, COLLECTOR_ADDR)
    )


def parse_request(frame: bytes) -> Packet:
    """Parse a frame to the collector.

    Assert that its addresses, lengths, checksum and iCRC are correct.
    """
    packet = Ether(frame)
    assert (packet.dst, packet.src) == ("02:00:00:00:00:63", "02:00:00:00:00:ff")
    assert frame[-4:] == icrc(frame[14:-4])
    if GRH in packet:
        assert packet[GRH].paylen == len(frame) - 54
        assert packet[GRH].sgid == int(IPv6Address(gid(SWITCH_ADDR)))
        assert packet[GRH].dgid == int(IPv6Address(gid(COLLECTOR_ADDR)))
    else:
        assert {name: getattr(packet[UDP], name) for name in CRC_OF_UDP} == CRC_OF_UDP
        assert packet[UDP].len == len(packet[UDP])
        _check_ip(packet, len(frame) - 14)
    assert packet[BTH].dqpn == COLLECTOR_QPN
    return packet


def _check_ip(packet: Packet, length: int) -> None:
    if IPv6 in packet:
        assert (packet[IPv6].src, packet[IPv6].dst) == (SWITCH_ADDR6, COLLECTOR_ADDR6)
        assert packet[IPv6].plen == length - 40
        return
    assert (packet[IP].src, packet[IP].dst) == (SWITCH_ADDR, COLLECTOR_ADDR)
    assert packet[IP].len == length
    check_ipv4_checksum(packet)


def slot_of(packet: Packet, stride: int = FLOW) -> int:
    """Return the slot of the ring to which a WRITE request writes."""
    slot, rest = divmod(packet[RETH].va - BASE, stride)
    assert rest == 0
    return int(slot)


def answer(
    psn: int, syndrome: int = 0x1F, *, version: str = "v2", qpn: int = SWITCH_QPN, msn: int = 0,
    opcode: int = Op.ACKNOWLEDGE, src: str | None = None,
) -> bytes:  # fmt: skip
    """Return a response of the collector.

    By default, it is an ACK; `syndrome` selects another one.
    """
    dst, collector = ends(version)
    src = collector if src is None else src
    ether = Ether(dst="02:00:00:00:00:ff", src="02:00:00:00:00:63")
    bth = BTH(opcode=opcode, dqpn=qpn, psn=psn & 0xFFFFFF) / AETH(syndrome=syndrome, msn=msn)
    if opcode == Op.ATOMIC_ACKNOWLEDGE:
        bth = bth / AtomicAckETH(before=7)
    network: Packet
    if version == "v1":
        sgid, dgid = (int(IPv6Address(gid(a))) for a in (src, dst))
        network = GRH(sgid=sgid, dgid=dgid)
    elif version == "v2":
        network = IP(src=src, dst=dst, flags="DF") / UDP(sport=50000)
    else:
        network = IPv6(src=src, dst=dst) / UDP(sport=50000)
    return bytes(ether / network / bth)


def nak(psn: int, **fields: Any) -> bytes:
    """Return a NAK of a collector that expects this PSN."""
    return answer(psn, Nak.SEQUENCE, **fields)


def udp(payload: bytes = b"payload!", *, src: str = "10.0.0.1", **fields: int) -> bytes:
    """Return a UDP frame as a host sends it."""
    return bytes(ETHER / IP(src=src, dst="10.0.0.2")
                 / UDP(**{"sport": 4000, "dport": 5000, **fields}) / Raw(payload))  # fmt: skip


def tcp(seq: int = 99, ack: int = 77, payload: bytes = b"payload!", *, version: int = 4) -> bytes:
    """Return a TCP frame as a host sends it, with TCP options."""
    ip = IP(src="10.0.0.1", dst="10.0.0.2") if version == 4 else IPv6(src="fd00::1", dst="fd00::2")
    options = [("Timestamp", (7, 8)), ("NOP", None), ("NOP", None)]
    return bytes(ETHER / ip / TCP(sport=4000, dport=5000, seq=seq, ack=ack, options=options)
                 / Raw(payload))  # fmt: skip
