"""Isolated runs: their environment, their end, and the complete clean-up."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loaded import Started, StartExperiment

from telemark.backends.real import isolation

LONGEST_S = 60
PASS = 'return Report([{"a": 1}], [Check("c", 0, 0)])'
WAIT = """
import asyncio, sys
try:
    print("folder", run.folder, flush=True)
    await asyncio.sleep(60)
finally:
    print("cleaned up", flush=True)
"""


def folder_of(process: Started) -> Path:
    """Wait until the experiment runs; return the folder of its run."""
    for line in process.stdout:
        if line.startswith("folder "):
            return Path(line.split()[1])
    pytest.fail(f"the experiment did not come up: {process.stderr.read()}")


def inner_pid(process: Started) -> int:
    """Read the command that the run prints; return the PID, outside the run, of its process 1."""
    words = process.stdout.readline().split()
    assert words[:6] == ["To", "enter", "this", "run:", "sudo", "nsenter"]
    return int(words[words.index("-t") + 1])


def is_pending(process: Started) -> bool:
    """Return whether a signal to a process is still pending: proc(5), status."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    (signals,) = [line.split()[1] for line in lines if line.startswith("ShdPnd:")]
    return int(signals, 16) != 0


def await_gone(pid: int) -> None:
    deadline = time.monotonic() + LONGEST_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


def test_a_run_has_a_network_of_its_own_and_leaves_results_only(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    body = """
import os, socket
print("folder", run.folder)
assert os.getpid() == 1
assert os.readlink("/proc/self") == "1"
assert [name for _, name in socket.if_nameindex()] == ["lo"]
server = socket.create_server(("127.0.0.1", 50051))  # loopback is up, and no other run's
assert open("/proc/sys/net/ipv6/conf/default/disable_ipv6").read() == "1\\n"
"""
    buffered = "import sys\nsys.stdout = open(1, 'w', closefd=False)\nprint('loaded')"
    process = start_experiment(body + PASS, head=buffered)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert output.count("loaded") == 1
    folder = next(line.split()[1] for line in output.splitlines() if line.startswith("folder "))
    assert not Path(folder).exists()
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["samples.csv", "summary.json"]


def test_without_the_rights_to_make_namespaces_it_says_so(tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text("from telemark.session import cli\ncli.main(__file__, None, None)\n")
    weak = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    done = subprocess.run(
        [*weak, sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        "example: error: namespaces cannot be created (unshare: Operation not permitted): "
        "run as root with all capabilities (in Docker: --privileged)\n"
    )


def test_runs_side_by_side_do_not_meet(start_experiment: StartExperiment) -> None:
    body = """
import asyncio, socket, subprocess
subprocess.run(["ip", "link", "add", "s1-eth1", "type", "veth", "peer", "s1-eth2"], check=True)
server = socket.create_server(("127.0.0.1", 50051))
await asyncio.sleep(1)
"""
    processes = [start_experiment(body + PASS) for _ in range(2)]
    for process in processes:
        _output, errors = process.communicate()
        assert process.returncode == 0, errors


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ('return Report([], [Check("c", 1, 0)])', 1, "FAILED"),
        ("return Report([], [])", 1, ""),
        (
            'from telemark.errors import TestbedError\nraise TestbedError("no cc")',
            2,
            "error: no cc",
        ),
        ("from minip4.errors import Minip4Error\nraise Minip4Error('x.p4:1:2')", 2, "x.p4:1:2"),
        ("1 / 0", 3, "ZeroDivisionError"),
    ],
)
def test_exit_status(start_experiment: StartExperiment, body: str, status: int, words: str) -> None:
    process = start_experiment(body)
    output, errors = process.communicate()
    assert process.returncode == status
    assert words in output + errors
    if status == 2:
        assert errors.count("\n") == 1


# Two signals within this time count as one, even if a loaded machine delays the second one.
ONE_WISH = "from telemark.backends.real import isolation\nisolation.AGAIN_S = 60"


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
)
def test_a_signal_ends_the_run_cleanly(
    start_experiment: StartExperiment, number: signal.Signals, status: int, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    held = f"    import os, time\n    while not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
    process = start_experiment(WAIT + held, head=ONE_WISH)
    folder = folder_of(process)
    process.send_signal(number)
    assert "cleaned up\n" in process.stdout
    process.send_signal(number)  # timeout(1) sends a signal twice, too; it counts as one
    while is_pending(process):
        time.sleep(0.01)
    go.touch()
    _output, errors = process.communicate()
    assert process.returncode == status
    assert errors.splitlines() == ["", "example: interrupted"]
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["real", "virtual"])
def test_nohup_is_obeyed(start_experiment: StartExperiment, kind: str) -> None:
    ignores = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)"
    waiting = f"import time\n{WAIT}".replace("await asyncio.", "time.")
    process = start_experiment(waiting, "--time", kind, head=ignores)
    folder_of(process)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143


DESTRUCTOR = """import signal, time
class Interrupted:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
Interrupted()
time.sleep(60)"""


@pytest.mark.parametrize("kind", ["real", "virtual"])
def test_a_signal_in_a_destructor_is_not_lost(start_experiment: StartExperiment, kind: str) -> None:
    """A signal ends the run even if it arrives in a destructor.

    Python ignores exceptions in destructors.
    """
    process = start_experiment(DESTRUCTOR, "--time", kind)
    _output, errors = process.communicate()
    assert process.returncode == 143
    assert errors.splitlines() == ["", "example: interrupted"]


SWALLOWED = """import signal, time
try:
    signal.raise_signal(signal.SIGTERM)
except BaseException:
    pass
time.sleep(60)"""
IN_CALLBACK = """import ctypes, signal, time
ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGTERM))()
time.sleep(60)"""
IN_TASK = """import asyncio, logging, signal
async def end():
    signal.raise_signal(signal.SIGTERM)
task = asyncio.create_task(end())
task.add_done_callback(lambda done: logging.error("failed", exc_info=done.exception()))
await asyncio.sleep(60)"""
IN_CLEAN_UP = """import signal, time
try:
    signal.raise_signal(signal.SIGTERM)
finally:
    time.sleep(5 * 0.1)
    try:
        1 / 0
    except ZeroDivisionError:
        time.sleep(5 * 0.1)
    print("cleaned up")"""


@pytest.mark.parametrize("kind", ["real", "virtual"])
@pytest.mark.parametrize(
    "body", [SWALLOWED, IN_CALLBACK, IN_TASK], ids=["except", "callback", "task"]
)
def test_a_signal_whose_exception_is_swallowed_is_not_lost(
    start_experiment: StartExperiment, body: str, kind: str
) -> None:
    _output, errors = start_experiment(body, "--time", kind).communicate()
    assert errors.splitlines() == ["", "example: interrupted"]


CONVERTED = """import signal
try:
    signal.raise_signal(signal.SIGTERM)
except BaseException:
    raise ValueError("of a library") from None"""
AT_THE_END = f"""import contextlib, signal
with contextlib.suppress(BaseException):
    signal.raise_signal(signal.SIGTERM)
{PASS}"""


@pytest.mark.parametrize("kind", ["real", "virtual"])
@pytest.mark.parametrize("body", [CONVERTED, AT_THE_END], ids=["converted", "at the end"])
def test_a_signal_decides_the_status_whatever_became_of_its_exception(
    start_experiment: StartExperiment, body: str, kind: str
) -> None:
    process = start_experiment(body, "--time", kind)
    _output, errors = process.communicate()
    assert (process.returncode, errors) == (143, "\nexample: interrupted\n")


UNSEEN = """import signal, threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("folder", run.folder, flush=True)
time.sleep(1000)"""


@pytest.mark.parametrize("kind", ["real", "virtual"])
def test_a_signal_that_does_not_interrupt_a_blocking_call_is_not_lost(
    start_experiment: StartExperiment, kind: str
) -> None:
    """A signal ends the run even if it does not interrupt the blocking call of the main thread.

    In this test, the kernel delivers the signal to another thread. The effect would be the same if
    the signal arrived just before the blocking call.
    """
    process = start_experiment(UNSEEN, "--time", kind)
    folder_of(process)
    process.send_signal(signal.SIGTERM)
    _output, errors = process.communicate()
    assert (process.returncode, errors) == (143, "\nexample: interrupted\n")


@pytest.mark.parametrize("kind", ["real", "virtual"])
def test_clean_up_is_not_interrupted_again(start_experiment: StartExperiment, kind: str) -> None:
    process = start_experiment(IN_CLEAN_UP, "--time", kind)
    output, errors = process.communicate()
    assert process.returncode == 143
    assert "cleaned up\n" in output
    assert errors.splitlines() == ["", "example: interrupted"]


HALF_MADE = """import signal
class Half:
    def __init__(self):
        signal.raise_signal(signal.SIGTERM)
        self.other_half = None
    def __del__(self):
        self.other_half
Half()"""


BAD = """class Bad:
    def __del__(self):
        1 / 0
Bad()
1 / 0"""


@pytest.mark.parametrize(
    ("body", "is_reported", "last"),
    [
        (HALF_MADE, False, "example: interrupted"),
        (BAD, True, "ZeroDivisionError: division by zero"),
    ],
    ids=["half made", "bad"],
)
def test_what_was_half_made_at_a_signal_ends_in_silence(
    start_experiment: StartExperiment, body: str, is_reported: bool, last: str
) -> None:
    """After a signal, the run prints no errors of objects that are only partly created.

    Other errors in destructors are printed.
    """
    _output, errors = start_experiment(body, "--time", "virtual").communicate()
    assert ("Exception ignored" in errors) == is_reported
    assert errors.splitlines()[-1] == last


def test_a_second_interrupt_kills_a_run_that_does_not_end(
    start_experiment: StartExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubborn = f"{WAIT}    import time; time.sleep(60)\n"
    # without the second signal, the process would be killed long after the end of this test
    grace = f"from telemark.backends.real import isolation\nisolation.GRACE_S = {10 * LONGEST_S}"
    process = start_experiment(stubborn, head=grace)
    inner = inner_pid(process)
    folder = folder_of(process)
    process.send_signal(signal.SIGINT)
    # the supervisor has received the signal and forwarded it
    assert "cleaned up\n" in process.stdout
    # a second signal within this time would count as the same key press
    time.sleep(isolation.AGAIN_S + 0.1)
    process.send_signal(signal.SIGINT)
    _output, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGKILL
    assert errors == "error: the run was killed\n"
    await_gone(inner)
    assert not folder.exists()


def test_a_second_interrupt_kills_a_run_in_virtual_time(start_experiment: StartExperiment) -> None:
    stubborn = f"import time\n{WAIT}    time.sleep(60)\n".replace("await asyncio.", "time.")
    process = start_experiment(stubborn, "--time", "virtual")
    folder_of(process)
    process.send_signal(signal.SIGINT)
    assert "cleaned up\n" in process.stdout
    time.sleep(isolation.AGAIN_S + 0.1)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_what_a_killed_run_leaves_the_next_removes(start_experiment: StartExperiment) -> None:
    body = 'import subprocess\nsubprocess.Popen(["sleep", "1000"])' + WAIT
    process = start_experiment(body)
    inner = inner_pid(process)
    folder = folder_of(process)
    children = [pid for pid in processes() if parent_of(pid) == inner]
    assert children
    process.kill()
    for pid in (inner, *children):
        await_gone(pid)
    process = start_experiment(PASS)
    process.communicate()
    assert not folder.exists()


def processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_only_what_is_provably_ours_is_removed(tmp_path: Path) -> None:
    def make(name: str, owner: str | None) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "data").touch()
        if owner is not None:
            (folder / "owner").write_text(owner)
        return folder

    me = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19]
    # This process's PID, but another start time: the process that wrote it has ended.
    dead = make("dead", f"{os.getpid()} 1\n")
    alive = make("alive", f"{os.getpid()} {me}\n")
    foreign = make("foreign", None)
    isolation._sweep(tmp_path)
    assert not dead.exists()
    assert alive.exists()
    assert foreign.exists()


def test_a_run_that_holds_its_lock_is_alive(tmp_path: Path) -> None:
    with isolation.run_folder("example") as folder:
        (folder / "owner").write_text("1 1\n")  # no process has this PID and start time
        isolation._sweep(folder.parent)
        assert folder.exists()
    assert not folder.exists()


def test_another_run_may_remove_the_folder_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends without error if another run removes its folder at the same time.

    While a run removes its folder, the sweep of the other run finds this folder without an owner.
    """

    def sweep_first(path: str, *, dir_fd: int | None = None) -> None:
        monkeypatch.undo()
        isolation._sweep(isolation._base_folder())
        os.rmdir(path, dir_fd=dir_fd)

    with isolation.run_folder("example") as folder:
        (folder / "tmp").rmdir()
        monkeypatch.setattr(os, "rmdir", sweep_first)
    assert not folder.exists()


def test_a_file_that_vanishes_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends without error if a file vanishes while the run removes its folder.

    For example, a process of the run may remove its own file.
    """
    unlink = os.unlink

    def vanish(path: str, *, dir_fd: int | None = None) -> None:
        unlink(path, dir_fd=dir_fd)
        raise FileNotFoundError(path)

    with isolation.run_folder("example") as folder:
        (folder / "tmp" / "one").touch()
        (folder / "two").touch()
        monkeypatch.setattr(os, "unlink", vanish)
    monkeypatch.undo()
    assert not folder.exists()


def test_a_folder_that_others_may_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setattr(isolation, "Path", lambda _path: tmp_path)
    with pytest.raises(isolation.TestbedError, match="not a private folder"):
        isolation._base_folder()


def test_an_end_that_is_asked_for_amid_a_fork_is_not_lost() -> None:
    before = {number: signal.getsignal(number) for number in (*isolation.STOPPING, signal.SIGALRM)}
    ends = []

    def fork_and_end() -> None:
        with isolation.uninterrupted():
            ends.append(signal.SIGTERM)
            if (child := os.fork()) == 0:
                os._exit(0)
            os.waitpid(child, 0)

    isolation.interruptible()
    os.register_at_fork(before=lambda: ends and os.kill(os.getpid(), ends.pop()))
    try:
        with pytest.raises(isolation.Interrupted):
            fork_and_end()
    finally:
        isolation.end_interrupt()
        for number, handler in before.items():
            signal.signal(number, handler)
