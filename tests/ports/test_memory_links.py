"""Two drivers exchange frames over a memory link (minip4/ports/c/memory_link.h).

h1 - s1 [near] m1 ~ m2 [far] s2 - h2: both engines forward between their two ports.
"""

import mmap
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import wire
from test_ports import INCLUDE, MTU, Forwarder, port_counters
from wire import await_true, frame

from minip4 import ports
from minip4.native.build import program
from minip4.ports.driver import Driver, DriverError

RING_SIZE = 2 << 20  # of memory_link.c
FRAME_SIZE = 1024  # frames of this size need 1,088 bytes in the ring
FIT = RING_SIZE // 1088
ASLEEP = 128  # offset of the flag of the reader at end 1


@pytest.fixture
def namespace() -> Iterator[None]:
    with wire.namespace():
        for left, right in (("h1", "s1"), ("m1", "m2"), ("s2", "h2")):
            wire.veth(left, right, MTU)
        yield


@pytest.fixture
def link(tmp_path: Path) -> Path:
    return tmp_path / "link"


@pytest.fixture
def near(namespace: None, link: Path) -> Iterator[Driver]:
    driver = near_driver(link)
    driver.start()
    yield driver
    driver.stop()


def near_driver(link: Path) -> Driver:
    return Driver(Forwarder(), {1: "s1", 2: "m1"}, memory_links={2: (link, 0)})


def far_driver(link: Path) -> Driver:
    return Driver(Forwarder(), {1: "m2", 2: "s2"}, memory_links={1: (link, 1)})


@pytest.fixture
def far(near: Driver, link: Path) -> Iterator[Driver]:
    driver = far_driver(link)
    driver.start()
    yield driver
    driver.stop()


def sum_of(driver: Driver, *counters: str) -> int:
    return sum(port_counters(driver, 2)[counter] for counter in counters)


def received_by_interface(interface: str) -> int:
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == interface:
            return int(counters.split()[1])
    raise AssertionError(interface)


@pytest.mark.parametrize(("source", "destination"), [("h1", "h2"), ("h2", "h1")])
def test_frames_of_any_length_pass_unchanged(far: Driver, source: str, destination: str) -> None:
    lengths = [14, 15, 48, 49, 60, 64, 112, 113, 1514, 9215, 9216, 60]
    frames = [frame(length) for length in lengths]
    with wire.end(source) as sender, wire.end(destination) as receiver:
        for sent in frames:
            sender.send(sent)
        assert [receiver.recv(65536) for _ in frames] == frames
    counters = port_counters(far, 1)
    which = "received" if source == "h1" else "transmitted"
    assert counters[f"{which}_packets"] == len(frames)
    assert counters[f"{which}_bytes"] == sum(lengths)


def test_they_do_not_pass_the_interfaces(far: Driver) -> None:
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        sender.send(frame(100))
        receiver.recv(65536)
    assert received_by_interface("m2") == 0


def test_each_frame_wakes_a_driver_that_sleeps(far: Driver) -> None:
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for number in range(500):  # the next frame is sent after both drivers had nothing to do
            sender.send(frame(60, number))
            assert receiver.recv(65536)[14:18] == number.to_bytes(4, "big")


def test_many_frames_stay_in_order(far: Driver) -> None:
    count = 20_000  # they need several rounds of the ring
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for first in range(0, count, 500):
            for number in range(first, first + 500):
                sender.send(frame(FRAME_SIZE, number))
            got = [int.from_bytes(receiver.recv(65536)[14:18], "big") for _ in range(500)]
            assert got == [*range(first, first + 500)]


def test_frames_that_do_not_fit_are_counted(near: Driver, link: Path) -> None:
    waiting = far_driver(link)  # not started, so that it receives nothing
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for number in range(FIT + 20):
            sender.send(frame(FRAME_SIZE, number))
        await_true(lambda: port_counters(near, 2)["transmit_kernel_drops"] == 20)
        assert port_counters(near, 2)["transmitted_packets"] == FIT
        assert port_counters(near, 2)["transmit_retries"] > 0
        waiting.start()
        got = [int.from_bytes(receiver.recv(65536)[14:18], "big") for _ in range(FIT)]
        assert got == [*range(FIT)]
    waiting.stop()


def test_a_full_link_delays_other_frames_once_per_batch(namespace: None, link: Path) -> None:
    """While a sender waits, it forwards no frames between its other ports either."""
    sending, waiting = near_driver(link), far_driver(link)
    drops = 500
    with wire.end("h1") as sender:
        for number in range(FIT + drops):
            sender.send(frame(FRAME_SIZE, number))
    sending.start()  # all frames are there, so it receives full batches
    await_true(lambda: port_counters(sending, 2)["transmit_kernel_drops"] == drops)
    assert 0 < port_counters(sending, 2)["transmit_retries"] < drops / 4
    sending.stop()
    waiting.stop()


def test_without_a_switch_at_the_other_end_frames_are_lost(near: Driver, link: Path) -> None:
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for _ in range(FIT + 20):
            sender.send(frame(FRAME_SIZE))
        await_true(lambda: port_counters(near, 2)["transmitted_packets"] == FIT + 20)
        later = far_driver(link)
        later.start()
        sender.send(last := frame(FRAME_SIZE))
        assert receiver.recv(65536) == last  # it gets no older frame
        later.stop()
    assert port_counters(near, 2)["transmit_kernel_drops"] == 0


def test_a_switch_that_was_killed_does_not_block_the_link(near: Driver, link: Path) -> None:
    child = os.fork()
    if not child:
        try:
            far_driver(link)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # its parent has not noticed yet
    with wire.end("h1") as sender:
        for _ in range(FIT + 20):
            sender.send(frame(FRAME_SIZE))
        await_true(lambda: sum_of(near, "transmitted_packets", "transmit_kernel_drops") == FIT + 20)
    assert port_counters(near, 2)["transmit_kernel_drops"] == 0
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def test_a_sender_that_was_killed_amid_a_wake_up_does_not_leave_the_reader_asleep(
    namespace: None, link: Path
) -> None:
    reader = far_driver(link)
    reader.start()
    with link.open("r+b") as file, mmap.mmap(file.fileno(), ASLEEP + 4) as shared:
        await_true(lambda: shared[ASLEEP] == 1)
        shared[ASLEEP] = 0  # as if a sender was killed before it wrote to the pipe
    restarted = near_driver(link)
    restarted.start()
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        sender.send(sent := frame(100))
        assert receiver.recv(65536) == sent
    restarted.stop()
    reader.stop()


def test_swap_loses_no_frame(near: Driver, far: Driver) -> None:
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for number in range(500):
            sender.send(frame(60, number))
            if number % 100 == 50:
                far.swap(Forwarder())
            if number % 100 == 80:
                near.swap(Forwarder())
            assert receiver.recv(65536)[14:18] == number.to_bytes(4, "big")
    assert port_counters(far, 1)["received_packets"] == 500


def test_a_late_byte_in_the_pipe_ends_one_sleep_only(far: Driver, link: Path) -> None:
    with link.with_name("link.1").open("wb", buffering=0) as pipe:
        pipe.write(b"x")
    before_ns, before_s = far.counters()["cpu_ns"], time.monotonic()
    assert isinstance(before_ns, int)
    time.sleep(0.3)  # CPU time is measured over this interval
    after_ns, took_s = far.counters()["cpu_ns"], time.monotonic() - before_s
    assert isinstance(after_ns, int)
    assert (after_ns - before_ns) / 1e9 < took_s / 10


def test_frames_from_the_interface_also_arrive(far: Driver) -> None:
    with wire.end("m1") as injector, wire.end("h1") as sender, wire.end("h2") as receiver:
        injector.send(one := frame(100))
        assert receiver.recv(65536) == one
        sender.send(other := frame(100))
        assert receiver.recv(65536) == other


def test_arrival_times_are_those_of_sending(near: Driver, link: Path, tmp_path: Path) -> None:
    """Time in the ring counts as waiting in the switch that receives the frame."""
    waiting = Driver(
        Forwarder(), {1: "m2", 2: "s2"}, memory_links={1: (link, 1)}, capture_folder=tmp_path
    )
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        sender.send(frame(100))
        await_true(lambda: port_counters(near, 2)["transmitted_packets"] == 1)
        sender.send(frame(100))
        await_true(lambda: port_counters(near, 2)["transmitted_packets"] == 2)
        waiting.start()
        for _ in range(2):
            receiver.recv(65536)
    waiting.stop()
    arrived, left = (wire.pcap_records(tmp_path / f"{name}.pcap") for name in ("m2_in", "s2_out"))
    assert arrived[0][0] < arrived[1][0] < left[0][0]


@pytest.mark.parametrize("mode", ["stream", "turns"])
def test_two_threads_that_sleep_and_wake_each_other_lose_no_frame(mode: str, link: Path) -> None:
    stress = program([Path(__file__).parent / "memory_link_stress.c",
                      ports.C_FOLDER / "memory_link.c"], include=INCLUDE)  # fmt: skip
    done = subprocess.run([stress, link, mode], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_link_that_cannot_be_opened_is_reported(namespace: None, tmp_path: Path) -> None:
    with pytest.raises(DriverError, match=r"memory link of port 2 in .*missing.*No such file"):
        Driver(Forwarder(), {1: "s1", 2: "m1"}, memory_links={2: (tmp_path / "missing" / "x", 0)})


def test_an_end_that_is_in_use_is_refused(near: Driver, link: Path) -> None:
    with pytest.raises(DriverError, match=r"memory link of port 1 in .*link: .*busy"):
        Driver(Forwarder(), {1: "m2", 2: "s2"}, memory_links={1: (link, 0)})


def test_a_link_without_memory_is_refused(namespace: None, tmp_path: Path) -> None:
    wire.run(f"mount -t tmpfs -o size=1m none {tmp_path}")
    try:
        with pytest.raises(DriverError, match=r"memory link of port 2 in .*: No space left"):
            near_driver(tmp_path / "link")
    finally:
        wire.run(f"umount -l {tmp_path}")
