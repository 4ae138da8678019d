"""Capture files: the reader returns arrays of frames of any size, and reports damaged files."""

import struct
from pathlib import Path

import numpy as np
import pytest

from telemark.accounting import pcap
from telemark.errors import TestbedError
from telemark.traffic.flows import Flow

FLOW = Flow(7, "h1", "h2", rate_pps=1, count=1)


def capture(frames: list[tuple[int, bytes]], snaplen: int = 128) -> bytes:
    """Return a capture file as switches write it; frames are (time in ns, bytes)."""
    data = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snaplen, 1)
    for time_ns, frame in frames:
        seconds, nanoseconds = divmod(time_ns, 10**9)
        kept = frame[:snaplen]
        data += struct.pack("<IIII", seconds, nanoseconds, len(kept), len(frame)) + kept
    return data


def frame(
    sequence: int, *, flow: int = 7, port: int = 5007, dscp: int = 0, protocol: int = 17,
    ethertype: int = 0x0800, size: int = 64,
) -> bytes:  # fmt: skip
    ethernet = bytes(12) + struct.pack("!H", ethertype)
    ip = struct.pack("!BBHIBBH", 0x45, dscp << 2, size - 14, 0, 64, protocol, 0) + bytes(8)
    udp = struct.pack("!HHHH", 40000, port, size - 34, 0)
    return (ethernet + ip + udp + struct.pack("!HQQ", flow, sequence, 123)).ljust(size, b"\0")


@pytest.mark.parametrize(
    "sizes",
    [[], [64], [64] * 1000, [64, 1500] * 100, [60, 61, 62, 9216], [64] * 200 + [65] * 200 + [64]],
    ids=["empty", "one", "equal", "alternating", "different", "runs"],
)
def test_frames_of_all_sizes(sizes: list[int], tmp_path: Path) -> None:
    frames = [(i * 999_999_999, frame(i, size=size)) for i, size in enumerate(sizes)]
    path = tmp_path / "x.pcap"
    path.write_bytes(capture(frames))
    read = pcap.read(path)
    assert read.time_ns.tolist() == [time_ns for time_ns, _ in frames]
    assert read.length.tolist() == sizes
    expected = [list(data[:128].ljust(128, b"\0")) for _, data in frames]
    assert read.bytes.tolist() == expected
    assert pcap.read_flow(path, FLOW).sequence.tolist() == list(range(len(sizes)))


def test_only_the_flow_is_read(tmp_path: Path) -> None:
    others = [
        frame(1, flow=8), frame(2, port=5008), frame(3, protocol=6), frame(4, ethertype=0x86DD),
    ]  # fmt: skip
    ours = [(50 + i, frame(2**40 + i, dscp=i)) for i in range(3)]
    path = tmp_path / "x.pcap"
    path.write_bytes(capture([*((i, data) for i, data in enumerate(others)), *ours]))
    read = pcap.read_flow(path, FLOW)
    assert read.time_ns.tolist() == [50, 51, 52]
    assert read.sequence.tolist() == [2**40, 2**40 + 1, 2**40 + 2]
    assert read.dscp.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a pcap file"),
        (b"\xd4\xc3\xb2\xa1" + bytes(20), "not a pcap file"),  # timestamps in microseconds
        (capture([(0, frame(0)), (1, frame(1))])[:-1], "ends within a frame"),
        (capture([(0, frame(0))]) + bytes(15), "ends within a frame"),
    ],
)
def test_broken_files_are_refused(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(data)
    with pytest.raises(TestbedError, match=words):
        pcap.read(path)


def test_a_million_frames_take_a_moment(tmp_path: Path) -> None:
    one = capture([(5, frame(5))])
    path = tmp_path / "x.pcap"
    path.write_bytes(one[:24] + one[24:] * 1_000_000)
    read = pcap.read_flow(path, FLOW)
    assert np.array_equal(read.sequence, np.full(1_000_000, 5))
