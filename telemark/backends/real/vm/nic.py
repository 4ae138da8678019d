"""Configuration of the NIC inside the virtual machine: addresses, and an rxe device."""

import subprocess
from collections.abc import Mapping, Sequence

INTERFACE = "eth0"
DEVICE = "rxe0"  # name of the device in libibverbs
# Enables IPv6 without autoconfiguration. The kernel still sends reports about multicast listeners.
IPV6 = (
    f"echo 1 > /proc/sys/net/ipv6/conf/{INTERFACE}/addr_gen_mode",
    f"echo 0 > /proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6",
)


def configure(addresses: Sequence[str], neighbours: Mapping[str, str]) -> None:
    """Configure the addresses of the NIC, and create an rxe device.

    Addresses are IPv4 or IPv6 with a prefix length, e.g. "10.0.0.3/8".

    Also adds static neighbours and the routes to them. `neighbours` maps addresses to MAC
    addresses.
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
        prefix_length = 128 if ":" in other else 32
        lines.append(f"ip route replace {other}/{prefix_length} dev {INTERFACE}")
        lines.append(f"ip neigh replace {other} lladdr {mac} dev {INTERFACE}")
    subprocess.run(["sh", "-e"], input="\n".join(lines), text=True, check=True)
