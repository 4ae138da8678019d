"""Virtual machine under qemu. It has Debian's kernel, and reads the files of this machine.

It boots in seconds, even without KVM. Changes of files stay in the memory of the virtual machine.
call() executes a Python function in the virtual machine, which has the same modules at the same
paths.
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
BOOT_S = CALL_S = 300.0  # 40 times the usual duration, because the machine may be loaded
TAP = "vm0"
# AVX2 is off, because qemu 7.2 emulates its gather instructions (VPGATHERQD) wrongly. numpy uses
# them to sort.
CPU = "max,avx2=off"
# The kernel's timer check fails on a loaded machine. With IPv6, the kernel would send packets on
# its own.
KERNEL_ARGUMENTS = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check ipv6.disable_ipv6=1"


@dataclass(frozen=True)
class Socket:
    """Interface to which the virtual machine's NIC is connected, and the MAC address of this NIC.

    `enter` is a command prefix that enters the interface's network namespace, see Host.enter().
    """

    interface: str
    mac: str
    enter: Sequence[str] = ()


def missing() -> str | None:
    """Return in one line why a virtual machine cannot start here; None if it can start."""
    for program in ("qemu-system-x86_64", str(initramfs.BUSYBOX)):
        if shutil.which(program) is None:
            return f"{Path(program).name} is not installed; run ./setup.sh --rdma"
    try:
        kernel.find()
    except TestbedError as error:
        return str(error)
    return None


class Machine:
    """Virtual machine that runs inside its `with` block.

    A network namespace can have at most one.

    It also stops when the thread that started it ends. It writes `console.log` to `folder`.
    """

    def __init__(self, folder: Path, socket: Socket | None = None) -> None:
        self._folder, self._socket = folder, socket
        self._exit_stack = contextlib.ExitStack()
        self._qemu: subprocess.Popen[bytes]

    def __enter__(self) -> "Machine":
        if problem := missing():
            raise TestbedError(problem)
        with contextlib.ExitStack() as exit_stack:
            self._start(exit_stack)
            self._exit_stack = exit_stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._exit_stack.close()

    def call(self, function: Callable[..., Any], *arguments: Any, timeout_s: float = CALL_S) -> Any:
        """Call a function of a module in the virtual machine.

        The arguments and the result are pickled.

        If the function raises an exception, raises TestbedError with its traceback. Also raises
        TestbedError on timeout; after a timeout, the virtual machine is unusable.
        """
        assert self._qemu.stdin is not None
        # a broken pipe is ignored here, because _answer() reports that the machine has stopped
        with contextlib.suppress(BrokenPipeError):
            guest.send(self._qemu.stdin, (function, arguments))  # type: ignore[arg-type]
        good, result = self._answer(timeout_s)
        if not good:
            raise TestbedError(f"in the virtual machine: {result.strip()}")
        return result

    def make(self, kind: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Create an object in the virtual machine; return its proxy, see class Remote."""
        return Remote(self.call, self.call(remote.create, kind, arguments, named))

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
            raise TestbedError(f"virtual machine: did not start: {self._last_output()}")
        if self._socket is not None:
            self._plug_in(self._socket, exit_stack)

    def _enter(self) -> Sequence[str]:
        return self._socket.enter if self._socket is not None else ()

    def _command(self, found: kernel.Kernel, archive: Path) -> list[str | Path]:
        # Use TCG only. In some containers, /dev/kvm exists but is not usable, and then qemu would
        # abort.
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
            # Without offloads, frames are not merged, and their checksums are right.
            plain = ",".join(f"{name}=off" for name in (
                "csum", "guest_csum", "gso", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo",
                "host_tso4", "host_tso6", "host_ecn", "host_ufo"))  # fmt: skip
            command += [
                "-netdev", f"tap,id=wire,ifname={TAP},script=no,downscript=no,vnet_hdr=off",
                "-device", f"virtio-net-pci,netdev=wire,mac={self._socket.mac},romfile=,{plain}",
            ]  # fmt: skip
        return command

    def _plug_in(self, socket: Socket, exit_stack: contextlib.ExitStack) -> None:
        """Connect an interface and the tap of a NIC: redirect all frames between them.

        The frames bypass the kernel's IP stack.

        A bridge is unsuitable. It would consume frames to the interface's MAC address, but the NIC
        has the same MAC address.
        """
        ends = (socket.interface, TAP), (TAP, socket.interface)
        exit_stack.callback(_run, socket.enter, f"tc qdisc del dev {socket.interface} ingress")
        _run(socket.enter, f"ip link set dev {TAP} up", *(
            line for here, there in ends for line in (
                f"tc qdisc add dev {here} ingress",
                f"tc filter add dev {here} parent ffff: protocol all u32 match u32 0 0 "
                f"action mirred egress redirect dev {there}")))  # fmt: skip

    def _answer(self, timeout_s: float) -> Any:
        """Read a message. Raises TestbedError on timeout, or if the virtual machine has ended."""
        assert self._qemu.stdout is not None
        end_s = time.monotonic() + timeout_s
        while not select.select([self._qemu.stdout], [], [], max(end_s - time.monotonic(), 0))[0]:
            if time.monotonic() >= end_s:
                # a late reply would be mistaken for the reply to the next call
                self._qemu.kill()
                raise TestbedError(
                    f"virtual machine: no response within {timeout_s:g} s: {self._last_output()}"
                )
        try:
            return guest.receive(self._qemu.stdout)  # type: ignore[arg-type]
        except EOFError:
            raise TestbedError(f"virtual machine: has ended: {self._last_output()}") from None

    def _last_output(self) -> str:
        """Return the last line that a program printed.

        If no program printed, return the kernel's last line.

        The kernel's lines begin with a time in brackets.
        """
        paths = [self._folder / name for name in ("qemu.log", "console.log")]
        lines = [line.strip() for path in paths if path.exists()
                 for line in path.read_text(errors="replace").splitlines()]  # fmt: skip
        ordered = sorted(filter(None, lines), key=lambda line: not line.startswith("["))
        return ordered[-1] if ordered else "no output"

    def _stop(self) -> None:
        self._qemu.kill()
        self._qemu.wait()
        for pipe in (self._qemu.stdin, self._qemu.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


def _program() -> list[str]:
    """Return the command of process 1 in the guest: this Python, with the same module paths.

    The option -S skips the module `site`, which is not needed and would take seconds.
    """
    paths = os.pathsep.join(os.path.abspath(path) for path in [str(REPOSITORY), *sys.path])
    return ["/usr/bin/env", "-i", f"PYTHONPATH={paths}", str(Path(sys.executable).absolute()),
            "-S", "-B", "-m", "telemark.backends.real.vm.guest"]  # fmt: skip


def _run(enter: Sequence[str], *lines: str) -> None:
    done = subprocess.run(
        [*enter, "sh", "-e"], input="\n".join(lines), text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise TestbedError(f"virtual machine: cannot set up its network: {done.stderr.strip()}")
