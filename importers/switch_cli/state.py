"""Commands for the state of a switch: registers, counters, meters and queues."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import finsy as fy
from finsy.p4schema import P4DirectCounter, P4DirectMeter, P4Table

from importers.switch_cli.commands import Answer, CommandError, command, find
from importers.switch_cli.tables import Tables

# A v1model meter has two rates: a packet is yellow above the first rate, and red above the second.
RATES = 2
PER_SECOND = 1_000_000  # factor, because rates in simple_switch_CLI are per microsecond
AT_ONCE = 1024  # maximum number of cells per write request


class State:
    """Registers, counters and meters of one switch.

    `note` is called with messages about values that were rounded.
    """

    def __init__(self, switch: fy.Switch, tables: Tables, note: Callable[[str], None]) -> None:
        self._switch = switch
        self._tables = tables
        self._note = note

    # --- registers --------------------------------------------------------------------------

    @command("register_read", reads=True)
    async def read_register(self, register: str, index: int | None = None) -> Answer:
        """Read one register cell, or all cells."""
        entry = fy.P4RegisterEntry(self._register(register).name, index=index)
        cells = [cell.data for cell in await self._cells(entry)]
        if index is None:
            return [f"{register}= " + ", ".join(str(int(value)) for value in cells)]
        return [f"{register}[{index}]= {int(cells[0])}"]

    @command("register_write")
    async def write_register(self, register: str, index: int, value: int) -> Answer:
        """Write one register cell."""
        name = self._register(register).name
        await self._switch.modify([fy.P4RegisterEntry(name, index=index, data=value)])
        return []

    @command("register_reset")
    async def reset_register(self, register: str) -> Answer:
        """Set all register cells to 0."""
        await self._switch.modify([fy.P4RegisterEntry(self._register(register).name, data=0)])
        return []

    # --- counters ---------------------------------------------------------------------------

    @command("counter_read", reads=True)
    async def read_counter(self, counter: str, index: int) -> Answer:
        """Read a counter cell, or the direct counter of the entry with this handle."""
        found = self._counter(counter)
        lines = []
        if isinstance(found, P4DirectCounter):
            table = self._table(found)
            entry = (await self._tables.handles(table.name))[index]
            cells = await self._cells(fy.P4DirectCounterEntry(table_entry=_entry_key(entry)))
            lines = [f"this is the direct counter for table {table.name}"]
        else:
            cells = await self._cells(fy.P4CounterEntry(found.name, index=index))
        data = cells[0].data
        count = f"({data.byte_count} bytes, {data.packet_count} packets)"
        return [*lines, f"{counter}[{index}]= {count}"]

    @command("counter_write")
    async def write_counter(self, counter: str, index: int, packets: int, size: int) -> Answer:
        """Set a counter cell."""
        found = self._counter(counter)
        data = fy.P4CounterData(byte_count=size, packet_count=packets)
        if isinstance(found, P4DirectCounter):
            entry = (await self._tables.handles(self._table(found).name))[index]
            await self._switch.modify(
                [fy.P4DirectCounterEntry(table_entry=_entry_key(entry), data=data)]
            )
        else:
            await self._switch.modify([fy.P4CounterEntry(found.name, index=index, data=data)])
        return []

    @command("counter_reset")
    async def reset_counter(self, counter: str) -> Answer:
        """Set all counter cells to 0."""
        found, nothing = self._counter(counter), fy.P4CounterData()
        if isinstance(found, P4DirectCounter):
            entries = (await self._tables.handles(self._table(found).name)).items()
            places = [_entry_key(entry) for _, entry in entries]
            await self._switch.modify(
                [fy.P4DirectCounterEntry(table_entry=place, data=nothing) for place in places]
            )
            return []
        for some in _slices(found.size):
            await self._switch.modify(
                [fy.P4CounterEntry(found.name, index=index, data=nothing) for index in some]
            )
        return []

    # --- meters -----------------------------------------------------------------------------

    @command("meter_set_rates")
    async def set_meter(self, meter: str, index: int, *rates: str) -> Answer:
        """Set the rates of a meter cell.

        For a direct meter, set the rates of the entry with this handle.
        """
        config, found = self._config(rates), self._meter(meter)
        if isinstance(found, P4DirectMeter):
            entry = (await self._tables.handles(self._table(found).name))[index]
            await self._set_direct([entry], config)
        else:
            await self._switch.modify([fy.P4MeterEntry(found.name, index=index, config=config)])
        return []

    @command("meter_array_set_rates")
    async def set_meters(self, meter: str, *rates: str) -> Answer:
        """Set the rates of all meter cells.

        For a direct meter, set the rates of all entries in its table.
        """
        config, found = self._config(rates), self._meter(meter)
        if isinstance(found, P4DirectMeter):
            entries = (await self._tables.handles(self._table(found).name)).items()
            await self._set_direct([entry for _, entry in entries], config)
            return []
        for some in _slices(found.size):
            await self._switch.modify(
                [fy.P4MeterEntry(found.name, index=index, config=config) for index in some]
            )
        return []

    @command("meter_get_rates", reads=True)
    async def read_meter(self, meter: str, index: int) -> Answer:
        """Read the rates of a meter cell.

        For a direct meter, read the rates of the entry with this handle.
        """
        found = self._meter(meter)
        if isinstance(found, P4DirectMeter):
            entry = (await self._tables.handles(self._table(found).name))[index]
            cells = await self._cells(fy.P4DirectMeterEntry(table_entry=_entry_key(entry)))
        else:
            cells = await self._cells(fy.P4MeterEntry(found.name, index=index))
        config = cells[0].config
        if config is None:
            return []
        pairs = [(config.cir, config.cburst), (config.pir, config.pburst)]
        return [f"{number}: info rate = {rate / PER_SECOND}, burst size = {burst}"
                for number, (rate, burst) in enumerate(pairs)]  # fmt: skip

    # --- shared -----------------------------------------------------------------------------

    async def _cells(self, entity: Any) -> list[Any]:
        found: Any = self._switch.read(entity)  # see controllers.tables
        return [cell async for cell in found]

    async def _set_direct(self, entries: Iterable[fy.P4TableEntry], config: Any) -> None:
        await self._switch.modify(
            [
                fy.P4DirectMeterEntry(table_entry=_entry_key(entry), config=config)
                for entry in entries
            ]
        )

    def _register(self, name: str) -> Any:
        return find("register", name, self._switch.p4info.registers)

    def _counter(self, name: str) -> Any:
        info = self._switch.p4info
        return find("counter", name, [*info.counters, *info.direct_counters])

    def _meter(self, name: str) -> Any:
        info = self._switch.p4info
        return find("meter", name, [*info.meters, *info.direct_meters])

    def _table(self, direct: P4DirectCounter | P4DirectMeter) -> P4Table:
        return self._switch.p4info.tables[direct.direct_table_id]

    def _config(self, words: Sequence[str]) -> fy.P4MeterConfig:
        """Convert two arguments RATE:BURST to P4Runtime's integers.

        In the arguments, rates are per microsecond. In P4Runtime, they are per second.
        """
        if len(words) != RATES:
            raise CommandError(f"{len(words)} rates: expected {RATES}, such as 0.001:10 0.002:20")
        (cir, cburst), (pir, pburst) = (self._rate(word) for word in words)
        return fy.P4MeterConfig(cir=cir, cburst=cburst, pir=pir, pburst=pburst)

    def _rate(self, word: str) -> tuple[int, int]:
        rate, _, burst = word.partition(":")
        try:
            per_second = float(rate) * PER_SECOND
        except ValueError:
            per_second = math.nan
        if not 0 <= per_second < 2**63 or not burst.isdecimal():
            raise CommandError(f"rate {word!r}: expected RATE:BURST, with a rate per microsecond "
                               f"and an integer burst, such as 0.001:10")  # fmt: skip
        whole = round(per_second) if per_second >= 1 else math.ceil(per_second)
        if not math.isclose(whole, per_second):
            self._note(f"rate {word}: rounded from {per_second:g} to {whole} per second, because "
                       f"rates are integers")  # fmt: skip
        return whole, int(burst)


def _slices(size: int) -> list[range]:
    """Return the indices of an array as ranges. Each range fits into one request."""
    return [range(first, min(first + AT_ONCE, size)) for first in range(0, size, AT_ONCE)]


def _entry_key(entry: fy.P4TableEntry) -> fy.P4TableEntry:
    """Return the table, key and priority of an entry."""
    return fy.P4TableEntry(entry.table_id, match=entry.match, priority=entry.priority)


class Queues:
    """The egress queues of one switch at the given ports (see telemark.network.Network.switch)."""

    def __init__(self, node: Any, ports: Sequence[int]) -> None:
        self._node = node
        self._ports = ports

    @command("set_queue_rate")
    async def set_rate(
        self, rate_pps: int, port: int | None = None, priority: int | None = None
    ) -> Answer:
        """Set the rate (packets/s) of one queue, of all queues of a port, or of all queues."""
        return self._set(port, priority, rate_pps=rate_pps)

    @command("set_queue_depth")
    async def set_depth(
        self, packets: int, port: int | None = None, priority: int | None = None
    ) -> Answer:
        """Set the depth (packets) of one queue, of all queues of a port, or of all queues."""
        return self._set(port, priority, depth=packets)

    def _set(self, port: int | None, priority: int | None, **changes: int) -> Answer:
        if priority is not None:
            changes["priority"] = priority
        for each in self._ports if port is None else [port]:
            self._node.set_queue(each, **changes)
        return []
