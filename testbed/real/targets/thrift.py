"""One call to bmv2's Thrift server: what P4Runtime cannot set, such as the depth of its queues.

The binary protocol (doc/specs/thrift-binary-protocol.md of Apache Thrift) over TCP, with the
service's name before the method's (TMultiplexedProtocol): for numbers as arguments and a number as
the result it is a page, and so each bmv2 can be set up without p4-utils, which few machines have.
"""

import socket
import struct

from testbed.errors import TestbedError

VERSION_1 = 0x80010000
CALL, REPLY = 1, 2
STOP, I32 = 0, 8  # types of fields
TIMEOUT_S = 5.0
LONGEST_NAME = 1000


def call_i32(port: int, service: str, method: str, *arguments: int) -> int:
    """The result of a method of 127.0.0.1's server, of i32 to i32; fields are numbered from 1.

    Raises OSError when nobody listens, and TestbedError for any other answer.
    """
    name = f"{service}:{method}".encode()
    fields = b"".join(
        struct.pack("!bhi", I32, number, value) for number, value in enumerate(arguments, start=1)
    )
    head = struct.pack("!Ii", VERSION_1 | CALL, len(name))
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as server:
        server.sendall(head + name + struct.pack("!i", 0) + fields + bytes([STOP]))
        with server.makefile("rb") as stream:
            kind, length = struct.unpack("!Ii", _exactly(stream.read(8), 8))
            named = min(max(length, 0), LONGEST_NAME) + 4
            _exactly(stream.read(named), length + 4)  # the method's name, the call's number
            field = stream.read(7)
    if kind != VERSION_1 | REPLY or len(field) < 7 or field[0] != I32:
        raise TestbedError(f"Thrift server at port {port}: {method} failed: {field.hex()}")
    return int(struct.unpack("!bhi", field)[2])


def _exactly(data: bytes, length: int) -> bytes:
    if len(data) != length:
        raise TestbedError("a Thrift server closed the connection in the middle of its answer")
    return data
