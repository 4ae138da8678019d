"""Peers that use an RDMA NIC or rdma_rxe, for tests and comparisons.

These peers use libibverbs and librdmacm.
"""

import contextlib
import struct
import time
from typing import Any

from collectors.roce.device import MTU_BYTES, Device, call_verbs
from collectors.roce.endpoint import Access, Peer, Target, Transport
from telemark.errors import TestbedError

with contextlib.suppress(ImportError):  # Device reports the missing library
    from pyverbs import cm_enums, cmid, cq, enums, mr, pd, qp, wr

ROOM = 4096  # maximum size of a message in bytes
TIMEOUT, RETRIES = 14, 7  # 4.096 us * 2^14 (IBTA 9.7.6.1.3); 7 RNR retries mean unlimited retries
WAIT_S = 10.0


class VerbsPeer:
    """A queue pair of the device that has this address; see Verbs."""

    def __init__(self, address: str, psn: int, *, transport: Transport = Transport.RC) -> None:
        """`psn` is the PSN of the first packet. Raises TestbedError."""
        self._device = Device(address)
        self._transport = transport
        protection = pd.PD(self._device.context)
        self._memory = mr.MR(protection, ROOM, enums.IBV_ACCESS_LOCAL_WRITE)
        self._completions = cq.CQ(self._device.context, 16)
        settings = qp.QPInitAttr(Device.kind(transport), scq=self._completions,
                                 rcq=self._completions, cap=qp.QPCap(max_send_wr=16))  # fmt: skip
        self._pair = qp.QP(protection, settings)
        self._peer = Peer(address, self._pair.qp_num, psn)

    def peer(self) -> Peer:
        """Return the parameters that an endpoint needs in order to connect to this peer."""
        return self._peer

    def connect(self, target: Target) -> None:
        """Connect to a target. Raises TestbedError."""
        there = Peer(target.address, target.qpn, 0)
        attributes = self._device.attributes(there, self._transport, Access(0))
        attributes.sq_psn = self._peer.psn
        if self._transport is Transport.RC:
            attributes.timeout, attributes.max_rd_atomic = TIMEOUT, 1
            attributes.retry_cnt = attributes.rnr_retry = RETRIES
        self._target = target
        call_verbs(f"queue pair for {target.address}", self._pair.to_rts, attributes)

    def write(self, data: bytes, at: int, immediate: int | None = None) -> None:
        """Send WRITE or WRITE WITH IMMEDIATE. `at` is an offset in the region.

        On RC, returns when the write is acknowledged. On UC, returns when the write is sent. Raises
        TestbedError.
        """
        self._memory.write(data, len(data))
        opcode = enums.IBV_WR_RDMA_WRITE
        request = {}
        if immediate is not None:
            opcode = enums.IBV_WR_RDMA_WRITE_WITH_IMM
            request["imm_data"] = int.from_bytes(immediate.to_bytes(4, "big"), "little")
        asked = self._request(opcode, len(data), **request)
        asked.set_wr_rdma(self._target.rkey, self._target.base + at)
        self._carry_out(asked)

    def add(self, addend: int, at: int) -> int:
        """Send FETCH ADD. Return the value before the addition."""
        asked = self._request(enums.IBV_WR_ATOMIC_FETCH_AND_ADD, 8)
        asked.set_wr_atomic(self._target.rkey, self._target.base + at, addend)
        self._carry_out(asked)
        return int.from_bytes(self._memory.read(8, 0), "little")

    def _request(self, opcode: int, length: int, **more: int) -> Any:
        part = wr.SGE(self._memory.buf, length, self._memory.lkey)
        return wr.SendWR(num_sge=1, sg=[part], opcode=opcode,
                         send_flags=enums.IBV_SEND_SIGNALED, **more)  # fmt: skip

    def _carry_out(self, request: Any) -> None:
        self._pair.post_send(request)
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            count, entries = self._completions.poll(1)
            if count:
                if entries[0].status != enums.IBV_WC_SUCCESS:
                    raise TestbedError(
                        f"the write failed: {cq.wc_status_to_str(entries[0].status)}"
                    )
                return
            time.sleep(0.001)
        raise TestbedError(f"no response from {self._target.address} within {WAIT_S:g} s")


MEMORY = struct.Struct("!QIQ")  # private data of REP: base, R_Key and length


class CmPeer(VerbsPeer):
    """Peer that connects to a ConnectionManager through librdmacm.

    All methods block until they are done.
    """

    def __init__(self, address: str) -> None:
        """`address` is the address of the device that this peer uses. Raises TestbedError."""
        super().__init__(address, psn=0)  # the other side chooses the first PSN
        self._channel = cmid.CMEventChannel()
        self._id = cmid.CMID(creator=self._channel)

    def call(self, address: str, port: int) -> None:
        """Resolve the route, and send REQ. Raises TestbedError."""
        self._address, self._where = address, f"{address}, port {port}"
        there = cmid.AddrInfo(dst=address, dst_service=str(port), port_space=cm_enums.RDMA_PS_TCP)
        call_verbs(self._where, self._id.resolve_addr, there)
        self._await(cm_enums.RDMA_CM_EVENT_ADDR_RESOLVED)
        call_verbs(self._where, self._id.resolve_route)
        self._await(cm_enums.RDMA_CM_EVENT_ROUTE_RESOLVED)
        asked = cmid.ConnParam(qp_num=self.peer().qpn, rnr_retry=RETRIES)
        call_verbs(self._where, self._id.connect, asked)

    def join(self) -> Target:
        """Wait for REP, prepare to write to the target in it, and send RTU. Raises TestbedError."""
        private_data = self._await(cm_enums.RDMA_CM_EVENT_CONNECT_RESPONSE)
        base, rkey, length = MEMORY.unpack_from(private_data)
        self._enter(enums.IBV_QPS_INIT)
        receiving, sending = self._enter(enums.IBV_QPS_RTR), self._enter(enums.IBV_QPS_RTS)
        call_verbs(self._where, self._id.establish)
        self._target = Target(
            self._address, receiving.dest_qp_num, sending.sq_psn, rkey, base, length,
            MTU_BYTES[receiving.path_mtu], Transport.RC,
        )  # fmt: skip
        return self._target

    def _enter(self, state: Any) -> Any:
        """Move the queue pair to a state. Return the attributes that the CM has selected."""
        attributes, mask = call_verbs(self._where, self._id.init_qp_attr, state)
        call_verbs(self._where, self._pair.modify, attributes, mask)
        return attributes

    def leave(self) -> None:
        """Send DREQ, and wait for DREP. Raises TestbedError."""
        call_verbs(self._where, self._id.disconnect)
        self._await(cm_enums.RDMA_CM_EVENT_DISCONNECTED)

    def _await(self, kind: Any) -> bytes:
        """Wait for the next event, and return its private data.

        The event must have the type `kind`.
        """
        event = cmid.CMEvent(self._channel)
        name, private_data = event.event_str(), event.private_data
        came = event.event_type
        event.close()
        if came != kind:
            raise TestbedError(f"{self._where}: {name}")
        return bytes(private_data)
