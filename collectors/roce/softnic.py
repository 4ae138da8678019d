"""Software endpoint: a RoCE responder in C, for virtual time and for machines without RDMA.

The caller passes frames to the endpoint, and sends the responses.
"""

import secrets
import weakref
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from collectors.roce.endpoint import (
    WRITE_AND_ATOMIC,
    Access,
    Completion,
    Counts,
    Domain,
    Endpoint,
    Peer,
    Target,
    Transport,
    gid,
)
from collectors.roce.native import (
    COMPLETION,
    MANAGEMENT_ROOM,
    OPERATIONS,
    REFUSAL,
    REFUSALS,
    REPLY,
    Config,
    Connection,
    Counters,
    Gid,
    Reason,
    library,
)
from collectors.roce.packets import PSN_MASK, Op
from collectors.roce.region import Region
from telemark.errors import TestbedError
from telemark.traffic.received import Frames

TEXTS: Mapping[Reason, str] = {
    Reason.MANAGED: "connection management frame for queue pair 1",
    Reason.FOREIGN: "frame is not RoCE, is in a VLAN, or is for another MAC address",
    Reason.TRUNCATED: "frame is shorter than its headers require",
    Reason.IP_HEADER: "IP header with a wrong checksum, with options, or of a fragment; or a GRH "
    "whose version is not 6 or whose next header is not 0x1b",
    Reason.UDP_CHECKSUM: "UDP checksum is wrong; expected the right checksum or 0",
    Reason.ICRC: "iCRC {got:#010x}: expected {expected:#010x}; compute it with fields that change "
    "in transit as ones, and write the lowest byte first",
    Reason.VERSION: "transport version {got}: expected 0",
    Reason.OPCODE: "opcode {opcode:#04x} is not a request of the transport of this queue pair",
    Reason.QUEUE_PAIR: "there is no queue pair {qpn:#x}: it was never connected, or was "
    "disconnected",
    Reason.BROKEN: "queue pair {qpn:#x} had a fatal error: connect again",
    Reason.ADDRESS: "addresses differ from those of queue pair {qpn:#x} and its peer",
    Reason.PARTITION: "P_Key {got:#06x}: expected {expected:#06x}",
    Reason.GAP: "PSN {got}: expected {expected}; a packet was lost, and a NAK requests it",
    Reason.GAP_AGAIN: "PSN {got}: expected {expected}; a NAK was sent before, and the peer must "
    "resume at {expected}",
    Reason.DUPLICATE: "PSN {got}: expected {expected}; the request was executed before, and its "
    "response is repeated",
    Reason.FORGOTTEN: "PSN {got}: the request was executed before, and its response is no longer "
    "stored",
    Reason.NOT_BEGUN: "opcode {opcode:#04x} continues a message that has not begun",
    Reason.NOT_ENDED: "opcode {opcode:#04x} begins a message before the end of the previous "
    "message",
    Reason.MESSAGE_CUT: "packet belongs to a message of which PSN {expected} is missing",
    Reason.UNSUPPORTED: "opcode {opcode:#04x}: expected WRITE, FETCH ADD or COMPARE SWAP",
    Reason.ACCESS: "opcode {opcode:#04x}: queue pair {qpn:#x} does not have this right",
    Reason.NO_RECEIVE: "too many completions are waiting; call completions() more often",
    Reason.KEY: "R_Key {got:#010x}: the region of the queue pair has a different R_Key",
    Reason.KEY_ACCESS: "opcode {opcode:#04x}: the region does not have this right",
    Reason.BOUNDS: "access would end at {got:#x}, but the region ends at {expected:#x}",
    Reason.LENGTH: "{got} bytes of payload: expected {expected}, according to RETH, path MTU or "
    "opcode",
    Reason.PADDING: "Pad Count {got}: expected {expected}",
    Reason.ALIGNMENT: "address of an atomic operation is not a multiple of 8 (remainder {got})",
}


def explain_refusal(refusal: np.void) -> str:
    """Return a REFUSAL record as one line of text."""
    numbers = {name: int(refusal[name]) for name in ("got", "expected", "qpn", "opcode")}
    text = TEXTS[Reason(refusal["reason"])].format(**numbers)
    where = f"queue pair {refusal['qpn']:#x}, PSN {refusal['psn']}"
    return f"{refusal['time_ns'] / 1e9:.6f} s, {where}: {text}"


NONE = 0xFFFFFFFF
# virtual address of regions; it needs more than 32 bits, so that truncated addresses are noticed
BASE = 1 << 32
PATH_MTUS = (256, 512, 1024, 2048, 4096)


@dataclass(frozen=True)
class Limits:
    """Capacity of a SoftNic."""

    queue_pairs: int = 256  # number of queue pairs; a power of 2
    receives: int = 256  # maximum number of waiting completions of a queue pair


class SoftNic(Endpoint):
    """RoCEv1 and RoCEv2 endpoint at one address.

    The first queue pair has the number `first_qpn`, and the numbers ascend.
    """

    def __init__(
        self, address: str, *, mac: str = "00:00:00:00:00:00", path_mtu: int = 1024,
        first_qpn: int = 0x100, limits: Limits | None = None, sanitize: bool = False,
    ) -> None:  # fmt: skip
        """If `mac` is all zeros, frames to any MAC address are accepted. Raises TestbedError."""
        limits = limits or Limits()
        if path_mtu not in PATH_MTUS:
            raise TestbedError(f"path MTU {path_mtu}: expected one of {PATH_MTUS}")
        if limits.queue_pairs.bit_count() != 1 or not 0 < limits.receives < 1 << 20:
            raise TestbedError(f"{limits}: expected a power of 2, and 1 to 1,048,575")
        # 0, 1 and the largest number are reserved queue pair numbers
        if not 1 < first_qpn < PSN_MASK:
            raise TestbedError(f"first queue pair {first_qpn:#x}: expected 0x2 to 0xfffffe")
        self.address, self.path_mtu = address, path_mtu
        self.gid = _gid(gid(address))
        # the C code uses the memory of these regions, so they must not be freed
        self._regions: list[Region] = []
        self._domains: list[Domain] = []
        self._connected: set[int] = set()
        self._library = library(sanitize=sanitize)
        config = Config((*bytes.fromhex(mac.replace(":", "")),), (0, 0), first_qpn,
                        limits.queue_pairs, limits.receives, path_mtu)  # fmt: skip
        self.handle = self._library.roce_create(config)
        if not self.handle:
            raise TestbedError(f"not enough memory for {limits}; lower the limits")
        most = limits.queue_pairs * limits.receives
        # buffer with room for all completions that may be waiting
        self._room = np.empty(1 << (most - 1).bit_length(), COMPLETION)
        weakref.finalize(self, self._library.roce_destroy, self.handle)

    def register(
        self, region: Region, access: Access = WRITE_AND_ATOMIC, *, rkey: int | None = None
    ) -> Domain:
        """Register a region. If `rkey` is not given, the key is random."""
        region.claim()
        domain = Domain(secrets.randbits(32) if rkey is None else rkey, BASE, region.length)
        number = self._library.roce_register(
            self.handle, region.address, region.length, domain.base, domain.rkey, access
        )
        if number == NONE:
            raise TestbedError(f"{len(self._domains)} regions are registered, which is the maximum")
        self._regions.append(region)
        self._domains.append(domain)
        return domain

    def connect(
        self, domain: Domain, peer: Peer, *, transport: Transport = Transport.RC,
        access: Access = WRITE_AND_ATOMIC,
    ) -> Target:  # fmt: skip
        """See Endpoint."""
        if domain not in self._domains:
            raise TestbedError(f"R_Key {domain.rkey:#x}: not registered at this endpoint")
        connection = Connection(
            own=self.gid, peer=_gid(gid(peer.address)), peer_qpn=peer.qpn, psn=peer.psn,
            domain=self._domains.index(domain), is_reliable=transport is Transport.RC,
            access=access,
        )  # fmt: skip
        qpn = self._library.roce_connect(self.handle, connection)
        if qpn == NONE:
            raise TestbedError(
                "all queue pairs are in use; disconnect some, or increase Limits.queue_pairs"
            )
        self._connected.add(qpn)
        return Target(self.address, qpn, peer.psn, domain.rkey, domain.base, domain.length,
                      self.path_mtu, transport)  # fmt: skip

    def disconnect(self, qpn: int) -> None:
        """See Endpoint."""
        if not self._library.roce_disconnect(self.handle, qpn):
            raise TestbedError(f"there is no queue pair {qpn:#x}")
        self._connected.remove(qpn)

    def expected_psn(self, qpn: int) -> int | None:
        """Return the PSN of the next packet.

        Returns None if the queue pair does not exist or has failed.
        """
        psn: int = self._library.roce_expected(self.handle, qpn)
        return None if psn == NONE else psn

    def receive(self, frames: Frames) -> list[bytes]:
        """Process frames in order of arrival. Return the responses."""
        records, data = frames.taken
        replies = np.empty(len(records), REPLY)
        room = np.frombuffer(data, np.uint8)
        self._library.roce_receive(
            self.handle, records.ctypes.data, len(records), room.ctypes.data, replies.ctypes.data
        )
        answers = replies[replies["length"] > 0]
        return [each["frame"].tobytes()[: each["length"]] for each in answers]

    def management(self) -> list[bytes]:
        """Return the frames that arrived for queue pair 1. The ConnectionManager handles them."""
        room = np.empty(MANAGEMENT_ROOM, np.uint8)
        found = []
        while length := self._library.roce_management(self.handle, room.ctypes.data):
            found.append(room[:length].tobytes())
        return found

    def refusals(self) -> list[str]:
        """Return the latest rejected packets and the reasons, as text. counts() has the totals."""
        room = np.empty(REFUSALS, REFUSAL)
        count = self._library.roce_refusals(self.handle, room.ctypes.data)
        return [explain_refusal(each) for each in room[:count]]

    def completions(self) -> list[Completion]:
        """See Endpoint."""
        # Call the function only once: with a loop, Python might never catch up with the receiving
        # thread.
        taken = self._library.roce_completions(self.handle, self._room.ctypes.data, len(self._room))
        return [Completion(*each) for each in self._room[:taken].tolist()]

    def counts(self) -> Counts:
        """See Endpoint.

        The names of operations are those in Op, and the names of reasons those in Reason.
        """
        counters = Counters()
        self._library.roce_get_counts(self.handle, counters)
        found = Counts()
        for op in range(OPERATIONS):
            if counters.accepted[op]:
                found.accepted[Op(op).name] = counters.accepted[op]
        for reason in Reason:
            if counters.refused[reason]:
                found.refused[reason.name] = counters.refused[reason]
        return found

    def close(self) -> None:
        """See Endpoint."""
        for qpn in [*self._connected]:
            self.disconnect(qpn)


def _gid(packed: bytes) -> Gid:
    return Gid((*packed,))
