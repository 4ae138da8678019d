"""Programs at tc ingress and tc egress of a device, which may be in any network namespace."""

import os
import socket
from contextlib import ExitStack

from ebpf.loader import Program, attach_tc
from ebpf.loader.links import OWN, enter_namespace


class Ends:
    """Programs for both directions of a device.

    The programs run until close(), or until this process ends.

    `namespace` is the network namespace of the device, as `/proc/PID/ns/net`. None means the
    namespace of this thread. Raises LoadError. Raises OSError if the namespace does not exist.
    """

    def __init__(
        self, outgoing: Program, incoming: Program, device: str, namespace: str | None, order: int
    ) -> None:
        self._namespace = os.open(namespace or OWN, os.O_RDONLY)
        with ExitStack() as opening:
            opening.callback(os.close, self._namespace)
            with ExitStack() as attaching, enter_namespace(self._namespace):
                for program, point in ((outgoing, "egress"), (incoming, "ingress")):
                    attaching.enter_context(attach_tc(program, device, point, order=order))
                self._links = attaching.pop_all()
            opening.callback(self.detach)
            self._open = opening.pop_all()

    def udp(self) -> socket.socket:
        """Return a UDP socket that is in the namespace of the device."""
        with enter_namespace(self._namespace):
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def detach(self) -> None:
        """Detach the programs.

        The calling thread enters the namespace of the device, because before Linux 6.6, tc needs
        the device's name there.
        """
        with enter_namespace(self._namespace):
            self._links.close()

    def close(self) -> None:
        """Detach the programs and close the namespace."""
        self._open.close()
