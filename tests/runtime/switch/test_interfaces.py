"""Changes of the interfaces of a switch."""

import asyncio
from collections.abc import Iterator

import pytest
import wire

from minip4.runtime.switch.interfaces import Interfaces

WAIT_S = 20


@pytest.fixture
def namespace() -> Iterator[None]:
    with wire.namespace():
        wire.veth("s1", "h1", 2000)
        wire.run("ethtool -K s1 tx off")
        yield


def test_changes_of_mtu_and_checksum_offload(namespace: None) -> None:
    async def check() -> None:
        found: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        interfaces = Interfaces(
            {1: "s1"}, lambda *_: None, lambda *_: None, lambda *each: found.put_nowait(each)
        )
        interfaces.start()
        try:
            assert found.get_nowait() == (1, 2000)
            for command, mtu_bytes in (
                ("ethtool -K s1 tx on", 0),
                ("ethtool -K s1 tx off", 2000),
                ("ip link set s1 mtu 1500", 1500),
            ):
                wire.run(command)
                assert await asyncio.wait_for(found.get(), WAIT_S) == (1, mtu_bytes)
        finally:
            interfaces.stop()

    asyncio.run(check())


def test_an_interface_that_is_deleted(namespace: None) -> None:
    async def check() -> None:
        down: asyncio.Queue[tuple[int, bool]] = asyncio.Queue()
        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, each: problems.append(each))
        mtus: list[int] = []  # without None, for which there is no MTU to set
        interfaces = Interfaces(
            {1: "s1"}, lambda *each: down.put_nowait(each), lambda *_: None,
            lambda _, mtu_bytes: mtus.append(mtu_bytes),
        )  # fmt: skip
        interfaces.start()
        try:
            wire.run("ip link del s1")
            while await asyncio.wait_for(down.get(), WAIT_S) != (1, False):
                pass
        finally:
            interfaces.stop()
        assert (mtus, problems) == ([2000], [])

    asyncio.run(check())
