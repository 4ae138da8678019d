"""A switch frees its engine at its end, because its process may have other switches."""

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import wire

from minip4.errors import Minip4Error
from minip4.ports.driver import Driver, Workers
from minip4.runtime.switch.cli import NO_PROGRAM, add_arguments, switch_options
from minip4.runtime.switch.process import KILLED_STATUS, Switch


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers()
    yield workers
    workers.close()


def made(workers: Workers, *arguments: str, output: str = "/dev/null") -> Switch:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args([str(NO_PROGRAM), "--grpc-server-addr", "127.0.0.1:0", *arguments])
    return Switch(switch_options(args), workers, output=open(output, "w"))


def test_a_killed_switch(workers: Workers) -> None:
    async def scene() -> int:
        switch = made(workers)
        switch.request_end(is_killed=True)
        status = await switch.run()
        assert not switch._engine.handle
        return status

    assert asyncio.run(scene()) == KILLED_STATUS


def test_a_switch_that_cannot_start(workers: Workers, tmp_path: Path) -> None:
    async def scene() -> None:
        switch = made(workers, "--trace", str(tmp_path / "missing" / "trace"))
        with pytest.raises(Minip4Error, match=r"--trace .*: No such file or directory"):
            await switch.run()
        assert not switch._engine.handle

    asyncio.run(scene())


def test_a_switch_that_cannot_write_its_output(workers: Workers) -> None:
    async def scene() -> None:
        switch = made(workers, output="/dev/full")
        with pytest.raises(OSError, match="No space left"):
            await switch.run()
        assert not switch._driver._handle  # it is stopped
        assert not switch._engine.handle

    asyncio.run(scene())


def test_a_change_of_mtu_reaches_the_driver(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(Driver, "set_train_mtu", lambda _, *each: found.append(each))

    async def scene() -> None:
        switch = made(workers, "-i", "7@s1")
        running = asyncio.create_task(switch.run())
        while (7, 2000) not in found:
            await asyncio.sleep(0.01)
        wire.run("ip link set s1 mtu 1500")
        while (7, 1500) not in found:
            await asyncio.sleep(0.01)
        switch.request_end(is_killed=True)
        await running

    with wire.namespace():
        wire.run("ip link set lo up")
        wire.veth("s1", "h1", 2000)
        asyncio.run(asyncio.wait_for(scene(), 20))
