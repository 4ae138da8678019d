"""The real-time driver with an engine without P4 (forwarder.c), in a network namespace."""

import ctypes
import os
import select
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import wire
from wire import TIMEOUT_S, await_true, frame, pcap_records, run

from minip4 import ports
from minip4 import wire as links
from minip4.native.build import shared_object
from minip4.ports.driver import Driver, DriverError
from minip4.wire.shared import LinkConfig

SOURCES = [
    *sorted(links.C_FOLDER.glob("*.c")),
    *sorted(ports.C_FOLDER.glob("*.c")),
    Path(__file__).parent / "forwarder.c",
]
INCLUDE = [links.C_FOLDER, ports.C_FOLDER]
CPU_PORT = 320
MTU = 20_000


class Forwarder:
    """The engine of forwarder.c.

    The engine forwards between ports 1 and 2, and between 3 and the CPU port.
    """

    def __init__(self) -> None:
        with shared_object(SOURCES, include=INCLUDE) as path:
            self.library = ctypes.CDLL(str(path))
        self.library.engine_create.restype = ctypes.c_void_p
        self.handle = ctypes.c_void_p(self.library.engine_create(None, ctypes.c_uint64(1)))

    def set_link(self, **config: float) -> None:
        """Set the properties of the link of port 2."""
        self.library.engine_set_link(self.handle, 2, ctypes.byref(LinkConfig(**config)))

    def set_work(self, work_ns: int) -> None:
        """Set the time that the engine needs for each frame."""
        self.library.engine_set_work(self.handle, ctypes.c_uint64(work_ns))

    def lock(self) -> None:
        self.library.engine_lock(self.handle)

    def unlock(self) -> None:
        self.library.engine_unlock(self.handle)


@pytest.fixture
def namespace() -> Iterator[None]:
    with wire.namespace():
        for i in (1, 2, 3):
            wire.veth(f"s{i}", f"h{i}", MTU)
        yield


@pytest.fixture
def engine(namespace: None) -> Forwarder:
    return Forwarder()


@pytest.fixture
def driver(engine: Forwarder) -> Iterator[Driver]:
    driver = Driver(engine, {1: "s1", 2: "s2", 3: "s3"}, cpu_port=CPU_PORT)
    driver.start()
    yield driver
    driver.stop()


def port_counters(driver: Driver, number: int) -> dict[str, int]:
    ports = driver.counters()["ports"]
    assert isinstance(ports, dict)
    return ports[number]


@pytest.mark.parametrize(("source", "destination"), [(1, 2), (2, 1)])
def test_frames_of_any_length_pass_unchanged(driver: Driver, source: int, destination: int) -> None:
    lengths = [14, 15, 60, 64, 189, 190, 191, 192, 255, 1514, 2048, 4096, 9215, 9216, 60]
    frames = [frame(length) for length in lengths]
    with wire.end(f"h{source}") as sender, wire.end(f"h{destination}") as receiver:
        for sent in frames:
            sender.send(sent)
        assert [receiver.recv(65536) for _ in frames] == frames
    received, sent_on = port_counters(driver, source), port_counters(driver, destination)
    assert received["received_packets"] == sent_on["transmitted_packets"] == len(frames)
    assert received["received_bytes"] == sent_on["transmitted_bytes"] == sum(lengths)


def test_a_vlan_tag_is_put_back(driver: Driver) -> None:
    plain = frame(100)
    tags = [bytes.fromhex(tag) for tag in ("81006064", "88a80fff", "8100000181000002")]
    tagged = [plain[:12] + tag + plain[12:] for tag in tags]
    tagged.append(tagged[0] + os.urandom(1000))  # a frame that is too long for a slot of the ring
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for sent in tagged:
            sender.send(sent)
            received, ancillary, _, _ = receiver.recvmsg(65536, 256)
            status, *_, tci, tpid = struct.unpack("IIIHHHH", ancillary[0][2])  # tpacket_auxdata
            # TP_STATUS_VLAN_{TPID_,}VALID: the kernel has removed the tag at this end, too
            assert status & 0x50 == 0x50
            assert received[:12] + struct.pack("!HH", tpid, tci) + received[12:] == sent
    assert port_counters(driver, 2)["transmitted_bytes"] == sum(map(len, tagged))


def test_too_long_frames_are_counted_and_reported_once(
    driver: Driver, capfd: pytest.CaptureFixture[str]
) -> None:
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for length in (9217, 12_000, 60):
            sender.send(frame(length))
        assert len(receiver.recv(65536)) == 60
    assert port_counters(driver, 1)["receive_too_long"] == 2
    assert capfd.readouterr().err.count("longer than 9216 bytes") == 1


def test_frames_longer_than_the_mtu_are_send_errors(driver: Driver) -> None:
    run("ip link set s2 mtu 1500")
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        sender.send(frame(2000))
        sender.send(frame(60))
        assert len(receiver.recv(65536)) == 60
    assert port_counters(driver, 2)["transmit_errors"] == 1
    assert port_counters(driver, 2)["transmitted_packets"] == 1


def test_frames_that_the_kernel_refuses_hold_up_no_other(driver: Driver, engine: Forwarder) -> None:
    """Four frames that are too long for the host's interface do not delay the next frame.

    For these frames, the kernel returns ENOBUFS.
    """
    run("ip link set h2 mtu 1500")
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        engine.lock()
        for number in range(4):
            sender.send(frame(2000, number))
        sender.send(frame(60))
        engine.unlock()
        assert len(receiver.recv(65536)) == 60
    assert port_counters(driver, 2)["transmit_kernel_drops"] == 4
    assert port_counters(driver, 2)["transmit_retries"] == 4  # retries of a rejected batch
    assert port_counters(driver, 2)["transmitted_packets"] == 1


def test_a_stall_of_100_ms_at_100_kpps_loses_nothing(driver: Driver, engine: Forwarder) -> None:
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        engine.lock()
        for number in range(10_000):
            sender.send(frame(60, number))
        engine.unlock()
        for number in range(10_000):
            assert receiver.recv(65536)[14:18] == number.to_bytes(4, "big")
    assert port_counters(driver, 1)["receive_kernel_drops"] == 0


def test_frames_that_a_full_ring_drops_are_counted(driver: Driver, engine: Forwarder) -> None:
    sent = 20_000
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        engine.lock()
        for number in range(sent):
            sender.send(frame(60, number))
        engine.unlock()
        await_true(lambda: port_counters(driver, 1)["received_packets"] >= 16384)
        sender.send(frame(60, sent))
        while receiver.recv(65536)[14:18] != sent.to_bytes(4, "big"):
            pass
    counters = port_counters(driver, 1)
    assert counters["receive_kernel_drops"] >= sent - 16384 - 64
    assert counters["received_packets"] + counters["receive_kernel_drops"] == sent + 1


def test_an_interface_that_is_down_or_gone_harms_no_other_port(
    driver: Driver, capfd: pytest.CaptureFixture[str]
) -> None:
    with wire.end("h1") as one, wire.end("h2") as two:
        run("ip link set s2 down")
        for _ in range(3):
            one.send(frame(60))
        await_true(lambda: port_counters(driver, 2)["transmit_errors"] == 3)
        run("ip link set s2 up")
        one.send(frame(61))
        assert len(two.recv(65536)) == 61
        run("ip link del s2")
        one.send(frame(60))
        await_true(lambda: port_counters(driver, 2)["transmit_errors"] == 4)
    with wire.end("h3") as three:
        driver.cpu_send(frame(77))
        assert len(three.recv(65536)) == 77
    told = capfd.readouterr().err
    assert told.count("went down") == 2  # the second time because it was removed
    assert told.count("is gone") == 1
    used = driver.counters()["cpu_ns"]
    time.sleep(0.05)
    now = driver.counters()["cpu_ns"]
    assert isinstance(now, int)
    assert isinstance(used, int)
    assert now - used < 25_000_000  # the driver sleeps, because ppoll() reports no errors


def test_cpu_port_carries_frames_both_ways(driver: Driver) -> None:
    frames = [frame(60 + number, number) for number in range(100)]
    with wire.end("h3") as end:
        for sent in frames:
            assert driver.cpu_send(sent)
        assert [end.recv(65536) for _ in frames] == frames
        for sent in frames:
            end.send(sent)
        received: list[bytes] = []
        while len(received) < len(frames):
            assert select.select([driver.cpu_fd], [], [], TIMEOUT_S)[0]
            received += driver.cpu_receive()
        assert received == frames
        assert not select.select([driver.cpu_fd], [], [], 0)[0]
    assert not driver.cpu_send(bytes(9217))


def test_a_slow_controller_costs_only_its_own_frames(driver: Driver, engine: Forwarder) -> None:
    engine.lock()
    accepted = sum(driver.cpu_send(bytes(9000)) for _ in range(500))
    engine.unlock()
    assert accepted == 4 * 1024 * 1024 // 9004
    assert driver.counters()["from_cpu_drops"] == 500 - accepted
    await_true(lambda: port_counters(driver, 3)["transmitted_packets"] == accepted)


def test_stop_drains_rings_and_links(engine: Forwarder) -> None:
    engine.set_link(delay_ns=50_000_000)
    driver = Driver(engine, {1: "s1", 2: "s2"})
    driver.start()
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        engine.lock()
        for number in range(1000):
            sender.send(frame(60, number))
        engine.unlock()
        driver.stop()
        receiver.settimeout(0)
        assert sum(len(receiver.recv(65536)) == 60 for _ in range(1000)) == 1000
    assert driver.counters()["unread"] == 0


def test_a_delayed_frame_is_never_early(driver: Driver, engine: Forwarder) -> None:
    engine.set_link(delay_ns=20_000_000)
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for number in range(5):
            start_ns = time.monotonic_ns()
            sender.send(frame(60, number))
            receiver.recv(65536)
            assert time.monotonic_ns() - start_ns >= 20_000_000


def test_no_stamp_is_earlier_than_its_frame(engine: Forwarder, tmp_path: Path) -> None:
    """40 frames arrive while the switch is busy. No frame has a timestamp from before it was sent.

    A frame that arrives while the switch processes another one has a timestamp of its own.
    """
    engine.set_work(1_000_000)
    driver = Driver(engine, {1: "s1", 2: "s2"}, capture_folder=tmp_path)
    driver.start()
    sent_ns = []
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        engine.lock()
        for number in range(40):
            if number == 10:
                engine.unlock()
            if number >= 10:
                time.sleep(0.0002)
            sent_ns.append(time.monotonic_ns())
            sender.send(frame(60, number))
        for _ in sent_ns:
            receiver.recv(65536)
    driver.stop()
    stamps_ns = [time_ns for time_ns, _, _ in pcap_records(tmp_path / "s1_in.pcap")]
    assert len(stamps_ns) == len(sent_ns)
    assert all(stamp >= sent for stamp, sent in zip(stamps_ns, sent_ns, strict=True))


def test_a_swap_that_fails_changes_nothing(driver: Driver) -> None:
    driver._log_fd = 1 << 20  # no such descriptor
    with pytest.raises(DriverError, match="cannot create the driver"):
        driver.swap(Forwarder())
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        sender.send(sent := frame(60))
        assert receiver.recv(65536) == sent


def test_swap_loses_no_frame(driver: Driver, engine: Forwarder) -> None:
    count = 20_000

    def send() -> None:
        for number in range(count):
            sender.send(frame(60, number))
            if number % 8 == 0:
                time.sleep(0.0001)

    with wire.end("h1") as sender, wire.end("h2") as receiver:
        thread = threading.Thread(target=send)
        thread.start()
        swaps = 0
        while thread.is_alive():
            driver.swap(Forwarder())
            swaps += 1
            time.sleep(0.02)
        thread.join()
        for number in range(count):
            assert receiver.recv(65536)[14:18] == number.to_bytes(4, "big")
    assert swaps >= 3
    assert port_counters(driver, 1)["received_packets"] == count


def test_captures(engine: Forwarder, tmp_path: Path) -> None:
    engine.set_link(loss=0.3, seed=5)
    driver = Driver(engine, {1: "s1", 2: "s2"}, capture_folder=tmp_path, loss_folder=tmp_path)
    driver.start()
    start_ns = time.monotonic_ns()
    frames = [frame(60 + number % 200, number) for number in range(5000)]
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        for sent in frames:
            sender.send(sent)
        path = tmp_path / "s1_in.pcap"  # the driver writes it while it runs
        await_true(lambda: len(pcap_records(path)) == len(frames))
        driver.stop()
        receiver.settimeout(0)
        lost = pcap_records(tmp_path / "s2_lost.pcap")
        arrived = [receiver.recv(65536) for _ in range(len(frames) - len(lost))]
    assert driver.capture_error is None
    for name in ("s1_in", "s2_out"):
        captured = pcap_records(tmp_path / f"{name}.pcap")
        assert [data for _, _, data in captured] == [sent[:128] for sent in frames]
        assert [length for _, length, _ in captured] == [len(sent) for sent in frames]
        times = [time_ns for time_ns, _, _ in captured]
        assert times == sorted(times)
        assert start_ns <= times[0] <= times[-1] <= time.monotonic_ns()
    lost_numbers = {data[14:18] for _, _, data in lost}
    assert 0 < len(lost) < len(frames)
    assert [sent for sent in frames if sent[14:18] not in lost_numbers] == arrived
    assert pcap_records(tmp_path / "s2_in.pcap") == pcap_records(tmp_path / "s1_lost.pcap") == []


def test_a_capture_that_cannot_be_written_is_reported(engine: Forwarder, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "s1_in.pcap")
    pipe = os.open(tmp_path / "s1_in.pcap", os.O_RDONLY | os.O_NONBLOCK)
    driver = Driver(engine, {1: "s1", 2: "s2"}, capture_folder=tmp_path)
    driver.start()
    os.close(pipe)
    with wire.end("h1") as sender, wire.end("h2") as receiver:
        sender.send(frame(60))
        receiver.recv(65536)
    driver.stop()
    assert driver.capture_error == f"cannot write {tmp_path}/s1_in.pcap: Broken pipe"
    assert len(pcap_records(tmp_path / "s2_out.pcap")) == 1


@pytest.mark.parametrize(
    ("ports", "folder", "message"),
    [
        ({1: "none"}, None, "port 1@none: No such device"),
        ({1: "s1", 511: "s2"}, None, "port 511@s2: Invalid argument"),
        ({1: "s1"}, "/nonexistent", "cannot create a capture in /nonexistent: No such file"),
    ],
)
def test_files_that_cannot_be_opened_are_reported(
    engine: Forwarder, ports: dict[int, str], folder: str | None, message: str
) -> None:
    with pytest.raises(DriverError, match=message):
        Driver(engine, ports, capture_folder=Path(folder) if folder else None)
