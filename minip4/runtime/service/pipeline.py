"""One forwarding pipeline: P4Info and data plane of a program, and the calls Write and Read."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Generic

from finsy.proto import p4r

from minip4.runtime.dataplane import D
from minip4.runtime.entities.arrays import Counters, Registers
from minip4.runtime.entities.digests import Digests
from minip4.runtime.entities.direct import DirectCounters
from minip4.runtime.entities.meters import DirectMeters, Meters
from minip4.runtime.entities.profiles import Profiles
from minip4.runtime.entities.rates import DELETE, INSERT, MODIFY, Operation, Undo
from minip4.runtime.entities.replication import Replication
from minip4.runtime.entities.tables import IdleTimeouts, Tables
from minip4.runtime.entities.targets import Targets
from minip4.runtime.entities.value_sets import ValueSets
from minip4.runtime.p4info import agreement, binding
from minip4.runtime.p4info.packetio import ControllerHeader
from minip4.runtime.p4info.schema import Schema
from minip4.runtime.p4info.translation import Strings
from minip4.runtime.status import Code, StatusError, invalid, unimplemented

TURN_S = 0.005  # duration of work between two pauses


class Turns:
    """The pauses of one operation.

    Without `has_pauses` (in virtual time) there are no pauses, because results must not depend on
    the speed of the machine.
    """

    def __init__(self, *, has_pauses: bool = True) -> None:
        self._has_pauses = has_pauses
        self._began_s = time.monotonic()

    async def pause(self) -> None:
        """Let other tasks run if TURN_S has passed since the last pause."""
        if self._has_pauses and time.monotonic() - self._began_s >= TURN_S:
            await asyncio.sleep(0)
            self._began_s = time.monotonic()


_Prepare = Callable[[int, Any], Operation]
_Read = Callable[[Any], Iterator[p4r.Entity | None]]


class Pipeline(Generic[D]):
    """A forwarding pipeline. It performs the P4Runtime calls Write and Read.

    `down_ports` is the set of ports of the switch that are down; the switch updates it.
    """

    def __init__(
        self,
        config: p4r.ForwardingPipelineConfig,
        dataplane: D,
        down_ports: Collection[int] = (),
    ) -> None:
        self.config = config
        self.dataplane = dataplane
        self.closed = False
        self.schema = schema = Schema(config.p4info)
        binding.bind(schema, dataplane.program)
        agreement.check(schema, dataplane.program)
        self.profiles = profiles = Profiles(schema, dataplane, down_ports)
        self.tables = Tables(schema, dataplane, Targets(schema, dataplane, profiles))
        self.digests = Digests(schema, dataplane)
        self.idle_timeouts = IdleTimeouts(self.tables)
        self.packet_in = ControllerHeader(schema, dataplane.program, "packet_in")
        self.packet_out = ControllerHeader(schema, dataplane.program, "packet_out")
        counters, registers = Counters(schema, dataplane), Registers(schema, dataplane)
        direct_counters = DirectCounters(schema, dataplane, self.tables)
        meters = Meters(schema, dataplane)
        direct_meters = DirectMeters(schema, dataplane, self.tables)
        replication = Replication(dataplane, schema.ports)
        value_sets = ValueSets(schema, dataplane)
        self._handlers: dict[str, tuple[_Prepare, _Read]] = {
            "table_entry": (self.tables.prepare, self.tables.read),
            "action_profile_member": (profiles.prepare_member, profiles.read_members),
            "action_profile_group": (profiles.prepare_group, profiles.read_groups),
            "counter_entry": (counters.prepare, counters.read),
            "direct_counter_entry": (direct_counters.prepare, direct_counters.read),
            "meter_entry": (meters.prepare, meters.read),
            "direct_meter_entry": (direct_meters.prepare, direct_meters.read),
            "register_entry": (registers.prepare, registers.read),
            "packet_replication_engine_entry": (replication.prepare, replication.read),
            "value_set_entry": (value_sets.prepare, value_sets.read),
            "digest_entry": (self.digests.prepare, self.digests.read),
        }
        self._stateful = (
            replication,
            value_sets,
            profiles,
            self.tables,
            meters,
            direct_meters,
            self.digests,
        )
        self._strings = [t for t in schema.translations.values() if isinstance(t, Strings)]
        for strings in self._strings:
            strings.collect = self._forget_unused

    def close(self) -> None:
        """Free the data plane of a pipeline that is not running."""
        self.closed = True
        self.dataplane.close()

    def take_over(self, old: "Pipeline[D]") -> None:
        """Copy the entries of another pipeline. Raises StatusError if an entry does not fit."""
        for update in old.state():
            try:
                self._prepare(update)()
            except StatusError as error:
                message = f"an entry does not fit the new pipeline: {error.message}"
                raise StatusError(Code.INVALID_ARGUMENT, message) from error

    def state(self) -> Iterator[p4r.Update]:
        """Return the updates that copy the state of this pipeline to a new one."""
        for handler in self._stateful:
            yield from handler.state()

    async def write(
        self, updates: Sequence[p4r.Update], atomicity: int, turns: Turns
    ) -> list[StatusError | None]:
        """Perform updates in order and return one result per update.

        An atomic write performs all updates or none (spec 12.2).

        No other write may run during the pauses of this write.
        """
        for strings in self._strings:
            strings.begin()
        if atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR:
            return await self._write_all(updates, turns)
        errors = []
        for update in updates:
            errors.append(self._write_one(update))
            await turns.pause()
        return errors

    def read(self, request: p4r.Entity) -> Iterator[p4r.Entity | None]:
        """Yield the entities that one entity of a ReadRequest selects.

        Also yields None, so that the caller can let other tasks run; these tasks must not write.
        """
        kind, (_, read) = self._handler(request)
        return read(getattr(request, kind))

    def _write_one(self, update: p4r.Update) -> StatusError | None:
        try:
            self._prepare(update)()
        except StatusError as error:
            return error
        return None

    async def _write_all(
        self, updates: Sequence[p4r.Update], turns: Turns
    ) -> list[StatusError | None]:
        errors: list[StatusError | None] = [None] * len(updates)
        operations: list[Operation] = []
        failed = None
        for i, update in enumerate(updates):
            try:
                operations.append(self._prepare(update))
            except StatusError as error:
                failed = i
                errors[i] = error
                break
            await turns.pause()
        if failed is None:
            failed = self._perform(operations, errors)
        if failed is None:
            return errors
        aborted = StatusError(Code.ABORTED, f"not done, because update {failed} failed")
        return [error or aborted for error in errors]

    def _perform(self, operations: list[Operation], errors: list[StatusError | None]) -> int | None:
        """Perform all operations or none. If one fails, return its index.

        No packet sees only a part of their effects.
        """
        undos: list[Undo] = []
        try:
            with self.dataplane.batch():
                for operation in operations:
                    undos.append(operation())
        except StatusError as error:
            for undo in reversed(undos):
                undo()
            errors[len(undos)] = error
            return len(undos)
        return None

    def _forget_unused(self) -> None:
        """Free the numbers of strings that neither this batch nor a table uses."""
        for update in self.state():
            self._prepare(update)
        for strings in self._strings:
            strings.sweep()

    def _prepare(self, update: p4r.Update) -> Operation:
        if update.type not in (INSERT, MODIFY, DELETE):
            raise invalid("the update has no type; expected INSERT, MODIFY or DELETE")
        kind, (prepare, _) = self._handler(update.entity)
        return prepare(update.type, getattr(update.entity, kind))

    def _handler(self, entity: p4r.Entity) -> tuple[str, tuple[_Prepare, _Read]]:
        kind = entity.WhichOneof("entity")
        if kind is None:
            raise invalid(f"the entity is empty; expected one of: {', '.join(self._handlers)}")
        handler = self._handlers.get(kind)
        if handler is None:
            raise unimplemented(f"{kind} is not supported")
        return kind, handler
