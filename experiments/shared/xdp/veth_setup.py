"""Network namespace of a candidate, with devices for packet arrivals.

Each candidate has its own namespace, because some candidates have lasting effects. An iptables
table, once used, processes each packet until its namespace is deleted. Conntrack also processes
each packet until then.
"""

import ctypes
import os
import subprocess
from contextlib import AbstractContextManager

from ebpf.loader.links import OWN, enter_namespace
from experiments.shared.xdp.frames import ADDRESS, DEVICE_MAC
from telemark.backends.real.isolation import CLONE_NEWNET, DISABLE_IPV6
from telemark.errors import TestbedError

DEVICE, PEER = "arrives", "peer"  # ends of the first veth pair
OUT, SINK = "leaves", "sink"  # ends of the second veth pair


class VethPair:
    """Namespace with two veth pairs; live frames arrive at `arrives`; close() deletes it."""

    def __init__(self) -> None:
        """Create the namespace. Raises TestbedError."""
        here = os.open(OWN, os.O_RDONLY)
        try:
            with enter_namespace(here):  # this block returns to the original namespace at its end
                _unshare()
                self._namespace = os.open(OWN, os.O_RDONLY)
                self._make()
        finally:
            os.close(here)

    def close(self) -> None:
        """Delete the namespace and its devices."""
        os.close(self._namespace)

    def entered(self) -> AbstractContextManager[None]:
        """Enter the namespace with this thread and all threads started in the `with` block."""
        return enter_namespace(self._namespace)

    def run(self, command: str) -> str:
        """Run a shell command in the namespace; return its output. Raises TestbedError."""
        with self.entered():
            done = subprocess.run(["sh", "-ec", command], capture_output=True, text=True,
                                  check=False)  # fmt: skip
        if done.returncode:
            raise TestbedError(f"{command.splitlines()[-1]}: {done.stderr.strip()}")
        return done.stdout

    def _make(self) -> None:
        mac = DEVICE_MAC.hex(":")
        script = f"""{DISABLE_IPV6}
            ip link set lo up
            ip link add {DEVICE} address {mac} type veth peer {PEER}
            ip address add {ADDRESS}/8 dev {DEVICE}
            ip link add {OUT} type veth peer {SINK}
            for device in {DEVICE} {PEER} {OUT} {SINK}; do ip link set $device up; done
            for scope in all {DEVICE}; do echo 0 > /proc/sys/net/ipv4/conf/$scope/rp_filter; done"""
        done = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, check=False)
        if done.returncode:
            raise TestbedError(f"cannot create veth pairs: {done.stderr.strip()}")


def _unshare() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise TestbedError(f"cannot create network namespaces ({os.strerror(ctypes.get_errno())})")
