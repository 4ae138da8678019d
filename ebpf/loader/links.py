"""Attaches programs to devices, in order. They stay until close(), or until this process ends."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from ebpf.loader.errors import LoadError, explain_errno
from ebpf.loader.hooks import LAST_ORDER, MODES, TCX_HOOKS, Clsact, Hook, Place, Tcx, Xdp
from ebpf.loader.objects import TC, XDP, Program
from telemark.backends.real.isolation import CLONE_NEWNET

OWN = "/proc/thread-self/ns/net"
# map from (network namespace, device, hook) to the hook that is in use
_hooks: dict[tuple[int, int, str], Hook] = {}


@contextmanager
def enter_namespace(namespace: int) -> Iterator[None]:
    """Enter a network namespace in this thread.

    The namespace is given by a file descriptor. Raises LoadError.
    """
    before = os.open(OWN, os.O_RDONLY)
    try:
        _enter(namespace)
        try:
            yield
        finally:
            _enter(before)
    finally:
        os.close(before)


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
        why = os.strerror(ctypes.get_errno())
        raise LoadError(f"cannot enter a network namespace ({why}); run as root")


class Link:
    """A program that is attached to a device."""

    def __init__(self, key: tuple[int, int, str], place: Place) -> None:
        self._key, self._place = key, place
        self._is_open = True

    @property
    def program(self) -> Program:
        """The attached program."""
        return self._place.program

    def replace(self, program: Program) -> None:
        """Replace the program.

        Each packet is processed by one program, either the old or the new one.

        Raises LoadError.
        """
        _check_kind(program, self.program.kind)
        _hooks[self._key].replace(self._place, program)

    def close(self) -> None:
        """Detach the program from the device."""
        if self._is_open:
            self._is_open = False
            hook = _hooks[self._key]
            hook.remove(self._place)
            if not hook.places:
                del _hooks[self._key]

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def attach_xdp(program: Program, device: str, *, mode: str = "native", order: int = 0) -> Link:
    """Attach to XDP of a device in this network namespace. `mode` is "native" or "generic".

    If there are several programs, they run in ascending `order`. Packets that a program passes
    (XDP_PASS) go to the next program. Raises LoadError.
    """
    _check_kind(program, XDP)
    if mode not in MODES:
        raise LoadError(f"mode {mode}: expected {' or '.join(MODES)}")
    key = _key(device, "xdp")
    hook = _hooks.get(key) or Xdp(device, key[1], mode)
    if isinstance(hook, Xdp) and hook.mode != mode:
        raise LoadError(f"interface {device} already has XDP programs in mode {hook.mode}")
    return _attach(key, hook, program, order)


def attach_tc(program: Program, device: str, point: str = "ingress", *, order: int = 0) -> Link:
    """Attach to tc of a device in this network namespace. `point` is "ingress" or "egress".

    If there are several programs, they run in ascending `order`. Packets with the verdict
    TC_ACT_UNSPEC go to the next program. Before Linux 6.6, if this process is killed, the program
    stays attached until the device is deleted. Raises LoadError.
    """
    _check_kind(program, TC)
    if point not in TCX_HOOKS:
        raise LoadError(f"point {point}: expected {' or '.join(TCX_HOOKS)}")
    key = _key(device, point)
    hook = _hooks.get(key) or Tcx(device, key[1], point)
    try:
        return _attach(key, hook, program, order)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise LoadError(f"interface {device}: tc: {explain_errno(error.errno or 0)}") from None
        return _attach(key, Clsact(device, key[1], point), program, order)


def _attach(key: tuple[int, int, str], hook: Hook, program: Program, order: int) -> Link:
    if not 0 <= order <= LAST_ORDER:
        raise LoadError(f"order {order}: expected 0 to {LAST_ORDER}")
    place = Place(program, order)
    hook.add(place)
    _hooks[key] = hook
    return Link(key, place)


def _key(device: str, point: str) -> tuple[int, int, str]:
    try:
        index = socket.if_nametoindex(device)
    except OSError:
        raise LoadError(f"no interface {device} in this network namespace") from None
    return os.stat("/proc/thread-self/ns/net").st_ino, index, point


def _check_kind(program: Program, kind: int) -> None:
    if program.kind != kind:
        expected = 'SEC("xdp")' if kind == XDP else 'SEC("tc")'
        raise LoadError(f"program {program.name} cannot be attached there: expected {expected}")
