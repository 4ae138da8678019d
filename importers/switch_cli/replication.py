"""Commands for multicast groups and mirroring sessions.

P4Runtime calls this the packet replication engine.
"""

from dataclasses import dataclass, field

import finsy as fy

from importers.switch_cli.commands import Answer, CommandError, command
from importers.switch_cli.handles import Handles

LAGS = "|"  # separates a node's ports from its link aggregation groups


@dataclass
class _Node:
    """A multicast node. It sends one copy to each of its ports, with `rid` as egress_rid."""

    rid: int
    ports: tuple[int, ...]
    group: int | None = None  # the group of the node; None if it has none


@dataclass
class _Group:
    nodes: list[int] = field(default_factory=list)  # handles


class Replication:
    """Packet replication engine of one switch. Its groups consist of nodes, as in simple_switch.

    P4Runtime has no nodes; its groups consist of replicas. Therefore, if a node changes, its group
    is written again, and also the sessions that mirror to this group.
    """

    def __init__(self, switch: fy.Switch) -> None:
        self._switch = switch
        self._nodes: Handles[_Node] = Handles("multicast node")
        self._groups: dict[int, _Group] = {}
        # map from mirroring session to the group to which it copies
        self._sessions: dict[int, int | None] = {}

    @command("mc_mgrp_create")
    async def create_group(self, group: int) -> Answer:
        """Create a multicast group without nodes."""
        if group in self._groups:
            raise CommandError(f"multicast group {group} already exists")
        await self._switch.insert([fy.P4MulticastGroupEntry(group)])
        self._groups[group] = _Group()
        return []

    @command("mc_mgrp_destroy")
    async def destroy_group(self, group: int) -> Answer:
        """Remove a multicast group. Its nodes remain, but have no group."""
        nodes = self._group(group).nodes
        await self._switch.delete([fy.P4MulticastGroupEntry(group)])
        for handle in nodes:
            self._nodes[handle].group = None
        del self._groups[group]
        return []

    @command("mc_node_create")
    async def create_node(self, rid: int, *ports: str) -> Answer:
        """Create a node. It copies nothing until it is associated with a group."""
        handle = self._nodes.add(_Node(rid, _ports(ports)))
        return [f"node was created with handle {handle}"]

    @command("mc_node_update")
    async def update_node(self, node: int, *ports: str) -> Answer:
        """Change the ports of a node."""
        found, new = self._nodes[node], _ports(ports)
        old, found.ports = found.ports, new
        if found.group is not None:
            try:
                await self._write(found.group)
            except Exception:
                found.ports = old
                raise
        return []

    @command("mc_node_associate")
    async def associate(self, group: int, node: int) -> Answer:
        """Associate a node with a group."""
        nodes, found = self._group(group).nodes, self._nodes[node]
        if found.group is not None:
            raise CommandError(f"node {node} is already associated with group {found.group}")
        nodes.append(node)
        try:
            await self._write(group)
        except Exception:
            nodes.remove(node)
            raise
        found.group = group
        return []

    @command("mc_node_dissociate")
    async def dissociate(self, group: int, node: int) -> Answer:
        """Remove a node from its group."""
        nodes, found = self._group(group).nodes, self._nodes[node]
        if found.group != group:
            raise CommandError(f"node {node} is not associated with group {group}")
        nodes.remove(node)
        found.group = None
        await self._write(group)
        return []

    @command("mc_node_destroy")
    async def destroy_node(self, node: int) -> Answer:
        """Remove a node, and remove its copies from its group."""
        group = self._nodes[node].group
        if group is not None:
            await self.dissociate(group, node)
        self._nodes.remove(node)
        return []

    @command("mirroring_add")
    async def add_session(self, mirror_id: int, egress_port: int) -> Answer:
        """Send the clones of a session to a port."""
        await self._set_session(mirror_id, None, [(egress_port, 0)])
        return []

    @command("mirroring_add_mc")
    async def add_session_to_group(self, mirror_id: int, group: int) -> Answer:
        """Send the clones of a session to a multicast group."""
        self._group(group)
        await self._set_session(mirror_id, group, self._replicas(group))
        return []

    @command("mirroring_delete")
    async def delete_session(self, mirror_id: int) -> Answer:
        """Delete a mirroring session."""
        if mirror_id not in self._sessions:
            known = ", ".join(map(str, self._sessions)) or "none"
            raise CommandError(f"no mirroring session {mirror_id}; existing: {known}")
        await self._switch.delete([fy.P4CloneSessionEntry(mirror_id)])
        del self._sessions[mirror_id]
        return []

    def _group(self, group: int) -> _Group:
        if group not in self._groups:
            known = ", ".join(map(str, self._groups)) or "none"
            raise CommandError(f"no multicast group {group}; existing: {known}")
        return self._groups[group]

    def _replicas(self, group: int) -> list[tuple[int, int]]:
        """Return the port and the egress_rid of each copy."""
        nodes = [self._nodes[handle] for handle in self._groups[group].nodes]
        return [(port, node.rid) for node in nodes for port in node.ports]

    async def _write(self, group: int) -> None:
        """Write a group, and the sessions that copy to it."""
        replicas = self._replicas(group)
        sessions = [session for session, to in self._sessions.items() if to == group]
        await self._switch.modify(
            [
                fy.P4MulticastGroupEntry(group, replicas=replicas),
                *(fy.P4CloneSessionEntry(session, replicas=replicas) for session in sessions),
            ]
        )

    async def _set_session(
        self, session: int, group: int | None, replicas: list[tuple[int, int]]
    ) -> None:
        """Set the copies of a session. As in simple_switch, an existing session is replaced."""
        entry = fy.P4CloneSessionEntry(session, replicas=replicas)
        await self._switch.write([~entry if session in self._sessions else +entry])
        self._sessions[session] = group


def _ports(words: tuple[str, ...]) -> tuple[int, ...]:
    if LAGS in words:
        raise CommandError(f"{LAGS}: P4Runtime has no link aggregation groups; expected only ports")
    if wrong := [word for word in words if not word.isdecimal()]:
        raise CommandError(f"port {wrong[0]!r}: expected a number of at least 0")
    ports = tuple(int(word) for word in words)
    if len({*ports}) != len(ports):
        raise CommandError(f"ports {' '.join(words)}: duplicate port")
    return ports
