"""The endpoint on a real RoCE stack, by libibverbs: a network card with RDMA, or the kernel's rxe.

Needs ./setup.sh --rdma. Its registered memory is pinned: a Region in a file must lie on tmpfs, or
the kernel be older than 6.5, which no longer pins pages that it writes back to a disk (mm/gup.c).
"""

import errno
import os
import socket
from collections import Counter
from pathlib import Path
from typing import Any

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
from collectors.roce.region import Region
from testbed.errors import TestbedError

try:
    from pyverbs import addr, cq, device, enums, mr, pd, pyverbs_error, qp, wr
except ImportError:  # which only who opens an endpoint needs to know
    device = None

PORT = 1
MOST_ATOMICS = 16  # answers that are kept for peers that ask again (max_dest_rd_atomic)
HOP_LIMIT = 64
RNR_TIMER = 14  # 1 ms (IBTA 9.7.5.2.8, table 45)
MTU_BYTES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}  # of enum ibv_mtu

DEVICES = Path("/sys/class/infiniband")
# Of a device's counters, those of a responder: rxe's (rxe_hw_counters.c), and mlx5's.
ACCEPTED = ("rcvd_pkts", "rx_write_requests", "rx_atomic_requests")
REFUSED = ("duplicate_request", "out_of_seq_request", "send_rnr_err", "out_of_sequence",
           "out_of_buffer", "resp_remote_access_errors", "rx_icrc_encapsulated")  # fmt: skip


class Verbs(Endpoint):
    """See Endpoint: on the device that has an address, IPv4 or IPv6, as RoCEv2 knows it."""

    def __init__(self, address: str, *, receives: int = 256) -> None:
        """`receives` completions of a queue pair may wait. Raises TestbedError."""
        if device is None:
            raise TestbedError("there is no libibverbs (pyverbs) here: run ./setup.sh --rdma")
        self.address, self._receives = address, receives
        name, self._gid_index = _device_with(address)
        self._context = device.Context(name=name)
        self._path_mtu = self._context.query_port(PORT).active_mtu
        self._domains: dict[int, tuple[Any, Any]] = {}  # rkey -> memory region, protection domain
        self._pairs: dict[
            int, tuple[Any, Any, Any]
        ] = {}  # number -> it, its completions, a receive
        self._regions: list[Region] = []  # mapped as long as the device writes there
        self._counted_before = self._counters()

    def register(self, region: Region, access: Access = WRITE_AND_ATOMIC) -> Domain:
        """See Endpoint."""
        try:
            protection = pd.PD(self._context)
            memory = mr.MR(protection, region.length, _flags(access), region.address)
        except pyverbs_error.PyverbsRDMAError as error:
            raise TestbedError(
                f"region {region.path or 'in memory'} cannot be registered: {_why(error)}"
            ) from error
        self._regions.append(region)
        self._domains[memory.rkey] = memory, protection
        return Domain(memory.rkey, region.address, region.length)

    def connect(
        self, domain: Domain, peer: Peer, *, transport: Transport = Transport.RC,
        access: Access = WRITE_AND_ATOMIC,
    ) -> Target:  # fmt: skip
        """See Endpoint. It is ready to receive; nothing is ever sent but answers."""
        memory, protection = self._domains[domain.rkey]
        queue = cq.CQ(self._context, self._receives)
        room = qp.QPCap(max_send_wr=1, max_recv_wr=self._receives)
        kind = enums.IBV_QPT_RC if transport is Transport.RC else enums.IBV_QPT_UC
        settings = qp.QPInitAttr(kind, scq=queue, rcq=queue, cap=room)
        try:
            pair = qp.QP(protection, settings)
            pair.to_rtr(self._attributes(peer, transport, access))
        except pyverbs_error.PyverbsRDMAError as error:
            raise TestbedError(f"queue pair for {peer.address}: {_why(error)}") from error
        # An immediate value takes up a receive; a SEND finds no room in it, and is refused.
        receive = wr.RecvWR(num_sge=1, sg=[wr.SGE(domain.base, 0, memory.lkey)])
        for _ in range(self._receives):
            pair.post_recv(receive)
        self._pairs[pair.qp_num] = pair, queue, receive
        return Target(self.address, pair.qp_num, peer.psn, domain.rkey, domain.base, domain.length,
                      MTU_BYTES[self._path_mtu], transport)  # fmt: skip

    def _attributes(self, peer: Peer, transport: Transport, access: Access) -> Any:
        route = addr.GlobalRoute(addr.GID(_written(gid(peer.address))),
                                 sgid_index=self._gid_index, hop_limit=HOP_LIMIT)  # fmt: skip
        attributes = qp.QPAttr(port_num=PORT)
        attributes.qp_access_flags = _flags(access)
        attributes.ah_attr = addr.AHAttr(gr=route, is_global=1, port_num=PORT)
        attributes.path_mtu = self._path_mtu
        attributes.dest_qp_num, attributes.rq_psn = peer.qpn, peer.psn
        if transport is Transport.RC:
            attributes.max_dest_rd_atomic = MOST_ATOMICS
            attributes.min_rnr_timer = RNR_TIMER
        return attributes

    def disconnect(self, qpn: int) -> None:
        """See Endpoint."""
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
        folder = DEVICES / self._context.name / f"ports/{PORT}/hw_counters"
        return Counter({path.name: int(path.read_text()) for path in folder.iterdir()})

    def close(self) -> None:
        """See Endpoint."""
        for qpn in [*self._pairs]:
            self.disconnect(qpn)
        for memory, protection in self._domains.values():
            memory.close()
            protection.close()
        self._domains.clear()
        self._context.close()


def _device_with(address: str) -> tuple[str, int]:
    """A device, and the index of the address among its GIDs of RoCEv2."""
    for path in sorted(DEVICES.glob(f"*/ports/{PORT}/gids/*")):
        kind = path.parents[1] / "gid_attrs/types" / path.name
        try:
            found = path.read_text().strip() == _written(gid(address)) and kind.read_text().strip()
        except OSError:  # EINVAL: nothing stands at this index
            continue
        if found == "RoCE v2":
            return path.parts[len(DEVICES.parts)], int(path.name)
    raise TestbedError(f"no RDMA device has the address {address}: see `rdma link`, `ip address`")


def _written(packed: bytes) -> str:
    """A GID as verbs write it: all eight groups."""
    return ":".join(packed[at : at + 2].hex() for at in range(0, 16, 2))


def _flags(access: Access) -> int:
    flags = enums.IBV_ACCESS_LOCAL_WRITE
    if access & Access.WRITE:
        flags |= enums.IBV_ACCESS_REMOTE_WRITE
    if access & Access.ATOMIC:
        flags |= enums.IBV_ACCESS_REMOTE_ATOMIC
    return int(flags)


def _why(error: Any) -> str:
    code = error.error_code
    if code in (errno.ETIMEDOUT, errno.ENETUNREACH):
        return "no route, or no MAC address, leads there"
    return os.strerror(code) if code > 0 else " ".join(str(error).split())
