"""Isolation of a run: each run has its own namespaces, and a folder that exists until it ends.

The process that the user started is the supervisor; it stays outside the namespaces. Its child is
process 1 of a new PID namespace. The child also creates a network namespace and a mount namespace,
and executes the run. The supervisor forwards signals to the child, and removes the run's folder
after the child has exited. When process 1 exits, the kernel kills all other processes in the PID
namespace. When the supervisor dies, the kernel kills process 1. So no process or interface remains,
even after SIGKILL.
"""

import contextlib
import ctypes
import fcntl
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from telemark.errors import TestbedError

GRACE_S = 20.0  # maximum time for cleanup after the first signal
AGAIN_S = 1.0  # a second signal kills the run, but only if it arrives after this time
# interval at which the exception of a signal is raised again, because the exception may be lost
REMIND_S = 0.1
LOOK_S = 0.5  # interval of checks whether a signal arrived just before a blocking call
SIGNALLED = 128  # exit status after a signal = SIGNALLED + number of the signal
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OWNER = "owner"
# message of process 1 when its namespaces exist; the supervisor replies with the run's folder
READY = b"ready"
# Shell commands that disable IPv6. With IPv6, the kernel would send packets, which would be
# counted.
DISABLE_IPV6 = """for scope in all default; do
    [ ! -e /proc/sys/net/ipv6/conf/$scope ] || echo 1 > /proc/sys/net/ipv6/conf/$scope/disable_ipv6
done"""

# Constants of <sched.h>, <sys/mount.h> and <sys/prctl.h>; Python 3.10 and 3.11 lack them.
CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 1 << 14, 1 << 18
PR_SET_PDEATHSIG = 1


class Interrupted(KeyboardInterrupt):
    """A signal requested the end of the run; the argument is the signal number."""


def can_isolate() -> bool:
    """Return whether this user may create the namespaces of a run on this machine."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def fork() -> tuple[int, socket.socket]:
    """Fork into a new PID namespace; return the child's PID and a connection to it.

    The child is process 1 of the namespace. In the child, the returned PID is 0, and the connection
    leads to the supervisor. STOPPING signals are blocked in both processes until inside() and
    supervise() handle them. Raises TestbedError if the namespace cannot be created.
    """
    if shutil.which("ip") is None:
        raise TestbedError("no ip found: run ./setup.sh (package iproute2)")
    signal.pthread_sigmask(signal.SIG_BLOCK, {*STOPPING, signal.SIGCHLD})
    _system("unshare", CLONE_NEWPID)
    sys.stdout.flush()  # otherwise, both processes would print the buffered output
    sys.stderr.flush()
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    child = os.fork()
    (theirs if child else ours).close()
    return child, ours if child else theirs


@contextlib.contextmanager
def inside(supervisor: socket.socket, *, interactive: bool) -> Iterator[Path]:
    """Set up the namespaces in this process, which is the child of fork(); yield the run's folder.

    Raises TestbedError if the namespaces cannot be created.
    """
    _system("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    _system("unshare", CLONE_NEWNET | CLONE_NEWNS)
    _system("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    _system("mount", b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
    if not interactive:  # only Mininet's CLI needs the terminal's session
        os.setsid()
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
    interruptible()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*STOPPING, signal.SIGCHLD})
    subprocess.run(["sh", "-ec", f"ip link set lo up\n{DISABLE_IPV6}"], check=True)
    folder = b""
    with supervisor, contextlib.suppress(BrokenPipeError):
        supervisor.send(READY)
        folder = supervisor.recv(4096)
    if not folder:  # the supervisor was killed, or has exited with a message
        os._exit(1)
    # In the namespaces, users can then run `minip4`, and `python` with the project's packages.
    os.environ["PATH"] = f"{Path(sys.prefix, 'bin')}{os.pathsep}{os.environ.get('PATH', '')}"
    os.environ["TMPDIR"] = tempfile.tempdir = os.fsdecode(folder + b"/tmp")
    yield Path(os.fsdecode(folder))


def _system(call: str, *arguments: object) -> None:
    """Call a function of the C library that returns 0 on success. Raises TestbedError."""
    function = getattr(ctypes.CDLL(None, use_errno=True), call)
    function.argtypes = [
        ctypes.c_ulong if isinstance(a, int) else ctypes.c_char_p for a in arguments
    ]
    if function(*arguments):
        raise TestbedError(
            f"namespaces cannot be created ({call}: {os.strerror(ctypes.get_errno())}): "
            "run as root with all capabilities (in Docker: --privileged)"
        )


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends."""
    _system("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent exited before prctl()
        os._exit(1)


def interruptible(kind: Callable[[int], BaseException] = Interrupted, look_s: float = 0.0) -> None:
    """From now on, STOPPING signals raise `kind(number)` in the main thread.

    An exception from a signal handler may be lost in a bare `except` (as in logging and Mininet),
    in a destructor, or in a callback from C. Therefore, the exception is raised again every
    REMIND_S, until the main thread handles it or calls end_interrupt(). No exception is raised
    while the main thread handles one, so cleanup is not interrupted. If cleanup does not end, a
    second signal kills the process, if it arrives at least AGAIN_S after the first.

    Python handles a signal between two instructions of its main thread. The handling is delayed if
    the signal arrives in another thread, or just before a blocking call of the main thread. SIGALRM
    ends this delay. A timer sends SIGALRM every `look_s` seconds. If `look_s` is 0, the supervisor
    sends SIGALRM (see supervise()).
    """
    global _delays  # noqa: PLW0603

    def on_signal(number: int, _frame: object) -> None:
        if not _requested:
            _requested.append((number, time.monotonic()))
            # Suppress messages about objects and tasks whose initialization was interrupted.
            sys.unraisablehook = lambda _lost: None
            logging.disable()
        elif time.monotonic() - _requested[0][1] > AGAIN_S:
            os.kill(os.getpid(), signal.SIGKILL)
        remind()

    def remind(*_: object) -> None:
        if _requested:
            signal.setitimer(signal.ITIMER_REAL, REMIND_S)
            if not _delays and not _is_handled(kind):
                raise kind(_requested[0][0])

    _delays = 0  # fork() may have been called within uninterrupted()
    for number in _handled_signals():
        signal.signal(number, on_signal)
    signal.signal(signal.SIGALRM, remind)
    signal.setitimer(signal.ITIMER_REAL, REMIND_S if _requested else look_s, look_s)


def end_interrupt() -> int | None:
    """Acknowledge the STOPPING signal that arrived, and ignore all further STOPPING signals.

    Returns the number of the signal, or None if none has arrived since interruptible().
    """
    with uninterrupted():
        for number in (*STOPPING, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return _requested.pop()[0] if _requested else None


def _handled_signals() -> set[signal.Signals]:
    """Return the STOPPING signals that a run handles: all, except for SIGHUP under nohup(1)."""
    is_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return {*STOPPING} - ({signal.SIGHUP} if is_nohup else set())


_requested: list[tuple[int, float]] = []  # the STOPPING signal that arrived, and its time
_delays = 0  # number of active uninterrupted() blocks


def _is_handled(kind: object) -> bool:
    """Return whether the main thread is handling `kind` in `except`, `finally` or `__exit__`."""
    error = sys.exc_info()[1]
    while error is not None:
        if type(error) is kind:
            return True
        error = error.__context__
    return False


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay the exceptions of interruptible(), and KeyboardInterrupt, until the block ends.

    Use it for os.fork(), and for C functions that call Python. It affects only the main thread,
    because Python handles signals there.
    """
    global _delays  # noqa: PLW0603
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    delayed: list[int] = []  # for processes without interruptible(): a delayed SIGINT
    has_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if has_default:
        signal.signal(signal.SIGINT, lambda number, _frame: delayed.append(number))
    _delays += 1
    try:
        yield
    finally:
        _delays -= 1
        if has_default:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if delayed:
        signal.raise_signal(signal.SIGINT)
    if _requested:
        signal.raise_signal(signal.SIGALRM)


def supervise(name: str, child: int, connection: socket.socket, *, interactive: bool) -> int:
    """Supervise the child of fork() until it ends; return its exit status."""
    # Ctrl-Z must not suspend a run, and the supervisor must not stop when it takes the terminal
    # back.
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    if interactive:
        os.setpgid(child, child)
    with connection, run_folder(name) as folder, _foreground(child if interactive else None):
        if connection.recv(len(READY)):
            print(f"To enter this run: sudo nsenter -t {child} -n -p -m", flush=True)
            connection.send(os.fsencode(folder))
        return _wait(child)


def _wait(child: int) -> int:
    """Forward signals until the child ends; return its exit status."""
    awaited = {*_handled_signals(), signal.SIGCHLD}
    asked_at = None  # time of the first signal
    while True:
        event: signal.struct_siginfo | None
        if asked_at is None:
            event = signal.sigwaitinfo(awaited)
        else:
            left_s = asked_at + GRACE_S - time.monotonic()
            event = signal.sigtimedwait(awaited, max(min(left_s, REMIND_S), 0.0))
        if event is not None and event.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return _exit_status(os.waitstatus_to_exitcode(status))
        elif event is not None and asked_at is None:
            asked_at = time.monotonic()
            os.kill(child, event.si_signo)
        elif event is None and time.monotonic() - (asked_at or 0.0) < GRACE_S:
            # SIGALRM, because the signal may have arrived just before a blocking call of the child
            os.kill(child, signal.SIGALRM)
        elif event is None or time.monotonic() - (asked_at or 0.0) > AGAIN_S:
            os.kill(child, signal.SIGKILL)


def _exit_status(code: int) -> int:
    if code < 0:
        print("error: the run was killed", file=sys.stderr)
        return SIGNALLED - code
    return code


@contextlib.contextmanager
def _foreground(group: int | None) -> Iterator[None]:
    """Make a process group the foreground group of the terminal, for Mininet's CLI."""
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
    """Create the folder of one run; first remove the folders of killed runs."""
    base = _base_folder()
    # while this process has the lock, no other process creates or removes folders
    with _locked(base):
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
            # once the owner file is gone, another run may remove the empty folder, see _sweep()
            with uninterrupted():
                shutil.rmtree(folder, onerror=_ignore_missing)


def running() -> dict[Path, bool]:
    """Return the folders of this user's runs, and whether each run has namespaces.

    Runs in real time have namespaces.
    """
    base = _base_folder()
    found = {}
    with _locked(base):  # so that all owner files are locked and complete
        for folder in filter(is_running, sorted(base.iterdir())):
            with contextlib.suppress(OSError):  # the run has just ended
                namespaces = Path("/proc", (folder / OWNER).read_text().split()[0], "ns")
                pids = [os.readlink(namespaces / name) for name in ("pid", "pid_for_children")]
                found[folder] = pids[0] != pids[1]
    return found


def is_running(folder: Path) -> bool:
    """Return whether the supervisor of a run has the lock on the owner file in its folder."""
    try:
        with (folder / OWNER).open() as owner:
            fcntl.flock(owner, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _ignore_missing(
    _function: object, _path: str, problem: tuple[type[BaseException], BaseException, object]
) -> None:
    """Raise the error of shutil.rmtree(), unless the file or folder does not exist."""
    if not isinstance(problem[1], FileNotFoundError):
        raise problem[1]


def _base_folder() -> Path:
    """Return the private parent folder of this user's run folders."""
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
    """Remove the folders of runs that have ended.

    While a supervisor runs, it has a lock on the owner file in its folder. This file contains the
    PID and the start time of the supervisor. A folder is removed only if its owner file is not
    locked and its supervisor does not exist.
    """
    for folder in base.iterdir():
        try:
            owner = (folder / OWNER).open("r+")
        # the folder is empty: its run was killed within run_folder()
        except FileNotFoundError:
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
    """Return the start time of a process in clock ticks since boot; None if it has ended."""
    try:
        # The name of the process is in parentheses and may contain any characters. Fields 3, 4, ...
        # follow it (proc(5)).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, start = fields[0], fields[19]
    return None if state in "ZX" else start  # a zombie counts as exited
