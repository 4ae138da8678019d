"""Setup of queue pairs over TCP: the controller of a switch requests a target from a collector.

Messages have the same header in both directions. Numbers are in network byte order:

    magic "TLMK", version (1 byte: 1), kind (1 byte), length of the rest (2 bytes)
    ASK    transport (1: 0 RC, 1 UC), access (1), 2 bytes of zeros, QPN (4), first PSN (4), GID (16)
    TARGET the same fields of the collector, then R_Key (4), path MTU (4), base (8), length (8)
    REFUSE reason, in UTF-8

The collector closes the queue pair when the TCP connection ends. After the setup, no messages are
sent over the connection. If the connection ends, the controller connects again with a new PSN.
"""

import asyncio
import contextlib
import struct
from ipaddress import IPv6Address
from typing import NamedTuple

from collectors.roce.endpoint import Access, Domain, Endpoint, Peer, Target, Transport, gid
from telemark.errors import TestbedError

MAGIC, VERSION = b"TLMK", 1
ASK, TARGET, REFUSE = 1, 2, 3
TIMEOUT_S = 5.0  # maximum time until a message is complete
_HEAD = struct.Struct("!4sBBH")
_ENDS = struct.Struct("!BBHII16s")
_MEMORY = struct.Struct("!IIQQ")
_TRANSPORTS = (Transport.RC, Transport.UC)


class Request(NamedTuple):
    """Request from a controller."""

    peer: Peer
    transport: Transport
    access: Access


class Lease:
    """A queue pair that was set up over TCP."""

    def __init__(
        self, target: Target, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.target = target
        self._reader, self._writer = reader, writer

    async def ended(self) -> None:
        """Wait until the collector closes the connection, e.g. because it restarts."""
        with contextlib.suppress(ConnectionError):
            await self._reader.read(1)

    async def close(self) -> None:
        """Close the connection. Then the collector closes the queue pair."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


async def serve(endpoint: Endpoint, domain: Domain, address: str, port: int) -> asyncio.Server:
    """Give targets in a domain to controllers. Raises OSError if the port is in use."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = None
        try:
            asked = _read_ask(*await _receive(reader))
            target = endpoint.connect(
                domain, asked.peer, transport=asked.transport, access=asked.access
            )
            writer.write(_message(TARGET, _target(target, asked.access)))
            await reader.read(1)  # returns when the peer closes the connection, or sends more data
        except (TestbedError, ValueError) as error:
            writer.write(_message(REFUSE, str(error).encode()))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.TimeoutError):
            pass  # the peer has gone, or uses another protocol
        finally:
            if target is not None:
                endpoint.disconnect(target.qpn)
            writer.close()

    return await asyncio.start_server(answer, address, port)


async def lease(
    address: str, port: int, peer: Peer, *, transport: Transport = Transport.RC,
    access: Access = Access.WRITE,
) -> Lease:  # fmt: skip
    """Request a target from a collector.

    Raises TestbedError if the collector rejects the request or is unreachable.
    """
    where = f"collector at {address}, port {port}"
    try:
        reader, writer = await asyncio.open_connection(address, port)
    except OSError as error:
        raise TestbedError(f"{where}: {error.strerror or error}") from error
    ends = _ENDS.pack(_TRANSPORTS.index(transport), access, 0, peer.qpn, peer.psn,
                      gid(peer.address))  # fmt: skip
    writer.write(_message(ASK, ends))
    try:
        return Lease(_read_target(*await _receive(reader)), reader, writer)
    except (TestbedError, ValueError) as error:
        writer.close()
        raise TestbedError(f"{where}: {error}") from error
    except (asyncio.IncompleteReadError, asyncio.TimeoutError, OSError) as error:
        writer.close()
        raise TestbedError(f"{where}: no response") from error


async def _receive(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Receive a message. Return its kind and its content. Raises ValueError."""

    async def both() -> tuple[int, bytes]:
        magic, version, kind, length = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        if (magic, version) != (MAGIC, VERSION):
            raise ValueError(f"magic {magic!r}, version {version}: expected {MAGIC!r}, {VERSION}")
        return kind, await reader.readexactly(length)

    return await asyncio.wait_for(both(), TIMEOUT_S)


def _message(kind: int, content: bytes) -> bytes:
    return _HEAD.pack(MAGIC, VERSION, kind, len(content)) + content


def _target(target: Target, access: Access) -> bytes:
    return _ENDS.pack(
        _TRANSPORTS.index(target.transport), access, 0, target.qpn, target.psn, gid(target.address)
    ) + _MEMORY.pack(target.rkey, target.path_mtu, target.base, target.length)


def _read_ends(content: bytes) -> Request:
    transport, access, _, qpn, psn, packed = _ENDS.unpack(content)
    if transport >= len(_TRANSPORTS) or access not in (1, 2, 3):
        raise ValueError(f"transport {transport}, access {access}: expected 0 or 1, and 1 to 3")
    return Request(Peer(_address(packed), qpn, psn), _TRANSPORTS[transport], Access(access))


def _read_ask(kind: int, content: bytes) -> Request:
    if kind != ASK or len(content) != _ENDS.size:
        raise ValueError(f"message of kind {kind}, {len(content)} bytes: expected {ASK}, 28")
    return _read_ends(content)


def _read_target(kind: int, content: bytes) -> Target:
    if kind == REFUSE:
        raise ValueError(f"refused: {content.decode(errors='replace')}")
    if kind != TARGET or len(content) != _ENDS.size + _MEMORY.size:
        raise ValueError(f"message of kind {kind}, {len(content)} bytes: expected {TARGET}, 52")
    ends = _read_ends(content[: _ENDS.size])
    rkey, path_mtu, base, length = _MEMORY.unpack(content[_ENDS.size :])
    peer = ends.peer
    return Target(peer.address, peer.qpn, peer.psn, rkey, base, length, path_mtu, ends.transport)


def _address(packed: bytes) -> str:
    """Convert a GID to an address. An IPv4-mapped GID gives IPv4, any other gives IPv6."""
    address = IPv6Address(packed)
    return str(address.ipv4_mapped or address)
