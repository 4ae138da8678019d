"""State changes of the interfaces of a switch: up, down, deleted, recreated."""

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

RTMGRP_LINK = 1  # message group for interfaces, see rtnetlink(7)
SIOCGIFFLAGS = 0x8913  # netdevice(7)
IFF_UP = 0x1
REQUEST = "16sH14x"  # struct ifreq with name and flags
# This ioctl immediately reports whether the peer interface is up. IFF_RUNNING changes up to a
# second later (linkwatch).
SIOCETHTOOL, ETHTOOL_GLINK, ETHTOOL_GTXCSUM = 0x8946, 0xA, 0x16
SIOCGIFMTU = 0x8921
REQUEST_MTU = "16si20x"  # struct ifreq with name and MTU
REQUEST_DATA = "16sP8x"  # struct ifreq with name and a pointer
MESSAGES_SIZE = 65536


@dataclass(frozen=True, slots=True)
class _Interface:
    index: int  # 0 if no interface has this name
    is_up: bool  # true if the interface and its peer are up
    train_mtu: int | None  # bytes; 0 if the interface has checksum offload; None: not read yet


class Interfaces:
    """Monitors the interfaces of {port: name}, from start() to stop().

    Calls `changed(port, is_up)` if an interface went up or down, `replaced(port)` if a new
    interface has the same name, and `set_train_mtu(port, mtu_bytes)` if its MTU or its checksum
    offload has changed (minip4.ports.driver). Kernel messages only trigger a check, so lost
    messages do no harm.
    """

    def __init__(
        self,
        ports: Mapping[int, str],
        changed: Callable[[int, bool], None],
        replaced: Callable[[int], None],
        set_train_mtu: Callable[[int, int], None],
    ) -> None:
        self._ports = ports
        self._changed = changed
        self._replaced = replaced
        self._set_train_mtu = set_train_mtu
        self._messages = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._messages.bind((0, RTMGRP_LINK))
        self._messages.setblocking(False)
        self._asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # initial state, as assumed by the driver: attached and up
        self._known = {p: _Interface(_index(name), True, None) for p, name in ports.items()}

    def start(self) -> None:
        """Start on the running event loop."""
        asyncio.get_running_loop().add_reader(self._messages, self._look)
        self._look()

    def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self._messages)
        self._messages.close()
        self._asking.close()

    @property
    def down(self) -> list[int]:
        """Return the ports whose interface is down or missing."""
        return [port for port, known in self._known.items() if not known.is_up]

    def _look(self) -> None:
        with contextlib.suppress(OSError):  # the socket has no more messages, or messages were lost
            while self._messages.recv(MESSAGES_SIZE):
                pass
        for port, name in self._ports.items():
            known, now = self._known[port], self._interface(name)
            # The socket stays bound to a deleted interface; a new one has another index.
            index = now.index or known.index
            self._known[port] = _Interface(index, now.is_up, now.train_mtu)
            if index != known.index:
                self._replaced(port)
            if now.is_up != known.is_up:
                self._changed(port, now.is_up)
            # A new interface has checksum offload until the driver turns it off. This change causes
            # another message, so the last value is right.
            if now.train_mtu is not None and now.train_mtu != known.train_mtu:
                self._set_train_mtu(port, now.train_mtu)

    def _interface(self, name: str) -> _Interface:
        request = struct.pack(REQUEST, name.encode(), 0)
        try:
            answer = fcntl.ioctl(self._asking, SIOCGIFFLAGS, request)
        except OSError:  # no such interface
            return _Interface(0, False, None)
        is_up = struct.unpack(REQUEST, answer)[1] & IFF_UP != 0 and self._has_carrier(name)
        return _Interface(_index(name), is_up, self._train_mtu(name))

    def _has_carrier(self, name: str) -> bool:
        try:
            return bool(self._ethtool(name, ETHTOOL_GLINK))
        # Either the interface was deleted, or it does not report its state and counts as up.
        except OSError as error:
            return error.errno == errno.EOPNOTSUPP

    def _train_mtu(self, name: str) -> int | None:
        try:
            if self._ethtool(name, ETHTOOL_GTXCSUM):
                return 0
            request = struct.pack(REQUEST_MTU, name.encode(), 0)
            answer = fcntl.ioctl(self._asking, SIOCGIFMTU, request)
            return int(struct.unpack(REQUEST_MTU, answer)[1])
        except OSError:  # the interface was deleted, or has no such settings
            return None

    def _ethtool(self, name: str, command: int) -> int:
        """Return a value of the interface, see <linux/ethtool.h>. Raises OSError."""
        value = (ctypes.c_uint32 * 2)(command)  # struct ethtool_value
        request = struct.pack(REQUEST_DATA, name.encode(), ctypes.addressof(value))
        fcntl.ioctl(self._asking, SIOCETHTOOL, request)
        return value[1]


def _index(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0
