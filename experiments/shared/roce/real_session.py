"""Reference RoCE session of rdma_rxe (Linux), for comparison with the packets of the switch.

RealSession is a live session in the virtual machine. rxe_session.pcap is a captured session. The
file has one packet for each of KINDS. Linux 6.1.192 and rdma-core 44.0 of Debian 12 sent these
packets to the responder of Telemark on 2026-11-22. A test compares both sessions.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scapy.layers.l2 import Ether
from scapy.packet import Raw

import collectors.roce.packets  # noqa: F401  its layers
from collectors.roce.endpoint import Peer, Target, Transport
from collectors.roce.verbs_peer import VerbsPeer
from telemark.accounting.pcap import read_frames
from telemark.backends.real.vm.machine import Machine

CAPTURE = Path(__file__).with_name("rxe_session.pcap")
KINDS = ("RC WRITE ONLY", "RC WRITE ONLY WITH IMMEDIATE", "RC FETCH ADD",
         "UC WRITE ONLY", "UC WRITE ONLY WITH IMMEDIATE")  # fmt: skip
TRANSPORTS = (Transport.RC, Transport.UC)
PSN, IMMEDIATE = 0x123456, 7
RECORD = bytes(range(44))  # as long as the record of a TCP packet
LENGTH = 2 * len(RECORD) + 8  # length of the target region


class RealSession:
    """rdma_rxe in the virtual machine, with a queue pair for each of TRANSPORTS."""

    def __init__(self, machine: Machine, address: str) -> None:
        """Connect to the virtual machine with this address. Raises TestbedError."""
        self._peers: list[Any] = [
            machine.make(VerbsPeer, address, PSN, transport=transport) for transport in TRANSPORTS
        ]

    @property
    def peers(self) -> list[Peer]:
        """Peers of the session, for the configuration of a responder."""
        return [peer.peer() for peer in self._peers]

    def carry_out(self, targets: Sequence[Target]) -> None:
        """Send one packet per element of KINDS; `targets` are in the order of TRANSPORTS."""
        for peer, target in zip(self._peers, targets, strict=True):
            peer.connect(target)
            peer.write(RECORD, 0)
            peer.write(RECORD, len(RECORD), IMMEDIATE)
            if target.transport is Transport.RC:
                peer.add(1, 2 * len(RECORD))


def captured() -> Mapping[str, Mapping[str, Any]]:
    """Return the fields of the captured packets, by KINDS."""
    _, frames = read_frames(CAPTURE)
    return by_kind(frames)


def by_kind(frames: Sequence[bytes]) -> Mapping[str, Mapping[str, Any]]:
    """Return the fields of a session's packets by kind. The frames are in the order of KINDS."""
    return {kind: fields(frame) for kind, frame in zip(KINDS, frames, strict=True)}


def fields(frame: bytes) -> dict[str, Any]:
    """Return all header fields of a frame by name, such as "BTH psn"; addresses are strings."""
    found: dict[str, Any] = {}
    layer: Any = Ether(frame)
    while layer and not isinstance(layer, Raw):
        for field in layer.fields_desc:
            value = layer.getfieldval(field.name)
            found[f"{layer.name} {field.name}"] = (
                value if isinstance(value, (int, str)) else str(value)
            )
        layer = layer.payload
    return found
