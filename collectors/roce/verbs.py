"""The endpoint on a real RoCE stack, by libibverbs: a network card with RDMA, or the kernel's rxe.

Its registered memory is pinned: a Region in a file must lie on tmpfs, or the kernel be older than
6.5, which no longer pins pages that it writes back to a disk (mm/gup.c).
"""

import contextlib
import socket
from collections import Counter
from typing import Any

from collectors.roce.device import DEVICES, PORT, Device, checked, flags
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

with contextlib.suppress(ImportError):  # Device tells
    from pyverbs import cq, enums, mr, pd, qp, wr

# Of a device's counters, those of a responder: rxe's (rxe_hw_counters.c), and mlx5's.
ACCEPTED = ("rcvd_pkts", "rx_write_requests", "rx_atomic_requests")
REFUSED = ("duplicate_request", "out_of_seq_request", "send_rnr_err", "out_of_sequence",
           "out_of_buffer", "resp_remote_access_errors", "rx_icrc_encapsulated")  # fmt: skip


class Verbs(Endpoint):
    """See Endpoint: on the device that has an address, IPv4 or IPv6, as RoCEv2 knows it."""

    def __init__(self, address: str, *, receives: int = 256) -> None:
        """`receives` completions of a queue pair may wait. Raises TestbedError."""
        self.address, self._receives = address, receives
        self._device = Device(address)
        self._domains: dict[int, tuple[Any, Any]] = {}  # rkey -> memory region, protection domain
        # Number -> queue pair, completion queue, and what a receive is.
        self._pairs: dict[int, tuple[Any, Any, Any]] = {}
        self._regions: list[Region] = []  # mapped as long as the device writes there
        self._counted_before = self._counters()

    def register(self, region: Region, access: Access = WRITE_AND_ATOMIC) -> Domain:
        """See Endpoint."""
        region.claim()
        protection = pd.PD(self._device.context)
        memory = checked(f"region {region.path or 'in memory'}", mr.MR, protection, region.length,
                         flags(access), region.address)  # fmt: skip
        self._regions.append(region)
        self._domains[memory.rkey] = memory, protection
        return Domain(memory.rkey, region.address, region.length)

    def connect(
        self, domain: Domain, peer: Peer, *, transport: Transport = Transport.RC,
        access: Access = WRITE_AND_ATOMIC,
    ) -> Target:  # fmt: skip
        """See Endpoint. It is ready to receive; nothing is ever sent but answers."""
        memory, protection = self._domains[domain.rkey]
        queue = cq.CQ(self._device.context, self._receives)
        room = qp.QPCap(max_send_wr=1, max_recv_wr=self._receives)
        settings = qp.QPInitAttr(Device.kind(transport), scq=queue, rcq=queue, cap=room)
        pair = qp.QP(protection, settings)
        checked(f"queue pair for {peer.address}", pair.to_rtr,
                self._device.attributes(peer, transport, access))  # fmt: skip
        # An immediate value takes up a receive; a SEND finds no room in it, and is refused.
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
        """See Endpoint; of several queue pairs, one after the other."""
        taken = []
        for qpn, (pair, queue, receive) in self._pairs.items():
            count, entries = queue.poll(self._receives)
            for entry in entries[:count]:
                if entry.status == enums.IBV_WC_SUCCESS:  # else the queue pair has failed
                    immediate = socket.ntohl(entry.imm_data)
                    taken.append(Completion(qpn, immediate, entry.byte_len))
                    pair.post_recv(receive)
        return taken

    def counts(self) -> Counts:
        """See Endpoint: in the device's own words, and of all that use it.

        What rxe drops before it looks for a PSN, as for a wrong iCRC, it counts nowhere.
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
