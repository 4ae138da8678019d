"""A peer on a real RoCE stack that connects by librdmacm, as most programs with RDMA do."""

import contextlib
import struct
from typing import Any

from collectors.roce.device import MTU_BYTES, checked
from collectors.roce.endpoint import Target, Transport
from collectors.roce.verbs_peer import RETRIES, VerbsPeer
from telemark.errors import TestbedError

with contextlib.suppress(ImportError):  # Device tells
    from pyverbs import cm_enums, cmid, enums

MEMORY = struct.Struct("!QIQ")  # in REP's private data: base, R_Key, length


class CmPeer(VerbsPeer):
    """Writes where a ConnectionManager lets it; each step returns when it is done."""

    def __init__(self, address: str) -> None:
        """`address` is that of its device. Raises TestbedError."""
        super().__init__(address, psn=0)  # which the other side says
        self._channel = cmid.CMEventChannel()
        self._id = cmid.CMID(creator=self._channel)

    def call(self, address: str, port: int) -> None:
        """Find the way there, and send REQ. Raises TestbedError."""
        self._address, self._where = address, f"{address}, port {port}"
        there = cmid.AddrInfo(dst=address, dst_service=str(port), port_space=cm_enums.RDMA_PS_TCP)
        checked(self._where, self._id.resolve_addr, there)
        self._await(cm_enums.RDMA_CM_EVENT_ADDR_RESOLVED)
        checked(self._where, self._id.resolve_route)
        self._await(cm_enums.RDMA_CM_EVENT_ROUTE_RESOLVED)
        asked = cmid.ConnParam(qp_num=self.peer().qpn, rnr_retry=RETRIES)
        checked(self._where, self._id.connect, asked)

    def join(self) -> Target:
        """Wait for REP, get ready to write as it says, and send RTU. Raises TestbedError."""
        told = self._await(cm_enums.RDMA_CM_EVENT_CONNECT_RESPONSE)
        base, rkey, length = MEMORY.unpack_from(told)
        self._enter(enums.IBV_QPS_INIT)
        receiving, sending = self._enter(enums.IBV_QPS_RTR), self._enter(enums.IBV_QPS_RTS)
        checked(self._where, self._id.establish)
        self._target = Target(
            self._address, receiving.dest_qp_num, sending.sq_psn, rkey, base, length,
            MTU_BYTES[receiving.path_mtu], Transport.RC,
        )  # fmt: skip
        return self._target

    def _enter(self, state: Any) -> Any:
        """Bring the queue pair into a state; its attributes that belong to it, as CM knows them."""
        attributes, mask = checked(self._where, self._id.init_qp_attr, state)
        checked(self._where, self._pair.modify, attributes, mask)
        return attributes

    def leave(self) -> None:
        """Send DREQ, and wait for DREP. Raises TestbedError."""
        checked(self._where, self._id.disconnect)
        self._await(cm_enums.RDMA_CM_EVENT_DISCONNECTED)

    def _await(self, kind: Any) -> bytes:
        """The private data of the next event, which must be of a kind."""
        event = cmid.CMEvent(self._channel)
        name, told = event.event_str(), event.private_data
        came = event.event_type
        event.close()
        if came != kind:
            raise TestbedError(f"{self._where}: {name}")
        return bytes(told)
