"""Two drivers exchange frames over a memory link (minip4/ports/c/memory_link.h).

h1 - s1 [near] m1 ~ m2 [far] s2 - h2: both engines forward between their two ports.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import wire
from test_ports import MTU, Forwarder, port_counters
from wire import await_true, frame

from minip4.ports.driver import Driver, DriverError, Workers

FRAME_SIZE = 1024
FIT = 256 * 63  # frames of this size that fit into the chunks of memory_link.c


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(1)
    yield workers
    workers.close()


@pytest.fixture
def namespace(workers: Workers) -> Iterator[None]:
    with wire.namespace():
        for left, right in (("h1", "s1"), ("m1", "m2"), ("s2", "h2")):
            wire.veth(left, right, MTU)
        yield


@pytest.fixture
def near(namespace: None, workers: Workers) -> Iterator[Driver]:
    driver = near_driver(workers)
    driver.start()
    yield driver
    driver.stop()


def near_driver(workers: Workers) -> Driver:
    return Driver(Forwarder(), {1: "s1", 2: "m1"}, workers=workers, memory_links={2: ("link", 0)})


def far_driver(workers: Workers) -> Driver:
    return Driver(Forwarder(), {1: "m2", 2: "s2"}, workers=workers, memory_links={1: ("link", 1)})


@pytest.fixture
def far(near: Driver, workers: Workers) -> Iterator[Driver]:
    driver = far_driver(workers)
    driver.start()
    yield driver
    driver.stop()


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
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for first in range(0, 20_000, 500):
            for number in range(first, first + 500):
                sender.send(frame(FRAME_SIZE, number))
            got = [int.from_bytes(receiver.recv(65536)[14:18], "big") for _ in range(500)]
            assert got == [*range(first, first + 500)]


def test_frames_that_do_not_fit_are_counted(near: Driver, workers: Workers) -> None:
    waiting = far_driver(workers)  # not started, so that it receives nothing
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for number in range(FIT + 20):
            sender.send(frame(FRAME_SIZE, number))
        await_true(lambda: port_counters(near, 2)["transmit_kernel_drops"] == 20)
        assert port_counters(near, 2)["transmitted_packets"] == FIT
        waiting.start()
        got = [int.from_bytes(receiver.recv(65536)[14:18], "big") for _ in range(FIT)]
        assert got == [*range(FIT)]
    waiting.stop()


def test_without_a_switch_at_the_other_end_frames_are_lost(near: Driver, workers: Workers) -> None:
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for _ in range(FIT + 20):
            sender.send(frame(FRAME_SIZE))
        await_true(lambda: port_counters(near, 2)["transmitted_packets"] == FIT + 20)
        later = far_driver(workers)
        later.start()
        sender.send(last := frame(FRAME_SIZE))
        assert receiver.recv(65536) == last  # it gets no older frame
        later.stop()
    assert port_counters(near, 2)["transmit_kernel_drops"] == 0


def test_a_switch_can_take_the_place_of_another(near: Driver, workers: Workers) -> None:
    """After a switch has stopped, another one can use its end of the memory link.

    Frames that the first switch did not read are lost, as in the ring of an interface.
    """
    first = far_driver(workers)  # not started, so that it receives nothing
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        sender.send(frame(FRAME_SIZE))
        await_true(lambda: port_counters(near, 2)["transmitted_packets"] == 1)
        first.stop(0)
        assert first.counters()["unread"] == 1
        second = far_driver(workers)
        second.start()
        sender.send(last := frame(FRAME_SIZE + 1))
        assert receiver.recv(65536) == last
        second.stop()


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


def test_frames_from_the_interface_also_arrive(far: Driver) -> None:
    with wire.end("m1") as injector, wire.end("h1") as sender, wire.end("h2") as receiver:
        injector.send(one := frame(100))
        assert receiver.recv(65536) == one
        sender.send(other := frame(100))
        assert receiver.recv(65536) == other


def test_arrival_times_are_those_of_sending(near: Driver, workers: Workers, tmp_path: Path) -> None:
    """Time in the memory link counts as waiting in the switch that receives the frame."""
    waiting = Driver(
        Forwarder(), {1: "m2", 2: "s2"}, workers=workers, memory_links={1: ("link", 1)},
        capture_folder=tmp_path,
    )  # fmt: skip
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


def test_an_end_that_is_in_use_is_refused(near: Driver, workers: Workers) -> None:
    with pytest.raises(DriverError, match="port 1@m2: Device or resource busy"):
        Driver(Forwarder(), {1: "m2", 2: "s2"}, workers=workers, memory_links={1: ("link", 0)})


def test_an_end_is_free_again_if_its_interface_cannot_be_used(
    near: Driver, workers: Workers
) -> None:
    for _ in range(2):
        with pytest.raises(DriverError, match="port 1@nosuch: No such device"):
            Driver(Forwarder(), {1: "nosuch"}, workers=workers, memory_links={1: ("link", 1)})


def test_a_recreated_interface_keeps_its_memory_link(namespace: None) -> None:
    workers = Workers(1)  # its thread is in the namespace, where it opens the new interface
    near, far = near_driver(workers), far_driver(workers)
    near.start()
    far.start()
    wire.run("ip link del m1")
    wire.veth("m1", "m2", MTU)
    near.reopen(2)
    far.reopen(1)
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for number in range(20):
            sender.send(frame(60, number))
            assert receiver.recv(65536)[14:18] == number.to_bytes(4, "big")
    near.stop()
    far.stop()
    workers.close()
