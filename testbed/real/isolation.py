"""A run of its own: namespaces that nothing else shares, and a folder that goes when it ends.

The process that the user started stays outside as the supervisor. It starts the same script again
as process 1 of a new PID, network and mount namespace, passes signals on to it, and removes the
run's folder when it is gone. The kernel ends everything inside when process 1 ends, and process 1
is killed when the supervisor dies: so not even SIGKILL leaves a process or an interface behind.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

from testbed.errors import TestbedError

MARK = "TELEMARK_RUN"  # environment variable of process 1: where its folder and supervisor are
GRACE_S = 20.0  # for a clean end after the first signal
AGAIN_S = 1.0  # a second signal after that long kills at once; sooner it is the same key press
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OWNER = "owner"
READY, GO, ENDED = b"ready", b"go", b"ended"  # what process 1 and the supervisor tell each other
# A shell command: kernels must not say hello over IPv6 while we count frames.
DISABLE_IPV6 = """for scope in all default; do
    [ ! -e /proc/sys/net/ipv6/conf/$scope ] || echo 1 > /proc/sys/net/ipv6/conf/$scope/disable_ipv6
done"""


class Interrupted(KeyboardInterrupt):
    """A signal asked the run to end."""

    def __init__(self, signal_number: int) -> None:
        super().__init__()
        self.exit_status = 128 + signal_number


def is_inside() -> bool:
    """Tell whether this process is process 1 of a run's namespaces."""
    return MARK in os.environ and os.getpid() == 1


@contextlib.contextmanager
def inside() -> Iterator[Path]:
    """Do the work of a run in this process, which is_inside(); yields the run's folder.

    The supervisor is told at the end that it came: else the run was killed.
    """
    mark = json.loads(os.environ.pop(MARK))
    interruptible()
    subprocess.run(["sh", "-ec", f"ip link set lo up\n{DISABLE_IPV6}"], check=True)
    folder = Path(mark["folder"])
    # For what users start in there: `minip4`, and `python` with the project's packages.
    os.environ["PATH"] = f"{Path(sys.prefix, 'bin')}{os.pathsep}{os.environ.get('PATH', '')}"
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
    os.set_inheritable(mark["socket"], False)
    with socket.socket(fileno=mark["socket"]) as supervisor:
        supervisor.send(READY)  # the kernel adds who sent it, in the supervisor's own PID numbers
        supervisor.recv(16)
        try:
            yield folder
        finally:
            supervisor.send(ENDED)


def interruptible() -> None:
    """Have signals that ask for an end raise Interrupted."""
    for number in STOPPING:
        signal.signal(number, _interrupt)


def _interrupt(signal_number: int, _frame: object) -> NoReturn:
    for number in STOPPING:  # cleaning up is not interrupted: the supervisor sees to its end
        signal.signal(number, signal.SIG_IGN)
    raise Interrupted(signal_number)


def supervise(name: str, *, interactive: bool) -> int:
    """Run this very command again inside new namespaces, and return its exit status.

    Raises TestbedError where the machine cannot make them.
    """
    for tool in ("setpriv", "unshare", "ip"):
        if shutil.which(tool) is None:
            raise TestbedError(f"no {tool} found: run ./setup.sh (packages util-linux, iproute2)")
    # A run cannot be suspended, nor may taking the terminal back stop the supervisor.
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    stopping = {*STOPPING}
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # nohup
        stopping.remove(signal.SIGHUP)
    awaited = {*stopping, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    with run_folder(name) as folder:
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                child = _spawn(folder, theirs.fileno(), before, interactive=interactive)
            with _foreground(child if interactive else None):
                return _wait(child, ours, awaited)


def _spawn(
    folder: Path, socket_number: int, mask: Iterable[int | signal.Signals], *, interactive: bool
) -> int:
    """Start process 1, in a process group of its own: no signal but ours reaches it."""
    os.set_inheritable(socket_number, True)
    mark = json.dumps({"folder": str(folder), "socket": socket_number})
    command = ["setpriv", "--pdeathsig", "KILL",
               "unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child",
               sys.executable, *sys.argv]  # fmt: skip
    # Only Mininet's command line reads the terminal; others would be stopped by it.
    nothing = [] if interactive else [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
    return os.posix_spawnp(
        command[0], command, {**os.environ, MARK: mark}, file_actions=nothing, setpgroup=0,
        setsigmask=mask, setsigdef=[signal.SIGTSTP, signal.SIGTTOU],
    )  # fmt: skip


def _wait(child: int, connection: socket.socket, awaited: set[signal.Signals]) -> int:
    """Pass signals on until the child ends; return its exit status."""
    inner = _inner_pid(connection)
    if inner is not None:
        print(f"To enter this run: sudo nsenter -t {inner} -n -p -m", flush=True)
        connection.send(GO)
    asked_at = None  # when the first signal came
    while True:
        event: signal.struct_siginfo | None
        if asked_at is None:
            event = signal.sigwaitinfo(awaited)
        else:
            left_s = max(asked_at + GRACE_S - time.monotonic(), 0.0)
            event = signal.sigtimedwait(awaited, left_s)
        if event is not None and event.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return _exit_status(os.waitstatus_to_exitcode(status), inner, connection)
        elif inner is None:  # ended before it was ready: only its SIGCHLD is yet to come
            continue
        elif event is not None and asked_at is None:
            asked_at = time.monotonic()
            os.kill(inner, event.si_signo)
        elif event is None or time.monotonic() - (asked_at or 0.0) > AGAIN_S:
            os.kill(inner, signal.SIGKILL)


def _inner_pid(connection: socket.socket) -> int | None:
    """Wait until process 1 is ready; return its PID as seen from here, or None when it ended."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    size = struct.calcsize("3i")
    message, control, _flags, _address = connection.recvmsg(16, socket.CMSG_SPACE(size))
    if not message:
        return None
    pid, _uid, _gid = struct.unpack("3i", control[0][2][:size])
    return int(pid)


def _exit_status(code: int, inner: int | None, connection: socket.socket) -> int:
    """The run's exit status. unshare cannot pass SIGKILL on: process 1 says whether it ended."""
    if inner is not None and connection.recv(16) != ENDED:
        print("error: the run was killed", file=sys.stderr)
        return 128 + signal.SIGKILL
    return code


@contextlib.contextmanager
def _foreground(group: int | None) -> Iterator[None]:
    """Lend the terminal to a process group, so that Mininet's command line can be typed into."""
    if group is None or not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()
    os.tcsetpgrp(terminal, group)
    try:
        yield
    finally:
        os.tcsetpgrp(terminal, os.getpgrp())


@contextlib.contextmanager
def run_folder(name: str) -> Iterator[Path]:
    """A folder for one run. Those that killed runs left are removed first."""
    base = _base_folder()
    with _locked(base):  # nobody else makes or sweeps meanwhile
        _sweep(base)
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
        owner = (folder / OWNER).open("w")
        fcntl.flock(owner, fcntl.LOCK_EX)
        owner.write(f"{os.getpid()} {_start_time(os.getpid())}\n")
        owner.flush()
    (folder / "tmp").mkdir()
    with owner:
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


def _base_folder() -> Path:
    """Where the folders of this user's runs lie; ours alone, since we remove things there."""
    base = Path(f"/var/tmp/telemark-{os.getuid()}")
    base.mkdir(mode=0o700, exist_ok=True)
    status = base.lstat()
    if base.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise TestbedError(f"{base} is not a private folder of user {os.getuid()}: remove it")
    return base


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sweep(base: Path) -> None:
    """Remove the folders of runs that are provably dead.

    A supervisor holds a lock on its owner file as long as it lives, and the file names its PID and
    start time: a folder goes only if nobody holds the lock and no such process exists.
    """
    for folder in base.iterdir():
        try:
            owner = (folder / OWNER).open("r+")
        except FileNotFoundError:  # killed between two calls of run_folder(): nothing is in it yet
            with contextlib.suppress(OSError):
                folder.rmdir()
            continue
        with owner:
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            words = owner.read().split()
            if len(words) != 2 or _start_time(int(words[0])) != words[1]:
                shutil.rmtree(folder)


def _start_time(pid: int) -> str | None:
    """When a process started, in clock ticks since the machine did; None when it is dead."""
    try:
        # The name, in parentheses, may hold anything; after it come fields 3, 4, ... (proc(5)).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, start = fields[0], fields[19]
    return None if state in "ZX" else start  # killed, but its parent has not looked yet
