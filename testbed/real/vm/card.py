"""The virtual machine's network card, called in it: its address, and the kernel's rxe on it."""

import subprocess
from collections.abc import Mapping

INTERFACE = "eth0"
DEVICE = "rxe0"  # as libibverbs names it


def settle(address: str, prefix_length: int, neighbours: Mapping[str, str]) -> None:
    """Give the card its IPv4 address and what addresses others have (IPv4 -> MAC), and an rxe.

    Neighbours outside of the subnet get a route, as hosts of a network do.
    """
    lines = [
        "ip link set dev lo up",
        f"ip address add {address}/{prefix_length} dev {INTERFACE}",
        f"ip link set dev {INTERFACE} up",
        f"rdma link add {DEVICE} type rxe netdev {INTERFACE}",
    ]
    for other, mac in neighbours.items():
        lines.append(f"ip route replace {other}/32 dev {INTERFACE} scope link")
        lines.append(f"ip neigh replace {other} lladdr {mac} dev {INTERFACE}")
    subprocess.run(["sh", "-e"], input="\n".join(lines), text=True, check=True)
