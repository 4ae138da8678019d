"""Captures: no access beyond a buffer, and no write into a buffer that is still being saved."""

import ctypes
import os
import struct
import threading
from pathlib import Path

import pytest

from minip4.native.build import shared_object
from minip4.wire import C_FOLDER

FILE_HEADER, RECORD_HEADER, SNAPLEN, BUFFER = 24, 16, 128, 256 * 1024
RECORDS = BUFFER // (RECORD_HEADER + SNAPLEN)  # full records per buffer; 64 bytes remain


class Captures:
    def __init__(self) -> None:
        with shared_object([C_FOLDER / "capture.c"]) as path:
            self.library = ctypes.CDLL(str(path))
        self.library.capture_set_create.restype = ctypes.c_void_p
        self.library.capture_open.restype = ctypes.c_void_p
        self.set = ctypes.c_void_p(self.library.capture_set_create())

    def open(self, path: Path) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.library.capture_open(self.set, bytes(path), SNAPLEN))

    def frame(self, capture: ctypes.c_void_p, number: int, length: int) -> None:
        frame = number.to_bytes(4, "big") + bytes(length - 4)
        self.library.capture_frame(capture, ctypes.c_uint64(number), frame, length)

    def close(self) -> None:
        assert self.library.capture_set_close(self.set, None, ctypes.c_size_t(0)) == 0


@pytest.fixture
def captures() -> Captures:
    return Captures()


def frames(data: bytes) -> list[tuple[int, int]]:
    """Return number and length of each frame of a capture.

    Assert that its time equals its number.
    """
    found, at = [], FILE_HEADER
    while at < len(data):
        seconds, ns, captured, length = struct.unpack_from("=4I", data, at)
        number = int.from_bytes(data[at + RECORD_HEADER :][:4], "big")
        assert (seconds, ns, captured) == (0, number, min(length, SNAPLEN))
        found.append((number, length))
        at += RECORD_HEADER + captured
    return found


@pytest.mark.parametrize("last", [48, 49, 56, 64, 65])
def test_a_record_that_the_buffer_has_no_room_for_goes_into_the_other_one(
    captures: Captures, last: int, tmp_path: Path
) -> None:
    """A record that does not fit into the rest of a buffer is in the other buffer, with its header.

    test_sanitized.py detects a write beyond a buffer.
    """
    lengths = [*RECORDS * [1500], last, 60]
    capture = captures.open(tmp_path / "pcap")
    for number, length in enumerate(lengths):
        captures.frame(capture, number, length)
    captures.close()
    assert frames((tmp_path / "pcap").read_bytes()) == [*enumerate(lengths)]


def test_a_flush_does_not_change_a_buffer_that_is_being_written(
    captures: Captures, tmp_path: Path
) -> None:
    """A flush while the writer saves a buffer changes no frame in this buffer.

    The file is a pipe without a reader, so the writer blocks while it saves the first buffer.
    """
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    capture = captures.open(tmp_path / "pipe")
    for number in range(RECORDS + 100):
        captures.frame(capture, number, 200)
    captures.library.capture_flush(captures.set)
    os.set_blocking(end, True)
    closing = threading.Thread(target=captures.close)
    closing.start()
    with open(end, "rb") as reader:
        data = reader.read()
    closing.join()
    assert [number for number, _ in frames(data)] == [*range(RECORDS + 100)]
