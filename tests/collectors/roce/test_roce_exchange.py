"""Queue pair setup over TCP, and reactions to hostile or foreign clients."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from collectors.roce import exchange
from collectors.roce.endpoint import Access, Peer, Target, Transport
from collectors.roce.region import Region
from collectors.roce.softnic import Limits, SoftNic
from telemark.errors import TestbedError

PEER = Peer("10.0.0.1", qpn=7, psn=5)


def served(body: Callable[[SoftNic, int], Awaitable[None]]) -> None:
    async def main() -> None:
        nic = SoftNic("10.0.0.2", limits=Limits(queue_pairs=2))
        domain = nic.register(Region(np.dtype("u1"), 64), rkey=0x1234)
        server = await exchange.serve(nic, domain, "127.0.0.1", 0)
        async with server:
            await body(nic, server.sockets[0].getsockname()[1])

    asyncio.run(main())


def test_a_target_is_leased_and_given_back() -> None:
    async def body(nic: SoftNic, port: int) -> None:
        for round_ in range(3):  # more in total than there are queue pairs
            lease = await exchange.lease("127.0.0.1", port, PEER, transport=Transport.UC)
            qpn = 0x100 + round_
            assert lease.target == Target(
                "10.0.0.2", qpn, 5, 0x1234, 1 << 32, 64, 1024, Transport.UC
            )
            assert nic.expected_psn(qpn) == 5
            await lease.close()
            while nic.expected_psn(qpn) is not None:
                await asyncio.sleep(0)

    served(body)


def test_no_data_follows_a_request_and_the_end_of_a_lease_is_detected() -> None:
    """Data after a request ends the lease, and the client detects this end.

    If data could follow a request, the server would have to store any amount of data.
    """

    async def body(nic: SoftNic, port: int) -> None:
        lease = await exchange.lease("127.0.0.1", port, PEER)
        waiting = asyncio.create_task(lease.ended())
        await asyncio.sleep(0)
        assert not waiting.done()
        lease._writer.write(b"x")
        await asyncio.wait_for(waiting, 60)
        assert nic.expected_psn(lease.target.qpn) is None
        await lease.close()

    served(body)


def test_ipv6_addresses_and_rights_come_through() -> None:
    async def body(nic: SoftNic, port: int) -> None:
        peer = Peer("fd00::1", qpn=0xABCDEF, psn=0xFFFFFF)
        lease = await exchange.lease("127.0.0.1", port, peer, access=Access.ATOMIC)
        assert (lease.target.psn, lease.target.transport) == (0xFFFFFF, Transport.RC)
        await lease.close()

    served(body)


def test_a_refusal_says_why() -> None:
    async def body(nic: SoftNic, port: int) -> None:
        leases = [await exchange.lease("127.0.0.1", port, PEER) for _ in range(2)]
        with pytest.raises(TestbedError, match="refused: all queue pairs are in use"):
            await exchange.lease("127.0.0.1", port, PEER)
        for lease in leases:
            await lease.close()

    served(body)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "magic b'GET '"),
        (b"TLMK\x02\x01\x00\x00", "version 2: expected b'TLMK', 1"),
        (b"TLMK\x01\x02\x00\x00", "message of kind 2, 0 bytes: expected 1, 28"),
        (b"TLMK\x01\x01\x00\x1c\x07\x01" + bytes(26), "transport 7"),
        (b"TLMK\x01\x01\x00\x1c\x00\x00" + bytes(26), "access 0"),
        (b"TLMK\x01\x01\x00\x1c\x00\x01\0\0\xff" + bytes(23), "expected 24 bits"),
    ],
)
def test_what_is_no_request_is_refused(sent: bytes, told: str) -> None:
    async def body(nic: SoftNic, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answer = await reader.read()
        assert answer[4:6] == b"\x01\x03"
        assert told in answer[8:].decode()
        writer.close()
        assert nic.expected_psn(0x100) is None

    served(body)


def test_no_collector_is_one_line() -> None:
    with pytest.raises(TestbedError, match=r"collector at 127\.0\.0\.1, port 1: "):
        asyncio.run(exchange.lease("127.0.0.1", 1, PEER))


def test_garbage_takes_nothing_and_stops_nothing() -> None:
    """Damaged requests get no response, occupy no queue pair, and do not stop the server.

    The test sends random bytes, and requests with some random fields.
    """
    rng, errors = random.Random(1), []

    async def body(nic: SoftNic, port: int) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        for _ in range(300):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            asked = bytearray(b"TLMK\1\1" + (28).to_bytes(2, "big") + bytes(28))
            for _ in range(rng.choice((1, 3, 30))):
                asked[rng.randrange(len(asked))] = rng.randrange(256)
            writer.write(bytes(asked) if rng.random() < 0.7 else rng.randbytes(99))
            writer.write_eof()
            await reader.read()
            writer.close()
        await (await exchange.lease("127.0.0.1", port, PEER)).close()

    served(body)
    assert errors == []


def test_an_answer_that_is_garbage_is_one_line() -> None:
    rng = random.Random(2)

    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = bytearray(b"TLMK\1\2" + (52).to_bytes(2, "big") + bytes(52))
        for _ in range(rng.choice((1, 8))):
            answer[rng.randrange(10)] = rng.randrange(3, 256)
        writer.write(bytes(answer))
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            for _ in range(100):
                with pytest.raises(
                    TestbedError, match=rf"^collector at 127\.0\.0\.1, port {port}: .+$"
                ):
                    await exchange.lease("127.0.0.1", port, PEER)

    asyncio.run(main())
