"""The tables of BfRt that each device has: multicast groups (`pre`), mirror sessions and ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import finsy as fy

from importers.bfrt.connection import BfrtError, Connection
from importers.bfrt.tables import Entry, Field, Key, Table

PORTS_OF_PIPE = 128


@dataclass
class StoredTable(Table):
    """A table of the device, e.g. of multicast nodes. This object stores its entries."""

    entries: dict[int, Entry] = field(default_factory=dict)

    def add(self, *entries: Entry) -> None:
        for entry in entries:
            number = self.number(entry.keys)
            if number in self.entries:
                raise BfrtError(f"{self.name}: {self.keys[0].name} {number} already exists")
            self.write(number, entry, is_new=True)
            self.entries[number] = entry

    def modify(self, *entries: Entry) -> None:
        for entry in entries:
            number = self.number(entry.keys)
            self.existing(number)
            changed = self.merged(entry)
            self.write(number, changed, is_new=False)
            self.entries[number] = changed

    def delete(self, *keys: Mapping[str, Key]) -> None:
        for each in keys:
            number = self.number(each)
            self.existing(number)
            self.remove(number)
            del self.entries[number]

    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        if keys is None:
            return [*self.entries.values()]
        number = self.number(keys)
        return [self.entries[number]] if number in self.entries else []

    def existing(self, number: int) -> Entry:
        """Return an entry. Raises BfrtError."""
        if number not in self.entries:
            known = ", ".join(map(str, self.entries)) or "none"
            raise BfrtError(f"{self.name}: no {self.keys[0].name} {number}; existing: {known}")
        return self.entries[number]

    def write(self, number: int, entry: Entry, *, is_new: bool) -> None:
        """Write an entry to the switch. Tables that do not override it only store entries."""

    def remove(self, number: int) -> None:
        """Delete an entry in the switch."""


class NodeTable(StoredTable):
    """Multicast nodes, which are part of groups."""

    groups: GroupTable

    def __init__(self, connection: Connection) -> None:
        data = [Field("$MULTICAST_RID", 16), Field("$MULTICAST_LAG_ID", is_list=True),
                Field("$DEV_PORT", 9, is_list=True)]  # fmt: skip
        super().__init__(
            connection, "$pre.node", "PRE_NODE", [Field("$MULTICAST_NODE_ID", 32)], {None: data}
        )

    def modify(self, *entries: Entry) -> None:
        super().modify(*entries)
        for entry in entries:
            self.groups.modify(*self.groups.with_node(self.number(entry.keys)))

    def remove(self, number: int) -> None:
        """Remove the node from its groups."""
        for group in self.groups.with_node(number):
            left = [node for node in group.data[GroupTable.NODES] if node != number]
            self.groups.modify(Entry(group.keys, {GroupTable.NODES: left}))

    def replicas(self, node: int) -> list[tuple[int, int]]:
        """Return the port and the rid of each copy. Raises BfrtError."""
        data = self.existing(node).data
        if data.get("$MULTICAST_LAG_ID"):
            raise BfrtError(f"{self.name}: node {node}: P4Runtime has no link aggregation groups")
        return [(port, data.get("$MULTICAST_RID", 0)) for port in data.get("$DEV_PORT", [])]


class GroupTable(StoredTable):
    """Multicast groups. The nodes of groups that an earlier script has added are unknown."""

    NODES = "$MULTICAST_NODE_ID"

    def __init__(self, connection: Connection, nodes: NodeTable) -> None:
        names = (self.NODES, "$MULTICAST_NODE_L1_XID_VALID", "$MULTICAST_NODE_L1_XID")
        data = [Field(name, is_list=True) for name in names]
        super().__init__(connection, "$pre.mgid", "PRE_MGID", [Field("$MGID", 16)], {None: data})
        self._nodes = nodes
        nodes.groups = self
        for group in connection.read(self.name, fy.P4MulticastGroupEntry()):
            self.entries[group.multicast_group_id] = Entry(
                {"$MGID": Key(group.multicast_group_id)}, {}
            )

    def with_node(self, node: int) -> list[Entry]:
        """Return the groups that contain a node."""
        return [each for each in self.entries.values() if node in each.data.get(self.NODES, [])]

    def write(self, number: int, entry: Entry, *, is_new: bool) -> None:
        replicas: list[tuple[int, int]] = []
        for node in entry.data.get(self.NODES, []):
            for port, rid in self._nodes.replicas(node):
                while (port, rid) in replicas:  # P4Runtime refuses equal copies
                    rid += 1
                replicas.append((port, rid))
        group = fy.P4MulticastGroupEntry(number, replicas=replicas)
        self.connection.write(self.name, [+group if is_new else ~group])

    def remove(self, number: int) -> None:
        self.connection.write(self.name, [-fy.P4MulticastGroupEntry(number)])


class MirrorTable(StoredTable):
    """Mirror sessions, which are clone sessions of P4Runtime."""

    PORT, LENGTH = "$ucast_egress_port", "$max_pkt_len"

    def __init__(self, connection: Connection) -> None:
        names = ("$direction", self.PORT, "$ucast_egress_port_valid", "$session_enable",
                 self.LENGTH, "$egress_port_queue", "$ingress_cos", "$packet_color")  # fmt: skip
        super().__init__(
            connection, "$mirror.cfg", "MIRROR_CFG", [Field("$sid", 16)],
            {"$normal": [Field(name) for name in names]},
        )  # fmt: skip
        for session in connection.read(self.name, fy.P4CloneSessionEntry()):
            data = dict(zip([self.PORT], session.replicas, strict=False))
            data |= {self.LENGTH: session.packet_length_bytes, "$session_enable": bool(data)}
            keys = {"$sid": Key(session.session_id)}
            self.entries[session.session_id] = Entry(keys, data, "$normal")

    def write(self, number: int, entry: Entry, *, is_new: bool) -> None:
        port, length = entry.data.get(self.PORT), entry.data.get(self.LENGTH, 0)
        is_valid = entry.data.get("$ucast_egress_port_valid", True)
        is_enabled = entry.data.get("$session_enable", True)
        if port is None or not is_valid:
            raise BfrtError(f"{self.name}: session {number}: expected {self.PORT}")
        session = fy.P4CloneSessionEntry(
            number, replicas=[port] if is_enabled else [], packet_length_bytes=length
        )
        self.connection.write(self.name, [+session if is_new else ~session])

    def remove(self, number: int) -> None:
        self.connection.write(self.name, [-fy.P4CloneSessionEntry(number)])


class PortTable(StoredTable):
    """Ports. The network defines their rates, so the settings have no effect."""

    def __init__(self, connection: Connection) -> None:
        names = ("$SPEED", "$FEC", "$N_LANES", "$PORT_ENABLE", "$AUTO_NEGOTIATION",
                 "$LOOPBACK_MODE", "$PORT_DIR", "$TX_MTU", "$RX_MTU")  # fmt: skip
        super().__init__(
            connection, "$PORT", "PORT_CFG", [Field("$DEV_PORT", 9)],
            {None: [Field(name) for name in names]},
        )  # fmt: skip


class PortHandleTable(Table):
    """Front-panel ports. A network has none, so channel L of connector C is port C + 128 * L."""

    PORT, MAX_CONNECTOR, CHANNELS = "$DEV_PORT", 63, 4

    def __init__(self, connection: Connection) -> None:
        super().__init__(
            connection, "$PORT_HDL_INFO", "PORT_HDL_INFO",
            [Field("$CONN_ID", 32), Field("$CHNL_ID", 32)], {None: [Field(self.PORT, 9)]},
        )  # fmt: skip

    def add(self, *entries: Entry) -> None:
        raise BfrtError(f"{self.name}: this table cannot be changed")

    def modify(self, *entries: Entry) -> None:
        self.add()

    def delete(self, *keys: Mapping[str, Key]) -> None:
        self.add()

    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        connectors, channels = range(1, self.MAX_CONNECTOR + 1), range(self.CHANNELS)
        if keys is None:
            pairs = [(c, n) for c in connectors for n in channels]
        else:
            channel = keys.get(self.keys[1].name, Key(0)).value
            pairs = [(self.number(keys), channel)]
        return [
            Entry({of.name: Key(value) for of, value in zip(self.keys, pair, strict=True)},
                  {self.PORT: pair[0] + PORTS_OF_PIPE * pair[1]})
            for pair in pairs if pair[0] in connectors and pair[1] in channels
        ]  # fmt: skip
