"""Action profiles: members and groups."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from minip4.engine import model as m
from minip4.engine.control.core import Core, named
from minip4.engine.errors import InvalidArgument
from minip4.engine.library import array, check


class ProfileControl(Core):
    def member_add(self, profile: str, action: str, params: Sequence[int]) -> int:
        """Add a member and return its handle."""
        p = named(self.program.profiles, profile, "action profile")
        head = self._member_head(p, action, params)
        with self.locked():
            result = self.library.engine_member_add(self.handle, p.index, array(head))
        return check(result, f"action profile {profile}")

    def member_modify(self, profile: str, member: int, action: str, params: Sequence[int]) -> None:
        p = named(self.program.profiles, profile, "action profile")
        head = array(self._member_head(p, action, params))
        with self.locked():
            result = self.library.engine_member_modify(self.handle, p.index, member, head)
        check(result, f"action profile {profile}, member {member}")

    def member_delete(self, profile: str, member: int) -> None:
        p = named(self.program.profiles, profile, "action profile")
        with self.locked():
            result = self.library.engine_member_delete(self.handle, p.index, member)
        check(result, f"action profile {profile}, member {member}")

    def group_add(self, profile: str) -> int:
        """Add an empty group and return its handle."""
        p = named(self.program.profiles, profile, "action profile")
        if p.algorithm is None:
            raise InvalidArgument(f"action profile {profile} has no selector, so it has no groups")
        with self.locked():
            result = self.library.engine_group_add(self.handle, p.index)
        return check(result, f"action profile {profile}")

    def group_set_members(self, profile: str, group: int, members: Sequence[int]) -> None:
        """Replace the members of a group; the weight of a member is how often it occurs."""
        p = named(self.program.profiles, profile, "action profile")
        numbers = (ctypes.c_uint32 * max(1, len(members)))(*members)
        with self.locked():
            result = self.library.engine_group_set(
                self.handle, p.index, group, numbers, len(members)
            )
        check(result, f"action profile {profile}, group {group} or one of its members")

    def group_delete(self, profile: str, group: int) -> None:
        p = named(self.program.profiles, profile, "action profile")
        with self.locked():
            result = self.library.engine_group_delete(self.handle, p.index, group)
        check(result, f"action profile {profile}, group {group}")

    def _member_head(self, p: m.Profile, action: str, params: Sequence[int]) -> list[int]:
        actions = tuple(a for t in self.program.tables.values() if t.profile == p.name
                        for a in t.actions)  # fmt: skip
        size = self.generator.profile_words(p)
        return self._call(actions, action, list(params), size, f"action profile {p.name}")
