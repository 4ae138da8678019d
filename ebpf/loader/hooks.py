"""Hooks of a device, at which programs are attached: XDP, tc ingress and tc egress.

Each hook has an ordered list of programs. BPF links attach the programs. A link ends when the
process ends. Only clsact (kernels before 6.6) has no links.
"""

from __future__ import annotations

import ctypes
import errno
import os
from dataclasses import dataclass
from typing import NoReturn, Protocol

from ebpf.loader import chain
from ebpf.loader.errors import LoadError, explain_errno
from ebpf.loader.kernel import create_link, update_link, wait_for_packets
from ebpf.loader.libbpf import TcHook, TcOptions, library
from ebpf.loader.objects import Program

XDP_HOOK = 37  # enum bpf_attach_type
TCX_HOOKS = {"ingress": 46, "egress": 47}
MODES = {"native": 4, "generic": 2}  # XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE
BEFORE_LINK = 1 << 3 | 1 << 13  # BPF_F_BEFORE, BPF_F_LINK
CLSACT_POINTS = {"ingress": 1, "egress": 2}  # enum bpf_tc_attach_point
CLSACT_REPLACE = 1  # BPF_TC_F_REPLACE
# maximum number of programs with the same order; in clsact, they need different priorities
EQUAL_ORDERS = 64
LAST_ORDER = 1022  # priorities of clsact have 16 bits and start at 1


@dataclass(eq=False)
class Place:
    """A program that is attached to a hook.

    A program with a smaller `order` runs earlier.
    """

    program: Program
    order: int
    link: int = -1  # file descriptor of the link; in clsact, handle of the filter
    priority: int = 0  # used for clsact only


class Hook(Protocol):
    """A hook of a device, and its programs."""

    places: list[Place]

    def add(self, place: Place) -> None:
        """Add a program. Raises LoadError."""

    def replace(self, place: Place, program: Program) -> None:
        """Replace a program.

        Each packet is processed by one program, either the old or the new one.

        Raises LoadError.
        """

    def remove(self, place: Place) -> None:
        """Remove a program."""


class Xdp:
    """XDP of a device.

    The kernel runs the first program. Each program passes packets to the next program.
    """

    def __init__(self, device: str, index: int, mode: str) -> None:
        self.places: list[Place] = []
        self.mode = mode
        self._device, self._index = device, index
        self._link = -1

    def add(self, place: Place) -> None:
        """See Hook."""
        at = sum(each.order <= place.order for each in self.places)
        self._enter(at, place.program, self._program(at))
        self.places.insert(at, place)

    def replace(self, place: Place, program: Program) -> None:
        """See Hook."""
        at = self.places.index(place)
        self._enter(at, program, self._program(at + 1))
        before, place.program = place.program, program
        self._leave(before)

    def remove(self, place: Place) -> None:
        """See Hook."""
        at = self.places.index(place)
        self._lead(at, self._program(at + 1))
        self.places.remove(place)
        self._leave(place.program)

    def _program(self, at: int) -> Program | None:
        return self.places[at].program if at < len(self.places) else None

    def _enter(self, at: int, program: Program, following: Program | None) -> None:
        """Insert a program in front of the programs that run after it. Raises LoadError."""
        chain.enter(program, following)
        try:
            self._lead(at, program)
        except BaseException:
            chain.leave(program)
            raise

    def _leave(self, program: Program) -> None:
        """Release a program that gets no more packets.

        The program still completes the packets that it is processing.
        """
        wait_for_packets()
        chain.leave(program)

    def _lead(self, at: int, program: Program | None) -> None:
        """Make `program` the program at the index `at`. It takes effect between two packets.

        Raises LoadError.
        """
        if at:
            chain.set_next(self.places[at - 1].program, program)
        elif program is None:
            os.close(self._link)
        else:
            try:
                if self._link < 0:
                    self._link = create_link(program.fd, self._index, XDP_HOOK, MODES[self.mode])
                else:
                    update_link(self._link, program.fd)
            except OSError as error:
                raise LoadError(f"interface {self._device}: {self._why(error)}") from None

    def _why(self, error: OSError) -> str:
        number = error.errno or 0
        if number in (errno.EBUSY, errno.EEXIST):
            return "it has an XDP program of another process or in the other mode"
        if number == errno.EOPNOTSUPP:
            return f'its driver does not support {self.mode} XDP; attach with mode="generic"'
        if number == errno.ERANGE:
            return "its peer's MTU is too large for XDP"
        if number == errno.ENOSPC:
            return "it has fewer receive queues than its peer has transmit queues"
        return explain_errno(number)


class Tcx:
    """tc of a device with tcx (since Linux 6.6). The kernel keeps the programs in order."""

    def __init__(self, device: str, index: int, point: str) -> None:
        self.places: list[Place] = []
        self._device, self._index, self._hook = device, index, TCX_HOOKS[point]

    def add(self, place: Place) -> None:
        """See Hook. Raises OSError (EINVAL) if the kernel has no tcx."""
        after = next((each for each in self.places if each.order > place.order), None)
        beside = (BEFORE_LINK, after.link) if after else (0, 0)
        place.link = create_link(place.program.fd, self._index, self._hook, *beside)
        at = self.places.index(after) if after else len(self.places)
        self.places.insert(at, place)

    def replace(self, place: Place, program: Program) -> None:
        """See Hook."""
        try:
            update_link(place.link, program.fd)
        except OSError as error:
            raise LoadError(
                f"interface {self._device}: {explain_errno(error.errno or 0)}"
            ) from None
        place.program = program

    def remove(self, place: Place) -> None:
        """See Hook."""
        self.places.remove(place)
        os.close(place.link)


class Clsact:
    """tc of a device by filters of the clsact qdisc. It works on any kernel.

    If this process ends without remove(), the filters stay attached.
    """

    def __init__(self, device: str, index: int, point: str) -> None:
        self.places: list[Place] = []
        self._device = device
        self._hook = TcHook(device=index, point=CLSACT_POINTS[point])
        both = TcHook(device=index, point=sum(CLSACT_POINTS.values()))
        status = library().bpf_tc_hook_create(ctypes.byref(both))
        if status not in (0, -errno.EEXIST):
            self._fail(-status)

    def add(self, place: Place) -> None:
        """See Hook.

        All filters have different priorities. With equal priorities, the kernel would run the
        newest filter first.
        """
        first = 1 + place.order * EQUAL_ORDERS
        equal = [each.priority for each in self.places if each.order == place.order]
        place.priority = max(equal, default=first - 1) + 1
        if place.priority == first + EQUAL_ORDERS:
            raise LoadError(
                f"interface {self._device}: tc: no free priority for order {place.order}; use "
                f"another order"
            )
        place.link = self._attach(place, TcOptions(program=place.program.fd))
        self.places.append(place)

    def replace(self, place: Place, program: Program) -> None:
        """See Hook."""
        self._attach(place, TcOptions(program=program.fd, flags=CLSACT_REPLACE, handle=place.link))
        place.program = program

    def remove(self, place: Place) -> None:
        """See Hook."""
        self.places.remove(place)
        options = TcOptions(handle=place.link, priority=place.priority)
        library().bpf_tc_detach(ctypes.byref(self._hook), ctypes.byref(options))

    def _attach(self, place: Place, options: TcOptions) -> int:
        options.priority = place.priority
        status = library().bpf_tc_attach(ctypes.byref(self._hook), ctypes.byref(options))
        if status:
            self._fail(-status)
        return int(options.handle)

    def _fail(self, number: int) -> NoReturn:
        raise LoadError(f"interface {self._device}: tc: {explain_errno(number)}")
