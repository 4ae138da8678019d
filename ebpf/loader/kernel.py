"""System calls that libbpf of Debian 12 does not have: tcx links, and the RCU grace period."""

import ctypes
import errno
import platform

from ebpf.loader.errors import LoadError

# numbers of the system calls bpf and membarrier
_NUMBERS = {"x86_64": (321, 324), "aarch64": (280, 283)}
_LINK_CREATE, _LINK_UPDATE = 28, 29  # enum bpf_cmd
_GLOBAL = 1  # MEMBARRIER_CMD_GLOBAL


class _LinkCreate(ctypes.Structure):
    """The part `link_create` of union bpf_attr, with the fields for tcx links."""

    _fields_ = [("program", ctypes.c_uint32), ("target", ctypes.c_uint32),
                ("hook", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("beside", ctypes.c_uint32), ("_", ctypes.c_uint32),
                ("revision", ctypes.c_uint64)]  # fmt: skip


class _LinkUpdate(ctypes.Structure):
    """The part `link_update` of union bpf_attr."""

    _fields_ = [("link", ctypes.c_uint32), ("program", ctypes.c_uint32),
                ("flags", ctypes.c_uint32), ("before", ctypes.c_uint32)]  # fmt: skip


def create_link(program_fd: int, target: int, hook: int, flags: int = 0, beside: int = 0) -> int:
    """Return the descriptor of a new link. Raises OSError.

    If the flags say so, the position of the link is relative to `beside`.
    """
    attributes = _LinkCreate(program_fd, target, hook, flags, beside)
    bpf, _ = _numbers()
    return _call(bpf, _LINK_CREATE, ctypes.byref(attributes), ctypes.sizeof(attributes))


def update_link(link: int, program_fd: int) -> None:
    """Replace the program of a link, between two packets. Raises OSError."""
    attributes = _LinkUpdate(link, program_fd)
    bpf, _ = _numbers()
    _call(bpf, _LINK_UPDATE, ctypes.byref(attributes), ctypes.sizeof(attributes))


def wait_for_packets() -> None:
    """Wait until the programs that are already detached have completed all their packets.

    In the kernel, programs run as RCU readers. This membarrier waits for all RCU readers.
    """
    _, membarrier = _numbers()
    _call(membarrier, _GLOBAL, 0, 0)


def _numbers() -> tuple[int, int]:
    machine = platform.machine()
    if machine not in _NUMBERS:
        raise LoadError(f"no eBPF on {machine}: expected {' or '.join(_NUMBERS)}")
    return _NUMBERS[machine]


def _call(number: int, *arguments: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    result: int = library.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, errno.errorcode.get(code, str(code)))
    return result
