"""Action profiles: members and groups that table entries point to (spec 9.2)."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from finsy.proto import p4r

from minip4.engine.errors import EngineError
from minip4.runtime.dataplane import Dataplane
from minip4.runtime.entities import members
from minip4.runtime.entities.rates import DELETE, INSERT, Operation, Undo
from minip4.runtime.p4info.match import decode_action, encode_action
from minip4.runtime.p4info.schema import Action, ActionProfile, Schema
from minip4.runtime.status import (
    Code,
    StatusError,
    engine_calls,
    invalid,
    not_found,
    unimplemented,
)

_Number = tuple[int, int]  # (profile id, member or group id), as given by the client


@dataclass
class _Member:
    handle: int  # handle of the member in the engine
    action: Action
    params: list[int]


@dataclass
class _Group:
    handle: int  # handle of the group in the engine
    message: p4r.ActionProfileGroup


@dataclass
class OneShot:
    """The group of an entry with a one-shot action set."""

    profile: ActionProfile
    message: p4r.ActionProfileActionSet
    group: int
    members: list[int] = field(default_factory=list)


class Profiles:
    """The members and groups of one pipeline, by the ids of the client."""

    def __init__(self, schema: Schema, dataplane: Dataplane, down_ports: Collection[int]) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._ports = schema.ports
        self._down_ports = down_ports
        self._members: dict[_Number, _Member] = {}
        self._groups: dict[_Number, _Group] = {}
        # key: name of the profile, handle of the group
        self._one_shots: dict[tuple[str, int], OneShot] = {}
        # key: kind (member or group), profile, id
        self._uses: Counter[tuple[str, int, int]] = Counter()

    def member(self, profile: int, number: int) -> int:
        """Return the engine's handle of a member."""
        try:
            return self._members[profile, number].handle
        except KeyError:
            raise not_found(f"{self._name(profile)}: there is no member {number}") from None

    def group(self, profile: int, number: int) -> int:
        """Return the engine's handle of a group."""
        try:
            return self._groups[profile, number].handle
        except KeyError:
            raise not_found(f"{self._name(profile)}: there is no group {number}") from None

    def hold(self, profile: int, action: p4r.TableAction, times: int) -> None:
        """Add 1 or -1 to the number of table entries that use a member or group.

        A member or group that an entry uses cannot be deleted.
        """
        kind = action.WhichOneof("type")
        if kind == "action_profile_member_id":
            self._uses["member", profile, action.action_profile_member_id] += times
        elif kind == "action_profile_group_id":
            self._uses["group", profile, action.action_profile_group_id] += times

    def check_one_shot(self, profile: ActionProfile, message: p4r.ActionProfileActionSet) -> None:
        """Reject an action set that cannot be programmed."""
        if not profile.with_selector:
            raise invalid(f"{self._name(profile.id)}: an action set needs a selector")
        if message.action_selection_mode == p4r.ActionProfileActionSet.RANDOM:
            raise unimplemented(
                f"{self._name(profile.id)}: random action selection is not supported"
            )
        for action in message.action_profile_actions:
            decode_action(self._name(profile.id), profile.actions, action.action)
        actions, semantics = message.action_profile_actions, message.size_semantics
        members.check(self._name(profile.id), profile, actions, self._ports, semantics=semantics)

    def make_one_shot(self, profile: ActionProfile, message: p4r.ActionProfileActionSet) -> OneShot:
        """Create the members and the group of an action set; remove them if one of them fails."""
        with engine_calls(self._name(profile.id)):
            made = OneShot(profile, message, self._dataplane.group_add(profile.name))
        try:
            with engine_calls(self._name(profile.id)):
                for action in message.action_profile_actions:
                    call, params = decode_action("", profile.actions, action.action)
                    made.members.append(self._dataplane.member_add(profile.name, call.name, params))
                self._set_one_shot(made)
        except StatusError:
            self.drop_one_shot(made)
            raise
        self._one_shots[profile.name, made.group] = made
        return made

    def drop_one_shot(self, one_shot: OneShot) -> None:
        """Remove the members and the group that make_one_shot() created."""
        self._one_shots.pop((one_shot.profile.name, one_shot.group), None)
        self._dataplane.group_delete(one_shot.profile.name, one_shot.group)
        for member in one_shot.members:
            self._dataplane.member_delete(one_shot.profile.name, member)

    def exchange_one_shot(self, new: OneShot | None, old: OneShot | None) -> None:
        """Restore the old action set after a rollback of the engine."""
        if new is not None:
            self._one_shots.pop((new.profile.name, new.group), None)
        if old is not None:
            self._one_shots[old.profile.name, old.group] = old

    def port_changed(self, port: int) -> None:
        """Activate or deactivate the members that watch a port whose state changed.

        Raises StatusError.
        """
        for (profile_id, _), group in self._groups.items():
            if self._watch(port, group.message.members):
                profile = self._schema.profile(profile_id)
                with engine_calls(self._name(profile_id)):
                    handles = self._handles(profile, group.message)
                    self._dataplane.group_set_members(profile.name, group.handle, handles)
        for one_shot in self._one_shots.values():
            if self._watch(port, one_shot.message.action_profile_actions):
                with engine_calls(self._name(one_shot.profile.id)):
                    self._set_one_shot(one_shot)

    def _watch(self, port: int, watchers: Collection[members.Member]) -> bool:
        return any(members.watched(member, self._ports) == port for member in watchers)

    def state(self) -> Iterator[p4r.Update]:
        """Return the updates that recreate this state in an empty pipeline.

        The updates of members come before the updates of groups.
        """
        for number in self._members:
            entity = p4r.Entity(action_profile_member=self._encode_member(number))
            yield p4r.Update(type=INSERT, entity=entity)
        for group in self._groups.values():
            yield p4r.Update(type=INSERT, entity=p4r.Entity(action_profile_group=group.message))

    def prepare_member(self, kind: int, message: p4r.ActionProfileMember) -> Operation:
        """Check an update of a member; return the operation."""
        profile = self._schema.profile(message.action_profile_id)
        number = (profile.id, message.member_id)
        what = f"{self._name(profile.id)}, member {message.member_id}"
        if kind == DELETE:
            return lambda: self._delete_member(what, profile.name, number)
        action, params = decode_action(what, profile.actions, message.action)
        if kind == INSERT:
            return lambda: self._insert_member(what, profile.name, number, action, params)
        return lambda: self._modify_member(what, profile.name, number, action, params)

    def read_members(self, message: p4r.ActionProfileMember) -> Iterator[p4r.Entity]:
        """Yield one member, or all members of one profile; id 0 selects all profiles."""
        self._check_profile(message.action_profile_id)
        for profile, member in list(self._members):
            if message.action_profile_id in (0, profile) and message.member_id in (0, member):
                entity = p4r.Entity()
                entity.action_profile_member.CopyFrom(self._encode_member((profile, member)))
                yield entity

    def prepare_group(self, kind: int, message: p4r.ActionProfileGroup) -> Operation:
        """Check an update of a group; return the operation."""
        profile = self._schema.profile(message.action_profile_id)
        what = f"{self._name(profile.id)}, group {message.group_id}"
        if not profile.with_selector:
            raise invalid(f"{what}: the profile has no selector, so it has no groups")
        members.check(what, profile, message.members, self._ports, max_size=message.max_size)
        if kind == DELETE:
            return lambda: self._delete_group(what, profile, message.group_id)
        if kind == INSERT:
            return lambda: self._insert_group(what, profile, message)
        return lambda: self._modify_group(what, profile, message)

    def read_groups(self, message: p4r.ActionProfileGroup) -> Iterator[p4r.Entity]:
        """Yield one group, or all groups of one profile; id 0 selects all profiles."""
        self._check_profile(message.action_profile_id)
        for (profile, number), group in list(self._groups.items()):
            if message.action_profile_id in (0, profile) and message.group_id in (0, number):
                yield p4r.Entity(action_profile_group=group.message)

    def _insert_member(
        self, what: str, profile: str, number: _Number, action: Action, params: list[int]
    ) -> Undo:
        if number in self._members:
            raise StatusError(Code.ALREADY_EXISTS, f"{what}: already exists")
        with engine_calls(what):
            handle = self._dataplane.member_add(profile, action.name, params)
        self._members[number] = _Member(handle, action, params)
        return lambda: self._members.pop(number)

    def _modify_member(
        self, what: str, profile: str, number: _Number, action: Action, params: list[int]
    ) -> Undo:
        old = self._find_member(what, number)
        with engine_calls(what):
            self._dataplane.member_modify(profile, old.handle, action.name, params)
        self._members[number] = _Member(old.handle, action, params)
        return lambda: self._members.update({number: old})

    def _delete_member(self, what: str, profile: str, number: _Number) -> Undo:
        old = self._find_member(what, number)
        self._refuse_used(what, "member", number)
        with engine_calls(what):
            self._dataplane.member_delete(profile, old.handle)
        del self._members[number]
        return lambda: self._members.update({number: old})

    def _insert_group(
        self, what: str, profile: ActionProfile, message: p4r.ActionProfileGroup
    ) -> Undo:
        number = (profile.id, message.group_id)
        if number in self._groups:
            raise StatusError(Code.ALREADY_EXISTS, f"{what}: already exists")
        handles = self._handles(profile, message)
        with engine_calls(what):
            handle = self._dataplane.group_add(profile.name)
            try:
                self._dataplane.group_set_members(profile.name, handle, handles)
            except EngineError:
                self._dataplane.group_delete(profile.name, handle)
                raise
        return self._exchange_group(number, None, _Group(handle, message))

    def _modify_group(
        self, what: str, profile: ActionProfile, message: p4r.ActionProfileGroup
    ) -> Undo:
        number = (profile.id, message.group_id)
        old = self._find_group(what, number)
        if message.max_size != old.message.max_size:
            raise invalid(
                f"{what}: max_size {message.max_size}, but it was created with "
                f"{old.message.max_size}; the max_size of a group cannot change"
            )
        handles = self._handles(profile, message)
        with engine_calls(what):
            self._dataplane.group_set_members(profile.name, old.handle, handles)
        return self._exchange_group(number, old, _Group(old.handle, message))

    def _delete_group(self, what: str, profile: ActionProfile, group_id: int) -> Undo:
        number = (profile.id, group_id)
        old = self._find_group(what, number)
        self._refuse_used(what, "group", number)
        with engine_calls(what):
            self._dataplane.group_delete(profile.name, old.handle)
        return self._exchange_group(number, old, None)

    def _exchange_group(self, number: _Number, old: _Group | None, new: _Group | None) -> Undo:
        """Replace the record of a group. `new` is None if the group was deleted."""
        if old is not None:
            self._hold_members(old.message, -1)
            del self._groups[number]
        if new is not None:
            self._hold_members(new.message, 1)
            self._groups[number] = new
        return lambda: self._exchange_group(number, new, old)

    def _hold_members(self, group: p4r.ActionProfileGroup, times: int) -> None:
        for member in group.members:
            self._uses["member", group.action_profile_id, member.member_id] += times

    def _refuse_used(self, what: str, kind: str, number: _Number) -> None:
        uses = self._uses[kind, number[0], number[1]]
        if uses:
            raise StatusError(
                Code.FAILED_PRECONDITION,
                f"{what}: table entries or groups still use it ({uses} uses)",
            )

    def _handles(self, profile: ActionProfile, message: p4r.ActionProfileGroup) -> list[int]:
        """Return the handles of active members of a group, repeated according to their weights."""
        handles = [self.member(profile.id, member.member_id) for member in message.members]
        return members.taking_part(message.members, handles, self._ports, self._down_ports)

    def _set_one_shot(self, one_shot: OneShot) -> None:
        actions = one_shot.message.action_profile_actions
        handles = members.taking_part(actions, one_shot.members, self._ports, self._down_ports)
        self._dataplane.group_set_members(one_shot.profile.name, one_shot.group, handles)

    def _encode_member(self, number: _Number) -> p4r.ActionProfileMember:
        member = self._members[number]
        return p4r.ActionProfileMember(
            action_profile_id=number[0],
            member_id=number[1],
            action=encode_action(member.action, member.params),
        )

    def _find_member(self, what: str, number: _Number) -> _Member:
        if number not in self._members:
            raise not_found(f"{what}: does not exist")
        return self._members[number]

    def _find_group(self, what: str, number: _Number) -> _Group:
        if number not in self._groups:
            raise not_found(f"{what}: does not exist")
        return self._groups[number]

    def _check_profile(self, profile: int) -> None:
        """Reject an unknown profile id; 0 selects all profiles."""
        if profile:
            self._schema.profile(profile)

    def _name(self, profile: int) -> str:
        return f"action profile {self._schema.profile(profile).name}"
