"""Multicast groups and clone sessions: the packet replication engine (spec 9.5)."""

from collections.abc import Iterable, Iterator

from finsy.proto import p4r

from minip4.runtime.dataplane import Dataplane
from minip4.runtime.entities.rates import DELETE, INSERT, Operation, Undo
from minip4.runtime.p4info.values import Values
from minip4.runtime.status import (
    Code,
    StatusError,
    engine_calls,
    invalid,
    not_found,
    out_of_range,
    unimplemented,
)

MAX_PORT = 511
MAX_INSTANCE = 0xFFFF
MAX_GROUP = 0xFFFF
MAX_SESSION = 32767

_Message = p4r.MulticastGroupEntry | p4r.CloneSessionEntry


class Replication:
    """The multicast groups and clone sessions of one pipeline, as written by the client."""

    def __init__(self, dataplane: Dataplane, ports: Values) -> None:
        self._dataplane = dataplane
        self._ports = ports
        self._groups: dict[int, p4r.MulticastGroupEntry] = {}
        self._sessions: dict[int, p4r.CloneSessionEntry] = {}

    def prepare(self, kind: int, message: p4r.PacketReplicationEngineEntry) -> Operation:
        """Check an update and return the operation."""
        entry = message.WhichOneof("type")
        if entry == "multicast_group_entry":
            group = message.multicast_group_entry
            what = f"multicast group {group.multicast_group_id}"
            _check_id(what, group.multicast_group_id, MAX_GROUP)
            self._replicas(what, group.replicas)
            return lambda: self._write(kind, what, self._groups, group.multicast_group_id, group)
        if entry == "clone_session_entry":
            session = message.clone_session_entry
            what = f"clone session {session.session_id}"
            _check_id(what, session.session_id, MAX_SESSION)
            self._replicas(what, session.replicas)
            if session.class_of_service:
                raise unimplemented(f"{what}: class_of_service is not supported, expected 0")
            if session.packet_length_bytes < 0:
                raise invalid(
                    f"{what}: packet_length_bytes {session.packet_length_bytes}, expected 0 or more"
                )
            return lambda: self._write(kind, what, self._sessions, session.session_id, session)
        raise invalid(
            "packet_replication_engine_entry: expected a multicast group or a clone session"
        )

    def read(self, message: p4r.PacketReplicationEngineEntry) -> Iterator[p4r.Entity]:
        """Yield the selected group or session.

        Id 0 selects all groups or sessions. A request that names neither kind selects both.
        """
        asked = message.WhichOneof("type")
        if asked != "clone_session_entry":
            for group in _select(self._groups, message.multicast_group_entry.multicast_group_id):
                entity = p4r.Entity()
                entity.packet_replication_engine_entry.multicast_group_entry.CopyFrom(group)
                yield entity
        if asked != "multicast_group_entry":
            for session in _select(self._sessions, message.clone_session_entry.session_id):
                entity = p4r.Entity()
                entity.packet_replication_engine_entry.clone_session_entry.CopyFrom(session)
                yield entity

    def state(self) -> Iterator[p4r.Update]:
        """Return the updates that recreate this state in an empty pipeline."""
        for entity in self.read(p4r.PacketReplicationEngineEntry()):
            yield p4r.Update(type=INSERT, entity=entity)

    def _write(
        self, kind: int, what: str, known: dict[int, _Message], number: int, message: _Message
    ) -> Undo:
        old = known.get(number)
        if kind == INSERT and old is not None:
            raise StatusError(Code.ALREADY_EXISTS, f"{what}: already exists")
        if kind != INSERT and old is None:
            raise not_found(f"{what}: does not exist")
        with engine_calls(what):
            self._set(known, number, None if kind == DELETE else message)
        return lambda: _keep(known, number, old)

    def _set(self, known: dict[int, _Message], number: int, message: _Message | None) -> None:
        if isinstance(message, p4r.MulticastGroupEntry):
            self._dataplane.multicast_set(number, self._replicas("", message.replicas))
        elif isinstance(message, p4r.CloneSessionEntry):
            replicas = self._replicas("", message.replicas)
            self._dataplane.mirror_set(number, replicas, message.packet_length_bytes)
        elif known is self._groups:
            self._dataplane.multicast_delete(number)
        else:
            self._dataplane.mirror_delete(number)
        _keep(known, number, message)

    def _replicas(self, what: str, replicas: Iterable[p4r.Replica]) -> list[tuple[int, int]]:
        """Return a (port, instance) pair per replica."""
        copies = []
        for replica in replicas:
            if replica.WhichOneof("port_kind") == "port":
                port = self._ports.decode(replica.port, f"{what}, port")
            else:
                port = replica.egress_port
            if port > MAX_PORT:
                raise out_of_range(f"{what}: port {port}, expected 0 to {MAX_PORT}")
            if replica.instance > MAX_INSTANCE:
                raise out_of_range(
                    f"{what}: instance {replica.instance}, expected 0 to {MAX_INSTANCE}"
                )
            if replica.backup_replicas:
                raise unimplemented(f"{what}: backup replicas are not supported")
            copies.append((port, replica.instance))
        if len(set(copies)) != len(copies):
            raise invalid(f"{what}: two replicas have the same port and instance")
        return copies


def _keep(known: dict[int, _Message], number: int, message: _Message | None) -> None:
    if message is None:
        known.pop(number, None)
    else:
        known[number] = message


def _check_id(what: str, number: int, largest: int) -> None:
    if not 0 < number <= largest:
        raise out_of_range(f"{what}: expected an id of 1 to {largest}")


def _select(known: dict[int, _Message], number: int) -> list[_Message]:
    if number == 0:
        return list(known.values())
    return [known[number]] if number in known else []
