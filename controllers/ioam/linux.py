"""Linux routers as IOAM transit nodes.

Linux fills pre-allocated trace options since version 5.15. It does not know incremental trace
options, edge-to-edge options and direct export, and forwards them unchanged.
"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from controllers.ioam.domain import Namespace, Route
from telemark.errors import TestbedError

SYSCTL = Path("/proc/sys/net/ipv6/conf/default/ioam6_enabled")


@dataclass(frozen=True)
class LinuxRouter:
    """Configuration of a Linux router in a network namespace.

    `interfaces` are the devices and their IOAM interface ids. `routes` are routes to single
    addresses: `neighbour` of a route is a device, and `mac` is the MAC address of the next hop.
    `schema` is the opaque state snapshot: its id (24 bits) and its data (a multiple of four bytes).
    `enter` is a command prefix that enters the network namespace.
    """

    node: int
    node_wide: int
    interfaces: Mapping[str, int]
    routes: Sequence[Route]
    namespaces: Sequence[Namespace] = ()
    schema: tuple[int, str] | None = None
    enter: Sequence[str] = ()

    def configure(self) -> None:
        """Make the router forward IPv6 packets and fill trace options. Raises TestbedError."""
        problem = missing()
        if problem:
            raise TestbedError(f"Linux router: {problem}")
        done = subprocess.run(
            [*self.enter, "sh", "-e"], input="\n".join(self._commands()), text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise TestbedError(f"Linux router: cannot be configured: {done.stderr.strip()}")

    def _commands(self) -> list[str]:
        path = "/proc/sys/net/ipv6"
        commands = []
        for device in self.interfaces:
            commands += [
                # without an address of its own, an interface sends no router solicitations
                f"echo 1 > {path}/conf/{device}/addr_gen_mode",
                # without multicast, it joins no groups, and sends no reports about them (MLD)
                f"ip link set dev {device} multicast off",
            ]
        commands += [
            f"echo 0 > {path}/conf/all/disable_ipv6",
            f"echo 1 > {path}/conf/all/forwarding",
            f"echo {self.node} > {path}/ioam6_id",
            f"echo {self.node_wide} > {path}/ioam6_id_wide",
        ]
        for device, number in self.interfaces.items():
            settings = {"disable_ipv6": 0, "ioam6_enabled": 1,
                        "ioam6_id": number, "ioam6_id_wide": number}  # fmt: skip
            commands += [f"echo {value} > {path}/conf/{device}/{name}"
                         for name, value in settings.items()]  # fmt: skip
        for each in self.namespaces:
            commands.append(f"ip ioam namespace add {each.number} data {each.data:#x} "
                            f"wide {each.data_wide:#x}")  # fmt: skip
        if self.schema is not None:
            number, data = self.schema
            commands.append(f"ip ioam schema add {number} '{data}'")
            commands += [f"ip ioam namespace set {each.number} schema {number}"
                         for each in self.namespaces]  # fmt: skip
        for route in self.routes:
            address, device = route.prefix.partition("/")[0], route.neighbour
            commands += [
                f"ip -6 neigh replace {address} lladdr {route.mac} dev {device} nud permanent",
                f"ip -6 route replace {route.prefix} dev {device}",
            ]
        return commands


def missing() -> str:
    """Return why this machine cannot run IOAM transit nodes, or an empty string."""
    if not SYSCTL.exists():
        return "this kernel has no IOAM (CONFIG_IPV6, Linux 5.15 or newer)"
    if shutil.which("ip") is None:
        return "`ip` is missing; install iproute2"
    done = subprocess.run(["ip", "ioam", "namespace", "show"], capture_output=True, text=True,
                          check=False)  # fmt: skip
    if done.returncode:
        return f"`ip ioam` does not work ({done.stderr.strip()}); install iproute2 5.15 or newer"
    return ""
