"""The virtual machine's network card, called in it: its addresses, and the kernel's rxe on it."""

import subprocess
from collections.abc import Mapping, Sequence

INTERFACE = "eth0"
DEVICE = "rxe0"  # as libibverbs names it
# As far as an address is concerned: IPv6 says nothing unasked but which multicast groups it is in.
IPV6 = (
    f"echo 1 > /proc/sys/net/ipv6/conf/{INTERFACE}/addr_gen_mode",
    f"echo 0 > /proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6",
)


def configure(addresses: Sequence[str], neighbours: Mapping[str, str]) -> None:
    """Give the card its addresses, "10.0.0.3/8" or of IPv6, and an rxe.

    It learns what MAC addresses others have (address -> MAC). Neighbours outside of the subnet get
    a route, as hosts of a network do.
    """
    lines = ["ip link set dev lo up"]
    if any(":" in address for address in addresses):
        lines += IPV6
    for address in addresses:
        nodad = " nodad" if ":" in address else ""
        lines.append(f"ip address add {address} dev {INTERFACE}{nodad}")
    lines += [
        f"ip link set dev {INTERFACE} up",
        f"rdma link add {DEVICE} type rxe netdev {INTERFACE}",
    ]
    for other, mac in neighbours.items():
        whole = 128 if ":" in other else 32
        lines.append(f"ip route replace {other}/{whole} dev {INTERFACE}")
        lines.append(f"ip neigh replace {other} lladdr {mac} dev {INTERFACE}")
    subprocess.run(["sh", "-e"], input="\n".join(lines), text=True, check=True)
