"""Calls to a Thrift server: the bytes of the binary protocol, and every other answer refused."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from testbed.errors import TestbedError
from testbed.real.targets.thrift import call_i32

NAME = b"simple_switch:set_depths"
# Version 1 and the kind, the name, call 0, a field of type i32 with number 1, the end.
CALL = (
    b"\x80\x01\x00\x01" + b"\x00\x00\x00\x18" + NAME + bytes(4) + b"\x08\x00\x01\x00\x00\x10\x00\0"
)
REPLY = (
    b"\x80\x01\x00\x02" + b"\x00\x00\x00\x18" + NAME + bytes(4) + b"\x08\x00\x00\xff\xff\xff\xfe\0"
)


@contextmanager
def server(answer: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A port that takes one call and gives one answer."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                asked.append(connection.recv(1000))
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1], asked
        thread.join()


def test_a_call_and_its_result() -> None:
    with server(REPLY) as (port, asked):
        assert call_i32(port, "simple_switch", "set_depths", 4096) == -2
    assert asked == [CALL]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (REPLY.replace(b"\x00\x02", b"\x00\x03", 1), "set_depths failed"),  # an exception
        (REPLY[:-1].replace(b"\x08\x00\x00\xff", b"\x0b\x00\x00\xff"), "set_depths failed"),
        (REPLY[:6], "in the middle of its answer"),
        (REPLY[:20], "in the middle of its answer"),
        (REPLY[:-3], "set_depths failed"),
        (b"", "in the middle of its answer"),
        (b"\x80\x01\x00\x02\x7f\xff\xff\xff", "in the middle of its answer"),
        (b"\x80\x01\x00\x02\xff\xff\xff\xff", "in the middle of its answer"),
    ],
)
def test_any_other_answer_is_refused(answer: bytes, words: str) -> None:
    with server(answer) as (port, _), pytest.raises(TestbedError, match=words):
        call_i32(port, "simple_switch", "set_depths", 4096)
