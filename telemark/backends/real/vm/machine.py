"""A virtual machine under qemu: Debian's kernel over this machine's own files, read-only.

It boots in seconds, also without KVM, and lives in memory: nothing that it does to files outlasts
it. Python functions are called in it, which have the same modules on the same paths.
"""

import contextlib
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from telemark import REPOSITORY
from telemark.backends.real.vm import guest, initramfs, kernel, remote
from telemark.backends.real.vm.remote import Remote
from telemark.errors import TestbedError

MEMORY_MB = 512
BOOT_S = CALL_S = 300.0  # on a loaded machine: forty times what it takes
TAP = "vm0"
# All but AVX2, whose gathers qemu 7.2 emulates wrongly (seen of VPGATHERQD): numpy, which sorts by
# them, sorts wrongly or is killed.
CPU = "max,avx2=off"
# A timer check takes other programs' load for a broken timer; IPv6 must not say hello unasked.
KERNEL_ARGUMENTS = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check ipv6.disable_ipv6=1"


@dataclass(frozen=True)
class Socket:
    """Where the virtual machine's network card is plugged in: an interface that it takes over.

    `mac` is that of the card. `enter` begins a command that is to run in the interface's network
    namespace, as Host.enter() gives it.
    """

    interface: str
    mac: str
    enter: Sequence[str] = ()


def missing() -> str | None:
    """Why there can be no virtual machine here, in one line; None where there can."""
    for program in ("qemu-system-x86_64", str(initramfs.BUSYBOX)):
        if shutil.which(program) is None:
            return f"there is no {Path(program).name}: run ./setup.sh --rdma"
    try:
        kernel.find()
    except TestbedError as error:
        return str(error)
    return None


class Machine:
    """A virtual machine, up inside its `with` block; at most one in a network namespace.

    It ends with the thread that started it, however that ends. `folder` gets `console.log`.
    """

    def __init__(self, folder: Path, socket: Socket | None = None) -> None:
        self._folder, self._socket = folder, socket
        self._exit_stack = contextlib.ExitStack()
        self._qemu: subprocess.Popen[bytes]

    def __enter__(self) -> "Machine":
        if why := missing():
            raise TestbedError(why)
        with contextlib.ExitStack() as exit_stack:
            self._start(exit_stack)
            self._exit_stack = exit_stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._exit_stack.close()

    def call(self, function: Callable[..., Any], *arguments: Any, timeout_s: float = CALL_S) -> Any:
        """Call a function of a module in the virtual machine; both ways it is pickled.

        Raises TestbedError with the other side's traceback for what it raises, and where no answer
        came in time: then the virtual machine is of no use any more.
        """
        assert self._qemu.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: the answer tells
            guest.send(self._qemu.stdin, (function, arguments))  # type: ignore[arg-type]
        good, result = self._answer(timeout_s)
        if not good:
            raise TestbedError(f"in the virtual machine: {result.strip()}")
        return result

    def make(self, kind: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Make an object in the virtual machine, which lives there: see Remote."""
        return Remote(self.call, self.call(remote.hold, kind, arguments, named))

    def _start(self, exit_stack: contextlib.ExitStack) -> None:
        found = kernel.find()
        self._folder.mkdir(exist_ok=True)
        archive = self._folder / "initramfs"
        archive.write_bytes(initramfs.archive(found.modules, _program()))
        with (self._folder / "qemu.log").open("wb") as log:
            self._qemu = subprocess.Popen(
                [*self._enter(), "setpriv", "--pdeathsig", "KILL", *self._command(found, archive)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0,
                start_new_session=True,
            )  # fmt: skip
        exit_stack.callback(self._stop)
        if self._answer(BOOT_S) != guest.READY:
            raise TestbedError(f"the virtual machine did not start: {self._last_words()}")
        if self._socket is not None:
            self._plug_in(self._socket, exit_stack)

    def _enter(self) -> Sequence[str]:
        return self._socket.enter if self._socket is not None else ()

    def _command(self, found: kernel.Kernel, archive: Path) -> list[str | Path]:
        # TCG alone: with a /dev/kvm that is there but not usable, as in some containers, qemu
        # aborts instead of falling back.
        command: list[str | Path] = [
            "qemu-system-x86_64", "-accel", "tcg", "-cpu", CPU, "-m", str(MEMORY_MB),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", found.image, "-initrd", archive,
            "-append", KERNEL_ARGUMENTS,
            "-serial", f"file:{self._folder / 'console.log'}",
            "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", f"virtio-9p-pci,fsdev=root,mount_tag={initramfs.ROOT_TAG}",
            "-device", "virtio-serial-pci", "-chardev", "stdio,id=control,signal=off",
            "-device", "virtserialport,chardev=control",
        ]  # fmt: skip
        if self._socket is not None:
            # A plain wire: frames go and come as they are, whole and with their checksums.
            plain = ",".join(f"{name}=off" for name in (
                "csum", "guest_csum", "gso", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo",
                "host_tso4", "host_tso6", "host_ecn", "host_ufo"))  # fmt: skip
            command += [
                "-netdev", f"tap,id=wire,ifname={TAP},script=no,downscript=no,vnet_hdr=off",
                "-device", f"virtio-net-pci,netdev=wire,mac={self._socket.mac},romfile=,{plain}",
            ]  # fmt: skip
        return command

    def _plug_in(self, socket: Socket, exit_stack: contextlib.ExitStack) -> None:
        """Hand on what comes to the interface, and to the tap, to the other of the two.

        The kernel's own stack sees nothing of it. Not a bridge, which would keep for itself what is
        sent to the interface's MAC address, and that is the card's too.
        """
        ends = (socket.interface, TAP), (TAP, socket.interface)
        exit_stack.callback(_run, socket.enter, f"tc qdisc del dev {socket.interface} ingress")
        _run(socket.enter, f"ip link set dev {TAP} up", *(
            line for here, there in ends for line in (
                f"tc qdisc add dev {here} ingress",
                f"tc filter add dev {here} parent ffff: protocol all u32 match u32 0 0 "
                f"action mirred egress redirect dev {there}")))  # fmt: skip

    def _answer(self, timeout_s: float) -> Any:
        """Wait for a message. Its beginning is waited for; the rest of it follows at once."""
        assert self._qemu.stdout is not None
        end_s = time.monotonic() + timeout_s
        while not select.select([self._qemu.stdout], [], [], max(end_s - time.monotonic(), 0))[0]:
            if time.monotonic() >= end_s:
                self._qemu.kill()  # or the answer, once it comes, would be taken for another's
                raise TestbedError(
                    f"the virtual machine did not answer within {timeout_s:g} s: "
                    f"{self._last_words()}"
                )
        try:
            return guest.receive(self._qemu.stdout)  # type: ignore[arg-type]
        except EOFError:
            raise TestbedError(f"the virtual machine has ended: {self._last_words()}") from None

    def _last_words(self) -> str:
        """What programs said last, else the kernel, whose lines begin with a time in brackets."""
        paths = [self._folder / name for name in ("qemu.log", "console.log")]
        lines = [line.strip() for path in paths if path.exists()
                 for line in path.read_text(errors="replace").splitlines()]  # fmt: skip
        said = sorted(filter(None, lines), key=lambda line: not line.startswith("["))
        return said[-1] if said else "it said nothing"

    def _stop(self) -> None:
        self._qemu.kill()
        self._qemu.wait()
        for pipe in (self._qemu.stdin, self._qemu.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


def _program() -> list[str]:
    """What the guest's first process is: this Python, which finds modules where this one does.

    Without the module `site` (-S), which takes seconds to find what the paths tell as well.
    """
    paths = os.pathsep.join(os.path.abspath(path) for path in [str(REPOSITORY), *sys.path])
    return ["/usr/bin/env", "-i", f"PYTHONPATH={paths}", str(Path(sys.executable).absolute()),
            "-S", "-B", "-m", "telemark.backends.real.vm.guest"]  # fmt: skip


def _run(enter: Sequence[str], *lines: str) -> None:
    done = subprocess.run(
        [*enter, "sh", "-e"], input="\n".join(lines), text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise TestbedError(f"the virtual machine has no network: {done.stderr.strip()}")
