"""The target of a table entry: an action, or a member, group or set of actions of a profile."""

from collections.abc import Sequence
from dataclasses import dataclass

from finsy.proto import p4r

from minip4.engine.keys import Entry, MatchKey
from minip4.runtime.dataplane import Dataplane
from minip4.runtime.entities.profiles import OneShot, Profiles
from minip4.runtime.entities.rates import Undo
from minip4.runtime.p4info.match import decode_action, encode_action, encode_key, key_text
from minip4.runtime.p4info.schema import Schema, Table
from minip4.runtime.status import engine_calls, invalid

Place = tuple[str, tuple[MatchKey, ...], int]  # table, key, priority


@dataclass(frozen=True, slots=True)
class Call:
    """An action and its parameters."""

    action: str
    params: Sequence[int]


# Members, groups and action sets are stored as the client sent them.
Target = Call | p4r.TableAction


def entry_text(table: Table, place: Place) -> str:
    """Describe an entry in text: table, key and priority."""
    _, key, priority = place
    text = key_text(table.fields, encode_key(table.fields, key))
    ranked = f" (priority {priority})" if table.has_priority else ""
    return f"table {table.name}, entry {text}{ranked}"


class Targets:
    """Adds, changes and removes entries in direct and indirect tables, and stores their targets."""

    def __init__(self, schema: Schema, dataplane: Dataplane, profiles: Profiles) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._profiles = profiles
        self._indirect: dict[Place, p4r.TableAction] = {}
        self._one_shots: dict[Place, OneShot] = {}

    def decode(self, table: Table, message: p4r.TableAction) -> Target:
        """Check and decode the target of an entry."""
        what = f"table {table.name}"
        given = message.WhichOneof("type")
        if not table.action_profile:
            if given != "action":
                raise invalid(f"{what}: {given or 'no action'} given, expected an action")
            action, params = decode_action(what, table.entry_actions, message.action)
            return Call(action.name, params)
        profile = self._schema.profile(table.action_profile)
        if given == "action_profile_action_set":
            self._profiles.check_one_shot(profile, message.action_profile_action_set)
        elif given == "action_profile_group_id" and not profile.with_selector:
            raise invalid(f"{what}: its profile has no selector, so it has no groups")
        elif given not in ("action_profile_member_id", "action_profile_group_id"):
            raise invalid(
                f"{what}: {given or 'no action'} given, expected a member, a group or an action set"
            )
        return message

    def add(self, table: Table, place: Place, target: Target) -> int:
        """Add an entry to its table; return its handle.

        Raises StatusError without side effects.
        """
        name, key, priority = place

        def what() -> str:
            return entry_text(table, place)

        if isinstance(target, Call):
            with engine_calls(what):
                return self._dataplane.table_add(name, key, target.action, target.params, priority)
        kind = target.WhichOneof("type")
        if kind == "action_profile_member_id":
            number = target.action_profile_member_id
            member = self._profiles.member(table.action_profile, number)
            with engine_calls(what):
                handle = self._dataplane.table_add_member(name, key, member, priority)
        elif kind == "action_profile_group_id":
            number = target.action_profile_group_id
            group = self._profiles.group(table.action_profile, number)
            with engine_calls(what):
                handle = self._dataplane.table_add_group(name, key, group, priority)
        else:
            handle = self._add_one_shot(table, place, target.action_profile_action_set)
        self._note(table, place, target)
        return handle

    def replace(self, table: Table, place: Place, handle: int, target: Target) -> None:
        """Replace the target of an entry. Raises StatusError without side effects."""
        what = f"table {table.name}"
        if isinstance(target, Call):
            with engine_calls(what):
                self._dataplane.table_modify(table.name, handle, target.action, target.params)
            return
        kind = target.WhichOneof("type")
        one_shot = None
        with engine_calls(what):
            if kind == "action_profile_member_id":
                number = target.action_profile_member_id
                member = self._profiles.member(table.action_profile, number)
                self._dataplane.table_modify_member(table.name, handle, member)
            elif kind == "action_profile_group_id":
                number = target.action_profile_group_id
                group = self._profiles.group(table.action_profile, number)
                self._dataplane.table_modify_group(table.name, handle, group)
            else:
                profile = self._schema.profile(table.action_profile)
                one_shot = self._profiles.make_one_shot(profile, target.action_profile_action_set)
                self._dataplane.table_modify_group(table.name, handle, one_shot.group)
        self._note(table, place, target)
        self._own(place, one_shot)

    def remove(self, table: Table, place: Place, handle: int) -> None:
        """Remove an entry from its table."""
        with engine_calls(f"table {place[0]}"):
            self._dataplane.table_delete(place[0], handle)
        self._note(table, place, None)
        self._own(place, None)

    def kept(self, table: Table, place: Place) -> Undo:
        """Return a function that restores the stored data of an entry."""
        target, one_shot = self._indirect.get(place), self._one_shots.get(place)

        def put_back() -> None:
            self._note(table, place, target)
            self._profiles.exchange_one_shot(self._one_shots.pop(place, None), one_shot)
            if one_shot is not None:
                self._one_shots[place] = one_shot

        return put_back

    def target(self, place: Place, entry: Entry) -> Target:
        """Return the target of an entry."""
        if entry.action is None:
            return self._indirect[place]
        return Call(entry.action, entry.params)

    def encode(self, table: Table, place: Place, entry: Entry) -> p4r.TableAction:
        """Encode the target of an entry as the client wrote it."""
        target = self.target(place, entry)
        if isinstance(target, p4r.TableAction):
            return target
        action = next(a for a in table.entry_actions.values() if a.name == target.action)
        return p4r.TableAction(action=encode_action(action, target.params))

    def _add_one_shot(self, table: Table, place: Place, message: p4r.ActionProfileActionSet) -> int:
        profile = self._schema.profile(table.action_profile)
        one_shot = self._profiles.make_one_shot(profile, message)
        try:
            with engine_calls(lambda: entry_text(table, place)):
                handle = self._dataplane.table_add_group(
                    place[0], place[1], one_shot.group, place[2]
                )
        except Exception:
            self._profiles.drop_one_shot(one_shot)
            raise
        self._own(place, one_shot)
        return handle

    def _note(self, table: Table, place: Place, target: p4r.TableAction | None) -> None:
        """Update the use counts of an entry's new and previous member or group."""
        old = self._indirect.pop(place, None)
        if old is not None:
            self._profiles.hold(table.action_profile, old, -1)
        if target is not None:
            self._profiles.hold(table.action_profile, target, 1)
            self._indirect[place] = target

    def _own(self, place: Place, one_shot: OneShot | None) -> None:
        """Record the one-shot group of an entry and free the previous group."""
        old = self._one_shots.pop(place, None)
        if old is not None:
            self._profiles.drop_one_shot(old)
        if one_shot is not None:
            self._one_shots[place] = one_shot
