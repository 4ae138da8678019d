"""P4Runtime calls for registers have the same results on bmv2 as on minip4."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from harness import asynchronous, bench, config

from controllers.bmv2 import Bmv2Connection
from telemark.errors import TestbedError

PROGRAM = str(Path(__file__).parents[1] / "telemark" / "programs" / "registers")


class Cells:
    """Stand-in for telemark.backends.real.bmv2_thrift.client.Thrift."""

    def __init__(self) -> None:
        self.cells = {f"RegistersIngress.{name}": [0] * size
                      for name, size in (("packets", 4), ("below", 2), ("wide", 2))}  # fmt: skip

    def read_register(self, name: str, bits: int, index: int | None = None) -> list[int]:
        assert bits == {"packets": 32, "below": 8, "wide": 100}[name.rpartition(".")[2]]
        return self.cells[name] if index is None else [self.cells[name][index]]

    def write_register(self, name: str, value: int, cells: range) -> None:
        for index in cells:
            self.cells[name][index] = value


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[fy.Switch, Bmv2Connection, Cells]]:
    """Connect to two switches: one with P4Runtime registers, one with registers of the stand-in."""
    cells = Cells()
    async with bench(PROGRAM, primary=False) as one, bench(PROGRAM, primary=False) as other:
        options = fy.SwitchOptions(p4info=config(PROGRAM).p4info)
        plain = fy.Switch("s1", one.address, options)
        ours = Bmv2Connection("s1", other.address, options, thrift=cells)
        async with plain, ours:
            yield plain, ours, cells


async def read(switch: fy.Switch, *entities: Any) -> list[Any]:
    return [entity async for entity in switch.read(entities)]  # type: ignore[attr-defined]


@asynchronous
async def test_what_is_written_is_read_as_on_minip4() -> None:
    async with connected() as (plain, ours, cells):
        for switch in (plain, ours):
            await switch.write([~fy.P4RegisterEntry("packets", index=2, data=2**32 - 1)])
            await switch.write([[~fy.P4RegisterEntry("below", data=-100)]])
            await switch.modify([fy.P4RegisterEntry("wide", index=1, data=2**60)])
        assert cells.cells == {
            "RegistersIngress.packets": [0, 0, 2**32 - 1, 0],
            "RegistersIngress.below": [156, 156],
            "RegistersIngress.wide": [0, 2**60],
        }
        for name in ("packets", "below", "wide", ""):
            for index in (None, 1) if name else (None,):
                entry = fy.P4RegisterEntry(name, index=index)
                assert await read(ours, entry) == await read(plain, entry) != []


@asynchronous
async def test_other_entities_go_on_over_p4runtime() -> None:
    async with connected() as (_, ours, _cells):
        group = fy.P4MulticastGroupEntry(1, replicas=[(2, 1)])
        await ours.write([+group, ~fy.P4RegisterEntry("packets", index=0, data=9)])
        register = fy.P4RegisterEntry("packets", index=0)
        found = await read(ours, fy.P4MulticastGroupEntry(1), register)
        assert [type(entity) for entity in found] == [fy.P4MulticastGroupEntry, fy.P4RegisterEntry]
        assert found[1].data == 9


@pytest.mark.parametrize(
    ("entry", "error", "words"),
    [
        (fy.P4RegisterEntry("packets", index=4, data=1), TestbedError, "index 4, expected 0 to 3"),
        (fy.P4RegisterEntry("packets", index=0, data=2**32), ValueError, "bitwidth 32"),
        (fy.P4RegisterEntry("below", index=0, data=128), ValueError, "bitwidth 8"),
        (fy.P4RegisterEntry("nothing", index=0, data=1), ValueError, "nothing"),
    ],
)
def test_what_does_not_fit_is_refused(entry: Any, error: type[Exception], words: str) -> None:
    @asynchronous
    async def attempt() -> None:
        async with connected() as (_, ours, cells):
            with pytest.raises(error, match=words):
                await ours.write([~entry])
            assert not any(map(any, cells.cells.values()))

    attempt()


@asynchronous
async def test_readers_side_by_side_do_not_mix() -> None:
    async with connected() as (_, ours, cells):
        cells.cells["RegistersIngress.packets"] = [7, 8, 9, 10]
        several = [read(ours, fy.P4RegisterEntry("packets", index=index)) for index in range(4)]
        assert [entry.data for (entry,) in await asyncio.gather(*several)] == [7, 8, 9, 10]
