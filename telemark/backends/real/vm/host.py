"""Virtual machine that replaces a host of a network. It has the host's addresses, and RDMA."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from telemark.backends.real.vm import nic
from telemark.backends.real.vm.machine import Machine, Socket
from telemark.errors import TestbedError


@contextlib.contextmanager
def machine_at(
    host: Any, folder: Path, neighbours: Mapping[str, str], more_addresses: Sequence[str] = ()
) -> Iterator[Machine]:
    """Start a virtual machine that takes over the interface of a host, net.host(...).

    The virtual machine has the host's address, `more_addresses` (e.g. "fd00::2/64"), and static
    `neighbours` (map from IP to MAC address). While the virtual machine runs, the host has no IP
    stack, so flows and pings do not reach the host. Raises TestbedError in virtual time, or if the
    virtual machine cannot start.
    """
    if not hasattr(host, "enter"):
        raise TestbedError(f"host {host.name}: a virtual machine needs --time real")
    interface = host.defaultIntf()
    socket = Socket(str(interface), host.MAC(), host.enter())
    with Machine(folder, socket) as machine:
        addresses = [f"{host.IP()}/{interface.prefixLen}", *more_addresses]
        machine.call(nic.configure, addresses, dict(neighbours))
        yield machine
