"""Programs at tc ingress and egress of a device in any network namespace."""

import os
import socket
from contextlib import ExitStack

from ebpf.loader import Program, attach_tc
from ebpf.loader.namespace import OWN, entered


class Ends:
    """What leaves by a device and what arrives there pass these programs, until close() or until
    this process ends. `namespace`: the device's, as `/proc/PID/ns/net`; None: this thread's.

    Raises LoadError, OSError where there is no such namespace.
    """

    def __init__(
        self, exit_stack: Program, arriving: Program, device: str, namespace: str | None, order: int
    ) -> None:
        self._namespace = os.open(namespace or OWN, os.O_RDONLY)
        with ExitStack() as opening:
            opening.callback(os.close, self._namespace)
            with ExitStack() as attaching, entered(self._namespace):
                for program, point in ((exit_stack, "egress"), (arriving, "ingress")):
                    attaching.enter_context(attach_tc(program, device, point, order=order))
                self._links = attaching.pop_all()
            opening.callback(self.detach)
            self._open = opening.pop_all()

    def udp(self) -> socket.socket:
        """A UDP socket of the device's namespace."""
        with entered(self._namespace):
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def detach(self) -> None:
        """Take the programs off; there, since before Linux 6.6 tc needs the device's name."""
        with entered(self._namespace):
            self._links.close()

    def close(self) -> None:
        """Take the programs off, and let go of the namespace."""
        self._open.close()
