"""Software endpoint at a network interface, in real time.

The kernel's IP stack stays active on the interface.
"""

import atexit
import ctypes
import errno
import os
import select
import socket
import struct
import threading

from collectors.roce.native import library
from collectors.roce.packets import PORT
from collectors.roce.softnic import SoftNic
from telemark.errors import TestbedError

SO_ATTACH_FILTER = 26  # asm-generic/socket.h
# The program returns 0 (BPF_RET | BPF_K), so no packet is accepted.
_DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)


class RawSocketNic:
    """Passes the frames of `interface` to `nic` in a native thread. Needs root."""

    def __init__(self, nic: SoftNic, interface: str) -> None:
        """Raises TestbedError if the interface does not exist, or if access is denied."""
        self.nic = nic
        self._library = library()
        self._quiet = _bind_silent_socket(nic.address)
        self._stop, self._wake = (os.eventfd(0, os.EFD_CLOEXEC) for _ in range(2))
        self._handle = self._library.roce_socket_open(nic.handle, interface.encode())
        if not self._handle:
            number = ctypes.get_errno()
            self._close_files()
            raise TestbedError(f"interface {interface}: {os.strerror(number)}")
        self._bypass = self._open_bypass(interface)
        self._error = 0
        self._drops = 0
        # The thread uses the memory of `nic`. If close() is never called, a finalizer stops the
        # thread. When the interpreter exits, finalizers run in reverse order. So this finalizer
        # runs before the finalizer of `nic`.
        self._thread = threading.Thread(target=self._run, name=f"roce {interface}", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def bypasses_ip(self) -> bool:
        """True if RoCE frames bypass the IP stack of the kernel.

        Without the bypass, the IP stack needs more CPU time than the responder.
        """
        return self._bypass >= 0

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for completions or management frames. Return whether some have arrived.

        Raises TestbedError if the interface no longer exists.
        """
        ready = not self._error and bool(select.select([self._wake], [], [], timeout_s)[0])
        if ready:
            os.eventfd_read(self._wake)
        if self._error:
            raise TestbedError(f"RoCE responder: {os.strerror(self._error)}")
        return ready

    def send(self, frame: bytes) -> None:
        """Send a frame, e.g. a response of connection management. Raises OSError."""
        if number := self._library.roce_socket_send(self._handle, frame, len(frame)):
            raise OSError(number, os.strerror(number))

    def drops(self) -> int:
        """Return how many frames were dropped because the ring was full."""
        self._drops += self._library.roce_socket_drops(self._handle)
        return self._drops

    def close(self) -> None:
        """Stop the thread. Regions keep their content."""
        atexit.unregister(self.close)
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        self._library.roce_socket_close(self._handle)
        if self.bypasses_ip:
            os.close(self._bypass)
        self._close_files()

    def _open_bypass(self, interface: str) -> int:
        """Return the file descriptor of a new bypass, or -1.

        The result is -1 if the kernel is older than 6.6, or if BPF is not permitted.
        """
        bypass: int = self._library.roce_bypass_open(interface.encode(), self.nic.gid)
        number = ctypes.get_errno()
        if bypass < 0 and number not in (errno.EINVAL, errno.EPERM, errno.ENOSYS):
            self._library.roce_socket_close(self._handle)
            self._close_files()
            raise TestbedError(f"interface {interface}: BPF program: {os.strerror(number)}")
        return bypass

    def _run(self) -> None:
        self._error = self._library.roce_socket_run(self._handle, self._stop, self._wake)
        os.eventfd_write(self._wake, 1)

    def _close_files(self) -> None:
        self._quiet.close()
        for descriptor in (self._stop, self._wake):
            os.close(descriptor)


def _bind_silent_socket(address: str) -> socket.socket:
    """Open a socket at the RoCE port that receives nothing.

    The socket stops the kernel from answering RoCE packets with ICMP "port unreachable".
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kernel = socket.socket(family, socket.SOCK_DGRAM)
    program = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
    kernel.setsockopt(
        socket.SOL_SOCKET, SO_ATTACH_FILTER,
        struct.pack("HL", 1, ctypes.addressof(program)),
    )  # fmt: skip
    try:
        kernel.bind((address, PORT))
    except OSError as error:
        kernel.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise TestbedError(f"no interface of this machine has the address {address}") from None
        raise TestbedError(f"UDP port {PORT} at {address}: {error.strerror}") from None
    return kernel
