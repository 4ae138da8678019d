"""The virtual machine: its files, its responses, its network, and its end."""

import lzma
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from wire import end, frame, namespace, veth

from telemark.backends.real.vm import initramfs, kernel, machine, nic
from telemark.backends.real.vm.host import machine_at
from telemark.backends.real.vm.machine import Machine, Socket
from telemark.errors import TestbedError

with_qemu = pytest.mark.skipif(machine.missing() is not None, reason=str(machine.missing()))
MAC = "02:00:00:00:00:01"


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Boot a virtual machine that uses the interface `card`; the peer of `card` is `here`.

    The thread of the tests can use both interfaces.
    """
    with namespace():
        veth("here", "card")
        with Machine(tmp_path_factory.mktemp("vm"), Socket("card", MAC)) as started:
            started.call(nic.configure, ["10.9.0.1/24"], {"10.9.0.2": "02:00:00:00:00:02"})
            assert "vm0" in subprocess.check_output(["ip", "link"]).decode()
            yield started
        # After the machine has ended, the interface belongs to its owner again.
        assert "vm0" not in subprocess.check_output(["ip", "link"]).decode()
        assert "ingress" not in subprocess.check_output(["tc", "qdisc"]).decode()
        with end("here") as here, end("card") as there:
            here.send(frame(100))
            assert len(there.recv(2000)) == 100


@with_qemu
def test_its_kernel_is_another_and_its_files_are_these(booted: Machine, tmp_path: Path) -> None:
    (tmp_path / "here").write_text("this machine's")
    assert booted.call(os.uname).release != os.uname().release
    assert booted.call(Path.read_text, tmp_path / "here") == "this machine's"


@with_qemu
def test_it_sorts_as_this_machine_does(booted: Machine) -> None:
    """NumPy sorts in the virtual machine as it does on this machine.

    NumPy in the virtual machine uses the widest instructions that the virtual CPU reports.
    """
    for count in (10, 1000):
        numbers = np.random.default_rng(1).permutation(count)
        assert booted.call(np.argsort, numbers).tolist() == np.argsort(numbers).tolist()


@with_qemu
def test_what_it_writes_stays_in_it(booted: Machine, tmp_path: Path) -> None:
    booted.call(Path.write_text, tmp_path / "there", "its own")
    assert booted.call(Path.read_text, tmp_path / "there") == "its own"
    assert not (tmp_path / "there").exists()


@with_qemu
def test_an_error_in_it_is_told_and_the_next_call_works(booted: Machine) -> None:
    with pytest.raises(TestbedError, match=r"in the virtual machine: (?s:.*)ZeroDivisionError"):
        booted.call(divmod, 1, 0)
    assert booted.call(divmod, 7, 2) == (3, 1)


@with_qemu
def test_objects_live_in_it(booted: Machine) -> None:
    path = booted.make(Path, "/proc/self/comm")
    assert path.read_text() == "python\n"
    assert path.with_name(name="x") == Path("/proc/self/x")
    assert booted.call(str, path) == "/proc/self/comm"


@with_qemu
def test_more_than_the_channel_holds_goes_both_ways(booted: Machine) -> None:
    assert booted.call(bytes.upper, b"a" * 3_000_000) == b"A" * 3_000_000


@with_qemu
def test_frames_go_to_the_card_and_come_from_it_as_they_are(booted: Machine) -> None:
    """The virtual machine replies to an ARP request.

    The kernel that owns the interface does not reply.
    """
    question = bytes.fromhex(
        "ffffffffffff 020000000002 0806 0001 0800 06 04 0001 020000000002 0a090002 000000000000 "
        "0a090001"
    )
    answer = bytes.fromhex(
        "020000000002 020000000001 0806 0001 0800 06 04 0002 020000000001 0a090001 020000000002 "
        "0a090002"
    )
    with end("here") as packets:
        packets.send(question)
        assert packets.recv(2000) == answer


@with_qemu
def test_it_has_an_rxe(booted: Machine) -> None:
    link = booted.call(subprocess.check_output, ["rdma", "link"]).decode()
    assert "link rxe0/1 state ACTIVE physical_state LINK_UP netdev eth0" in link


@with_qemu
def test_it_ends_with_its_owner_however_that_ends(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", (
        f"import sys, pathlib; sys.path[:0] = {sys.path}\n"
        "from telemark.backends.real.vm.machine import Machine\n"
        f"with Machine(pathlib.Path({str(tmp_path)!r})): pass\n"
    )])  # fmt: skip
    children = Path(f"/proc/{owner.pid}/task/{owner.pid}/children")
    qemu = None
    while qemu is None and owner.poll() is None:
        for pid in children.read_text().split():
            if b"qemu-system" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]:
                qemu = Path(f"/proc/{pid}/stat")
    assert qemu is not None
    owner.kill()
    owner.wait()
    deadline_s = time.monotonic() + 60
    while qemu.exists() and qemu.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline_s, "it outlived its owner"
        time.sleep(0.01)


@with_qemu
def test_a_timeout_at_start_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "BOOT_S", 0.1)
    with pytest.raises(TestbedError, match=r"no response within 0\.1 s"), Machine(tmp_path):
        pass


def test_one_that_does_not_answer_in_time_is_ended(tmp_path: Path) -> None:
    """A virtual machine is ended if it does not respond to a call in time.

    Otherwise, the caller would take its late response for the response to the next call.
    """
    late = Machine(tmp_path)
    with subprocess.Popen(
        ["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as late._qemu:
        with pytest.raises(TestbedError, match=r"no response within 0\.1 s"):
            late.call(divmod, 7, 2, timeout_s=0.1)
        assert late._qemu.wait(60) == -9


def test_there_is_none_at_a_host_in_virtual_time(tmp_path: Path) -> None:
    with (
        pytest.raises(TestbedError, match="host h2: a virtual machine needs --time real"),
        machine_at(SimpleNamespace(name="h2"), tmp_path, {}),
    ):
        pass


def test_without_qemu_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert machine.missing() == "qemu-system-x86_64 is not installed; run ./setup.sh --rdma"


def test_without_a_kernel_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernel, "FOLDER", tmp_path)
    # This file is from an earlier version, which needed fewer modules.
    (tmp_path / "order").write_text("9p.ko\n")
    with pytest.raises(
        TestbedError, match=r"no kernel for a virtual machine; run \./setup\.sh --rdma"
    ):
        kernel.find()


def test_a_kernel_is_unpacked_whatever_lies_around_it() -> None:
    head = bytearray(1024)
    head[0x1F1] = 1
    for inner, packed in ((b"kernel", lzma.compress(b"kernel")), (None, b"\x28\xb5\x2f\xfd")):
        struct.pack_into("<I", head, 0x248, 7)
        image = bytes(head) + bytes(7) + packed + b"behind"
        assert kernel.unpacked(image) == (inner or image)


def test_modules_load_behind_those_that_they_need(tmp_path: Path) -> None:
    for name, needs in (("a-top", "middle,low-er"), ("middle", "low_er"), ("low-er", "")):
        (tmp_path / f"{name}.ko").write_bytes(b"\0license=GPL\0depends=%b\0" % needs.encode())
    files = [*tmp_path.iterdir()]
    order = [path.stem for path in kernel.loading_order(("a_top",), files)]
    assert order == ["low-er", "middle", "a-top"]
    with pytest.raises(TestbedError, match="kernel: no module absent"):
        kernel.loading_order(("absent",), files)


@pytest.mark.skipif(not initramfs.BUSYBOX.exists(), reason="there is no busybox")
def test_the_archive_is_one_that_others_read(tmp_path: Path) -> None:
    module = tmp_path / "odd.ko"
    module.write_bytes(b"12345")
    (tmp_path / "archive").write_bytes(initramfs.archive([module], ["/bin/program", "it's"]))
    subprocess.run([initramfs.BUSYBOX, "cpio", "-idF", "archive"], cwd=tmp_path, check=True)
    assert (tmp_path / "modules/odd.ko").read_bytes() == b"12345"
    assert (tmp_path / "bin/busybox").read_bytes() == initramfs.BUSYBOX.read_bytes()
    assert (tmp_path / "init").read_text().endswith("switch_root /root /bin/program 'it'\"'\"'s'\n")
