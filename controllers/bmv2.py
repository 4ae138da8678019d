"""Register access on bmv2 over Thrift.

bmv2's P4Runtime server does not support registers.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import finsy as fy
from finsy.p4entity import flatten
from finsy.p4schema import P4BitsType, P4Register

from telemark.backends.real.bmv2_thrift.client import Thrift
from telemark.errors import TestbedError


class Bmv2Connection(fy.Switch):  # type: ignore[misc]  # final, but registers need Thrift
    """Connection to a bmv2 switch. Requests for registers go to `thrift`.

    If a request contains registers and other entities, the other entities are handled first.
    """

    def __init__(self, *args: Any, thrift: Thrift, **options: Any) -> None:
        super().__init__(*args, **options)
        self._thrift = thrift

    async def read(self, entities: Any) -> AsyncIterator[Any]:  # type: ignore[override]
        """Read entities like finsy.

        Each cell of a register is returned as an entity with index and data.
        """
        registers, others = _parted(entities)
        # finsy declares read() as a coroutine in its overloads, but read() is an async generator.
        async for entity in super().read(others):  # type: ignore[attr-defined]
            yield entity
        for entry in registers:
            for found in await asyncio.to_thread(self._read_register, entry):
                yield found

    async def write(self, entities: Any, **options: Any) -> None:
        """Write entities; see finsy."""
        registers, others = _parted(entities)
        await super().write(others, **options)
        for entry in registers:
            await asyncio.to_thread(self._write_register, entry)

    async def modify(self, entities: Any, **options: Any) -> None:
        """Modify entities; see finsy."""
        registers, others = _parted(entities)
        await super().modify(others, **options)
        for entry in registers:
            await asyncio.to_thread(self._write_register, entry)

    def _read_register(self, entry: fy.P4RegisterEntry) -> list[fy.P4RegisterEntry]:
        registers = self.p4info.registers
        chosen = [registers[entry.register_id]] if entry.register_id else [*registers]
        return [
            fy.P4RegisterEntry(register.alias, index=index, data=value)
            for register in chosen
            for index, value in enumerate(self._cells(register, entry.index), entry.index or 0)
        ]

    def _cells(self, register: P4Register, index: int | None) -> list[int]:
        kind = _kind(register)
        _check_index(register, index)
        values = self._thrift.read_register(register.name, kind.bitwidth, index)
        negative = 1 << kind.bitwidth - 1 if kind.signed else math.inf
        return [value - (1 << kind.bitwidth) if value >= negative else value for value in values]

    def _write_register(self, entry: fy.P4RegisterEntry) -> None:
        register = self.p4info.registers[entry.register_id]
        kind = _kind(register)
        # encode now: this raises an exception if a value is too large for its cell
        encoded = kind.encode_bytes(entry.data)
        value = int.from_bytes(encoded, "big", signed=kind.signed) % (1 << kind.bitwidth)
        _check_index(register, entry.index)
        first = 0 if entry.index is None else entry.index
        cells = range(first, register.size if entry.index is None else first + 1)
        self._thrift.write_register(register.name, value, cells)


def _kind(register: P4Register) -> P4BitsType:
    kind = register.type_spec
    if not isinstance(kind, P4BitsType):
        raise TestbedError(f"register {register.name}: on bmv2 cells are bit<W> or int<W>")
    return kind


def _check_index(register: P4Register, index: int | None) -> None:
    if index is not None and not 0 <= index < register.size:
        raise TestbedError(
            f"register {register.name}: index {index}, expected 0 to {register.size - 1}"
        )


def _parted(entities: Any) -> tuple[list[fy.P4RegisterEntry], list[Any]]:
    """Return the registers, and all other entities."""
    given = [*flatten([entities])]
    registers = [entity for entity in given if isinstance(entity, fy.P4RegisterEntry)]
    return registers, [entity for entity in given if not isinstance(entity, fy.P4RegisterEntry)]
