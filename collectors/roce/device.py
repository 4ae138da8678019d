"""RDMA device of the kernel, through libibverbs: an RDMA NIC, or rdma_rxe.

The packages for it are installed by `./setup.sh --rdma`.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from collectors.roce.endpoint import Access, Peer, Transport, gid
from telemark.errors import TestbedError

try:
    from pyverbs import addr, device, enums, pyverbs_error, qp
except ImportError:  # Device() reports the missing library
    device = None

PORT = 1
# number of stored responses, which are sent again if a request is repeated (max_dest_rd_atomic)
MOST_ATOMICS = 16
HOP_LIMIT = 64
RNR_TIMER = 14  # code for 1 ms (IBTA 9.7.5.2.8, table 45)
MTU_BYTES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}  # enum ibv_mtu

DEVICES = Path("/sys/class/infiniband")


class Device:
    """RDMA device with an IPv4 or IPv6 address, for RoCEv2."""

    def __init__(self, address: str) -> None:
        """Raises TestbedError if no device has the address or libibverbs is missing."""
        if device is None:
            raise TestbedError("libibverbs (pyverbs) is not installed: run ./setup.sh --rdma")
        self.name, self._gid_index = _find_device(address)
        self.context = device.Context(name=self.name)
        self._path_mtu = self.context.query_port(PORT).active_mtu

    @property
    def path_mtu(self) -> int:
        """Maximum payload of a packet in bytes."""
        return MTU_BYTES[self._path_mtu]

    @staticmethod
    def kind(transport: Transport) -> int:
        """Return the queue pair type of a transport."""
        return int(enums.IBV_QPT_RC if transport is Transport.RC else enums.IBV_QPT_UC)

    def attributes(self, peer: Peer, transport: Transport, access: Access) -> Any:
        """Return the attributes for a queue pair that is ready to receive from a peer."""
        route = addr.GlobalRoute(addr.GID(_format_gid(gid(peer.address))),
                                 sgid_index=self._gid_index, hop_limit=HOP_LIMIT)  # fmt: skip
        attributes = qp.QPAttr(port_num=PORT)
        attributes.qp_access_flags = flags(access)
        attributes.ah_attr = addr.AHAttr(gr=route, is_global=1, port_num=PORT)
        attributes.path_mtu = self._path_mtu
        attributes.dest_qp_num, attributes.rq_psn = peer.qpn, peer.psn
        if transport is Transport.RC:
            attributes.max_dest_rd_atomic = MOST_ATOMICS
            attributes.min_rnr_timer = RNR_TIMER
        return attributes


def _find_device(address: str) -> tuple[str, int]:
    """Return the device with the address.

    Also returns the index of the address in the list of RoCEv2 GIDs.
    """
    for path in sorted(DEVICES.glob(f"*/ports/{PORT}/gids/*")):
        kind = path.parents[1] / "gid_attrs/types" / path.name
        try:
            found = (
                path.read_text().strip() == _format_gid(gid(address)) and kind.read_text().strip()
            )
        except OSError:  # EINVAL: no GID has this index
            continue
        if found == "RoCE v2":
            return path.parts[len(DEVICES.parts)], int(path.name)
    raise TestbedError(f"no RDMA device has the address {address}: see `rdma link`, `ip address`")


def _format_gid(packed: bytes) -> str:
    """Format a GID like verbs do: with all eight groups."""
    return ":".join(packed[at : at + 2].hex() for at in range(0, 16, 2))


def flags(access: Access) -> int:
    """Convert access rights to flags of verbs."""
    flags = enums.IBV_ACCESS_LOCAL_WRITE
    if access & Access.WRITE:
        flags |= enums.IBV_ACCESS_REMOTE_WRITE
    if access & Access.ATOMIC:
        flags |= enums.IBV_ACCESS_REMOTE_ATOMIC
    return int(flags)


def call_verbs(what: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of verbs.

    On failure, raise TestbedError, whose message starts with `what`.
    """
    try:
        return call(*arguments)
    except pyverbs_error.PyverbsRDMAError as error:
        code = error.error_code
        if code in (errno.ETIMEDOUT, errno.ENETUNREACH):
            why = "no route or no MAC address for the peer"
        else:
            why = os.strerror(code) if code > 0 else " ".join(str(error).split())
        raise TestbedError(f"{what}: {why}") from error
