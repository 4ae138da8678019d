"""Commands for action profiles: members, groups, and the entries that refer to these."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import finsy as fy
from finsy.p4schema import P4ActionProfile, P4Table

from importers.switch_cli.commands import Answer, CommandError, command, find
from importers.switch_cli.handles import Handles
from importers.switch_cli.tables import Tables, action_call, split

FIRST_ID = 1  # P4Runtime id of the member or group with handle 0, because id 0 means "all"


class Profiles:
    """The action profiles and selectors of one switch."""

    def __init__(self, switch: fy.Switch, tables: Tables) -> None:
        self._switch = switch
        self._tables = tables
        # map from full profile name to the members of the profile
        self._members: dict[str, Handles[None]] = {}
        # map from full profile name to the groups; each group has the handles of its members
        self._groups: dict[str, Handles[list[int]]] = {}

    @command("act_prof_create_member")
    async def create_member(self, profile: str, action: str, *params: str) -> Answer:
        """Add a member, which is an action with its parameters."""
        found = self._find(profile)
        call = action_call(found.actions, action, params)
        handle = self._members_of(found).add(None)
        try:
            await self._switch.insert([_member(found, handle, call)])
        except Exception:
            self._members_of(found).remove(handle)
            raise
        return [f"Member has been created with handle {handle}"]

    @command("act_prof_modify_member")
    async def modify_member(self, profile: str, action: str, handle: int, *params: str) -> Answer:
        """Change the action of a member."""
        found = self._find(profile)
        _ = self._members_of(found)[handle]
        await self._switch.modify(
            [_member(found, handle, action_call(found.actions, action, params))]
        )
        return []

    @command("act_prof_delete_member")
    async def delete_member(self, profile: str, handle: int) -> Answer:
        """Remove a member that no group and no entry uses."""
        found = self._find(profile)
        _ = self._members_of(found)[handle]
        await self._switch.delete([_member(found, handle)])
        self._members_of(found).remove(handle)
        return []

    @command("act_prof_create_group")
    async def create_group(self, profile: str) -> Answer:
        """Create a group without members."""
        found = self._find(profile)
        handle = self._groups_of(found).add([])
        try:
            await self._switch.insert([_group(found, handle, [])])
        except Exception:
            self._groups_of(found).remove(handle)
            raise
        return [f"Group has been created with handle {handle}"]

    @command("act_prof_delete_group")
    async def delete_group(self, profile: str, handle: int) -> Answer:
        """Remove a group that no entry uses."""
        found = self._find(profile)
        _ = self._groups_of(found)[handle]
        await self._switch.delete([_group(found, handle, [])])
        self._groups_of(found).remove(handle)
        return []

    @command("act_prof_add_member_to_group")
    async def join(self, profile: str, member: int, group: int) -> Answer:
        """Add a member to a group."""
        found = self._find(profile)
        _ = self._members_of(found)[member]
        members = self._groups_of(found)[group]
        if member in members:
            raise CommandError(f"member {member} is already in group {group}")
        return await self._set_members(found, group, [*members, member])

    @command("act_prof_remove_member_from_group")
    async def leave(self, profile: str, member: int, group: int) -> Answer:
        """Remove a member from a group."""
        found = self._find(profile)
        members = self._groups_of(found)[group]
        if member not in members:
            raise CommandError(
                f"member {member} is not in group {group}; its members are {members}"
            )
        return await self._set_members(found, group, [m for m in members if m != member])

    @command("table_indirect_add")
    async def add_entry(self, table: str, *words: str) -> Answer:
        """Insert an entry that refers to a member."""
        of_table, entry, handle = self._indirect(table, words)
        _ = self._members_of(self._profile_of(of_table))[handle]
        action = fy.IndirectAction(member_id=handle + FIRST_ID)
        return await self._tables.insert(of_table, replace(entry, action=action))

    @command("table_indirect_add_with_group")
    async def add_entry_with_group(self, table: str, *words: str) -> Answer:
        """Insert an entry that refers to a group."""
        of_table, entry, handle = self._indirect(table, words)
        _ = self._groups_of(self._profile_of(of_table))[handle]
        action = fy.IndirectAction(group_id=handle + FIRST_ID)
        return await self._tables.insert(of_table, replace(entry, action=action))

    @command("table_indirect_delete")
    async def delete_entry(self, table: str, handle: int) -> Answer:
        """Delete an entry."""
        return await self._tables.delete(table, handle)

    def _find(self, name: str) -> P4ActionProfile:
        return find("action profile", name, self._switch.p4info.action_profiles)

    def _members_of(self, profile: P4ActionProfile) -> Handles[None]:
        what = f"member of {profile.name}"
        return self._members.setdefault(profile.name, Handles(what))

    def _groups_of(self, profile: P4ActionProfile) -> Handles[list[int]]:
        return self._groups.setdefault(profile.name, Handles(f"group of {profile.name}"))

    def _profile_of(self, table: P4Table) -> P4ActionProfile:
        if table.action_profile is None:
            raise CommandError(f"table {table.name} has no action profile; use table_add")
        return table.action_profile

    def _indirect(self, name: str, words: Sequence[str]) -> tuple[P4Table, fy.P4TableEntry, int]:
        table = self._tables.find(name)
        self._profile_of(table)
        keys, rest, priority = split(table, words)
        if len(rest) != 1 or not rest[0].isdecimal():
            raise CommandError(f"after =>: {' '.join(rest)!r}: expected one handle")
        return table, self._tables.entry(table, keys, priority), int(rest[0])

    async def _set_members(
        self, profile: P4ActionProfile, group: int, members: list[int]
    ) -> Answer:
        await self._switch.modify([_group(profile, group, members)])
        self._groups_of(profile)[group] = members
        return []


def _member(profile: P4ActionProfile, handle: int, call: Any = None) -> fy.P4ActionProfileMember:
    return fy.P4ActionProfileMember(profile.name, member_id=handle + FIRST_ID, action=call)


def _group(profile: P4ActionProfile, handle: int, members: list[int]) -> fy.P4ActionProfileGroup:
    return fy.P4ActionProfileGroup(
        profile.name,
        group_id=handle + FIRST_ID,
        max_size=profile.max_group_size,
        members=[fy.P4Member(member + FIRST_ID, weight=1) for member in members],
    )
