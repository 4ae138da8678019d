"""A peer on a real RoCE stack, by libibverbs: it writes as any host with RDMA does.

What it sends is what our switches' packets can be held against; what it makes of answers, whether
a responder of ours speaks as peers expect.
"""

import contextlib
import time
from typing import Any

from collectors.roce.device import Device, checked
from collectors.roce.endpoint import Access, Peer, Target, Transport
from telemark.errors import TestbedError

with contextlib.suppress(ImportError):  # Device tells
    from pyverbs import cq, enums, mr, pd, qp, wr

ROOM = 4096  # bytes of a message at most
TIMEOUT, RETRIES = 14, 7  # 4.096 us * 2^14 (IBTA 9.7.6.1.3); 7: RNR NAKs without end
WAIT_S = 10.0


class VerbsPeer:
    """A queue pair of the device that has an address; see Verbs."""

    def __init__(self, address: str, psn: int, *, transport: Transport = Transport.RC) -> None:
        """`psn` is of its first packet. Raises TestbedError."""
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
        """For whom it is to write to."""
        return self._peer

    def connect(self, target: Target) -> None:
        """Get ready to write there. Raises TestbedError."""
        there = Peer(target.address, target.qpn, 0)
        attributes = self._device.attributes(there, self._transport, Access(0))
        attributes.sq_psn = self._peer.psn
        if self._transport is Transport.RC:
            attributes.timeout, attributes.max_rd_atomic = TIMEOUT, 1
            attributes.retry_cnt = attributes.rnr_retry = RETRIES
        self._target = target
        checked(f"queue pair for {target.address}", self._pair.to_rts, attributes)

    def write(self, data: bytes, at: int, immediate: int | None = None) -> None:
        """WRITE, WITH IMMEDIATE where there is one; `at` counts from the region's first byte.

        Returns when it was acknowledged, or at UC when it was sent. Raises TestbedError.
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
        """FETCH ADD: what lay there before."""
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
        raise TestbedError(f"no answer came from {self._target.address} within {WAIT_S:g} s")
