"""Reader of pcap files into numpy arrays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from minip4.simulator.shared import PAYLOAD
from telemark.errors import TestbedError
from telemark.traffic.flows import Flow

# magic number of pcap files with nanosecond timestamps, in the byte order of this machine
MAGIC_NS = 0xA1B23C4D
FILE_HEADER_BYTES = 24
RECORD = np.dtype([("s", "<u4"), ("ns", "<u4"), ("captured", "<u4"), ("length", "<u4")])
ETHERTYPE, IP, UDP = 12, 14, 34  # offsets in a frame without VLAN tags and IPv4 options
IPV4, UDP_PROTOCOL = 0x0800, 17


@dataclass(frozen=True)
class Frames:
    """Frames of a capture in order: times, lengths and bytes.

    Times are in ns of CLOCK_MONOTONIC. Lengths are those on the wire.

    `bytes` has one row per frame. All rows have the same width: longer frames are truncated, and
    shorter frames are padded with zeros.
    """

    time_ns: NDArray[np.uint64]
    length: NDArray[np.uint32]
    bytes: NDArray[np.uint8]


@dataclass(frozen=True)
class CapturedFrame:
    """One frame of a capture."""

    time_ns: int  # CLOCK_MONOTONIC
    length: int  # number of bytes on the wire
    bytes: bytes  # fewer than `length` bytes if the frame was truncated


@dataclass(frozen=True)
class FlowFrames:
    """Frames of one flow, ordered by time."""

    time_ns: NDArray[np.uint64]
    sequence: NDArray[np.int64]
    dscp: NDArray[np.uint8]


def read_frames(path: Path) -> tuple[list[int], list[bytes]]:
    """Read the times and the bytes of the frames in any pcap file, for replay.

    Times are in ns since the first frame.

    Raises TestbedError for truncated frames, for link types other than Ethernet, and for files that
    are not pcap files.
    """
    # Imported late, because scapy takes 0.1 s to load and read() does not need it.
    from scapy.data import DLT_EN10MB  # noqa: PLC0415
    from scapy.error import Scapy_Exception  # noqa: PLC0415
    from scapy.utils import RawPcapNgReader, RawPcapReader  # noqa: PLC0415

    times_ns: list[int] = []
    frames: list[bytes] = []
    try:
        with RawPcapReader(str(path)) as reader:
            if isinstance(reader, RawPcapNgReader):
                raise TestbedError(f"{path}: pcapng; convert it with `editcap -F nsecpcap`")
            if reader.linktype != DLT_EN10MB:
                raise TestbedError(f"{path}: link type {reader.linktype}; expected Ethernet")
            for frame, meta in reader:
                if len(frame) != meta.wirelen:
                    raise TestbedError(
                        f"{path}: frame {len(frames) + 1} is truncated; capture whole frames"
                    )
                times_ns.append(meta.sec * 10**9 + meta.usec * (1 if reader.nano else 1000))
                frames.append(bytes(frame))
    except (Scapy_Exception, OSError) as error:
        raise TestbedError(f"{path}: {error}") from None
    return [time_ns - times_ns[0] for time_ns in times_ns], frames


def read(path: Path, width: int = 128) -> Frames:
    """Read a capture file, with nanoseconds and in the byte order of this machine.

    Raises TestbedError for other files, or if the last frame of the file is incomplete.
    """
    data = np.fromfile(path, np.uint8)
    if len(data) < FILE_HEADER_BYTES or data[:4].view("<u4")[0] != MAGIC_NS:
        raise TestbedError(f"{path}: not a pcap file with nanosecond timestamps")
    runs = [*_runs(path, data)]
    count = sum(len(run) for run in runs)
    records = np.zeros(count, RECORD)
    matrix = np.zeros((count, width), np.uint8)
    row = 0
    for run in runs:
        frames = run[:, RECORD.itemsize : RECORD.itemsize + width]
        matrix[row : row + len(run), : frames.shape[1]] = frames
        records[row : row + len(run)] = _headers(run)
        row += len(run)
    times = records["s"].astype(np.uint64) * 1_000_000_000 + records["ns"]
    return Frames(times, records["length"], matrix)


def iterate_frames(path: Path) -> Iterator[CapturedFrame]:
    """Yield the frames of a capture file. Raises TestbedError like read()."""
    for run in _runs(path, np.fromfile(path, np.uint8)):
        headers = _headers(run)
        times_ns = headers["s"].astype(np.int64) * 1_000_000_000 + headers["ns"]
        for time_ns, length, row in zip(
            times_ns.tolist(), headers["length"].tolist(), run, strict=True
        ):
            yield CapturedFrame(time_ns, length, row[RECORD.itemsize :].tobytes())


def shift(path: Path, to: Path, offset_ns: int) -> None:
    """Copy a capture with an offset added to its times. Raises TestbedError like read()."""
    data = np.fromfile(path, np.uint8)
    for run in _runs(path, data):
        headers = _headers(run).copy()
        times = headers["s"].astype(np.int64) * 1_000_000_000 + headers["ns"] + offset_ns
        headers["s"], headers["ns"] = np.divmod(times, 1_000_000_000)
        run[:, : RECORD.itemsize] = headers.view(np.uint8).reshape(-1, RECORD.itemsize)
    # tofile() does not report that the disk is full when it writes the last bytes
    to.write_bytes(data.data)


def read_flow(path: Path, flow: Flow) -> FlowFrames:
    """Read the frames of a flow (telemark/backends/real/c/send.c) from a capture file."""
    return read_flows(path, [flow])[flow.id]


def read_flows(path: Path, flows: Sequence[Flow]) -> dict[int, FlowFrames]:
    """Read the frames of several flows from a capture file; return a map from flow id to frames."""
    frames = read(path)
    data = frames.bytes
    datagrams = np.flatnonzero(
        (_big_endian_16(data, ETHERTYPE) == IPV4) & (data[:, IP + 9] == UDP_PROTOCOL)
    )
    data = data[datagrams]
    payload = np.ascontiguousarray(data[:, UDP + 8 : UDP + 8 + PAYLOAD.itemsize])
    fields = payload.view(PAYLOAD)[:, 0]
    # Sort by port and flow id; the stable sort keeps the frames of a flow ordered by time.
    keys = _big_endian_16(data, UDP + 2).astype(np.uint32) << 16 | fields["flow"]
    order = np.argsort(keys, kind="stable")
    wanted = np.array([flow.port << 16 | flow.id for flow in flows], np.uint32)
    starts, ends = (np.searchsorted(keys[order], wanted, side) for side in ("left", "right"))
    found = {}
    for flow, start, end in zip(flows, starts, ends, strict=True):
        rows = order[start:end]
        found[flow.id] = FlowFrames(
            frames.time_ns[datagrams[rows]],
            fields["sequence"][rows].astype(np.int64),
            data[rows, IP + 1] >> 2,
        )
    return found


def _runs(path: Path, data: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    """Split the records of a file into runs of equally long records; yield one matrix per run."""
    at = FILE_HEADER_BYTES
    while at < len(data):
        run, at = _run_of_equal_size(path, data, at)
        yield run


def _run_of_equal_size(
    path: Path, data: NDArray[np.uint8], at: int
) -> tuple[NDArray[np.uint8], int]:
    """Return the run of equally long records that starts at offset `at`, and the offset of its end.

    The array has one record per row.
    """
    if at + RECORD.itemsize > len(data):
        raise TestbedError(f"{path}: file ends within a frame")
    size = RECORD.itemsize + int(data[at : at + RECORD.itemsize].view(RECORD)["captured"][0])
    rows = (len(data) - at) // size
    if rows == 0:
        raise TestbedError(f"{path}: file ends within a frame")
    # First compare only 64 records: to compare all would be slow if the sizes alternate.
    for limit in (64, rows):
        run = data[at : at + min(limit, rows) * size].reshape(-1, size)
        other = np.flatnonzero(_headers(run)["captured"] != size - RECORD.itemsize)
        if len(other):
            run = run[: other[0]]
            break
    return run, at + len(run) * size


def _headers(run: NDArray[np.uint8]) -> NDArray[np.void]:
    return np.ascontiguousarray(run[:, : RECORD.itemsize]).view(RECORD)[:, 0]


def _big_endian_16(data: NDArray[np.uint8], at: int) -> NDArray[np.uint16]:
    return np.ascontiguousarray(data[:, at : at + 2]).view(">u2")[:, 0]
