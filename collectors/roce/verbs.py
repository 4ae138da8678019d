"""Endpoint on an RDMA NIC or on rdma_rxe of the kernel, through libibverbs.

Registered memory is pinned. From Linux 6.5 on, the kernel does not pin pages that it writes back to
a disk (mm/gup.c), so the file of a Region must be on tmpfs.
"""

import contextlib
import socket
from collections import Counter
from typing import Any

from collectors.roce.device import DEVICES, PORT, Device, call_verbs, flags
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
)
from collectors.roce.region import Region
from telemark.errors import TestbedError

with contextlib.suppress(ImportError):  # Device reports the missing library
    from pyverbs import cq, enums, mr, pd, qp, wr

# A device's counters of received requests. The first is of rxe (rxe_hw_counters.c), the others are
# of mlx5.
ACCEPTED = ("rcvd_pkts", "rx_write_requests", "rx_atomic_requests")
REFUSED = ("duplicate_request", "out_of_seq_request", "send_rnr_err", "out_of_sequence",
           "out_of_buffer", "resp_remote_access_errors", "rx_icrc_encapsulated")  # fmt: skip


class Verbs(Endpoint):
    """See Endpoint.

    This endpoint uses the device that has the IPv4 or IPv6 address `address`, with RoCEv2.
    """

    def __init__(self, address: str, *, receives: int = 256) -> None:
        """At most `receives` completions may wait per queue pair. Raises TestbedError."""
        self.address, self._receives = address, receives
        self._device = Device(address)
        # map from rkey to the memory region and the protection domain
        self._domains: dict[int, tuple[Any, Any]] = {}
        # Map from number of a queue pair to the queue pair, its completion queue and its receive
        # request.
        self._pairs: dict[int, tuple[Any, Any, Any]] = {}
        # these references keep the regions mapped while the device writes
        self._regions: list[Region] = []
        self._counted_before = self._counters()

    def register(self, region: Region, access: Access = WRITE_AND_ATOMIC) -> Domain:
        """See Endpoint."""
        region.claim()
        protection = pd.PD(self._device.context)
        memory = call_verbs(
            f"region {region.path or 'in memory'}",
            mr.MR, protection, region.length, flags(access), region.address,
        )  # fmt: skip
        self._regions.append(region)
        self._domains[memory.rkey] = memory, protection
        return Domain(memory.rkey, region.address, region.length)

    def connect(
        self, domain: Domain, peer: Peer, *, transport: Transport = Transport.RC,
        access: Access = WRITE_AND_ATOMIC,
    ) -> Target:  # fmt: skip
        """See Endpoint. The queue pair can only receive and respond."""
        memory, protection = self._domains[domain.rkey]
        queue = cq.CQ(self._device.context, self._receives)
        room = qp.QPCap(max_send_wr=1, max_recv_wr=self._receives)
        settings = qp.QPInitAttr(Device.kind(transport), scq=queue, rcq=queue, cap=room)
        pair = qp.QP(protection, settings)
        call_verbs(f"queue pair for {peer.address}", pair.to_rtr,
                self._device.attributes(peer, transport, access))  # fmt: skip
        # An immediate value consumes this receive request. It has no room for the data of a SEND,
        # which is rejected.
        receive = wr.RecvWR(num_sge=1, sg=[wr.SGE(domain.base, 0, memory.lkey)])
        for _ in range(self._receives):
            pair.post_recv(receive)
        self._pairs[pair.qp_num] = pair, queue, receive
        return Target(self.address, pair.qp_num, peer.psn, domain.rkey, domain.base, domain.length,
                      self._device.path_mtu, transport)  # fmt: skip

    def disconnect(self, qpn: int) -> None:
        """See Endpoint."""
        if qpn not in self._pairs:
            raise TestbedError(f"there is no queue pair {qpn:#x}")
        pair, queue, _ = self._pairs.pop(qpn)
        pair.close()
        queue.close()

    def completions(self) -> list[Completion]:
        """See Endpoint. The result is grouped by queue pair."""
        taken = []
        for qpn, (pair, queue, receive) in self._pairs.items():
            count, entries = queue.poll(self._receives)
            for entry in entries[:count]:
                if entry.status == enums.IBV_WC_SUCCESS:  # otherwise the queue pair has failed
                    immediate = socket.ntohl(entry.imm_data)
                    taken.append(Completion(qpn, immediate, entry.byte_len))
                    pair.post_recv(receive)
        return taken

    def counts(self) -> Counts:
        """See Endpoint.

        The counters belong to the device, so they include all users of the device.

        rxe does not count packets that it drops before it checks the PSN, e.g. because of a wrong
        iCRC.
        """
        grown = self._counters() - self._counted_before
        refused = {name: count for name, count in grown.items() if name in REFUSED}
        accepted = {name: count for name, count in grown.items() if name in ACCEPTED}
        return Counts(Counter(accepted), Counter(refused))

    def _counters(self) -> Counter[str]:
        folder = DEVICES / self._device.name / f"ports/{PORT}/hw_counters"
        return Counter({path.name: int(path.read_text()) for path in folder.iterdir()})

    def close(self) -> None:
        """See Endpoint."""
        for qpn in [*self._pairs]:
            self.disconnect(qpn)
        for memory, protection in self._domains.values():
            memory.close()
            protection.close()
        self._domains.clear()
        self._device.context.close()
