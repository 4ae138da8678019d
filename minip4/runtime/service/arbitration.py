"""Arbitration among controllers: each role has a primary that may write (spec 5)."""

import asyncio
from dataclasses import dataclass, field

from finsy.proto import U128, p4r

from minip4.runtime.status import (
    Code,
    StatusError,
    denied,
    exhausted,
    invalid,
    not_found,
    unimplemented,
)

MAX_QUEUED = 4096  # maximum number of packets and digests queued per controller; more are dropped
# maximum number of other queued responses; above it, the switch stops reading from the controller
MAX_ANSWERS = 256
MAX_STREAMS = 256  # maximum number of open streams of all roles
MAX_ROLES = 1024  # maximum number of roles whose highest election id is stored
MAX_ROLE_NAME = 256  # maximum length of a role name, in bytes of UTF-8


@dataclass(eq=False)
class Client:
    """The stream of one controller, with the queue of messages to send.

    None in the queue marks the end.
    """

    queue: asyncio.Queue[p4r.StreamMessageResponse | None] = field(default_factory=asyncio.Queue)
    role: str | None = None  # None until the arbitration message arrives
    election_id: int = 0
    _taken: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self) -> p4r.StreamMessageResponse | None:
        """Return the next message to send, or None at the end."""
        response = await self.queue.get()
        self._taken.set()
        return response

    async def room(self) -> None:
        """Wait until another response may be queued."""
        while self.queue.qsize() >= MAX_QUEUED + MAX_ANSWERS:
            self._taken.clear()
            await self._taken.wait()

    def send(self, response: p4r.StreamMessageResponse) -> None:
        self.queue.put_nowait(response)

    def offer(self, response: p4r.StreamMessageResponse) -> bool:
        """Queue a packet or digest.

        Returns False if the queue is full because the controller is too slow.
        """
        if self.queue.qsize() >= MAX_QUEUED:
            return False
        self.queue.put_nowait(response)
        return True


@dataclass
class _Role:
    clients: list[Client] = field(default_factory=list)
    highest: int | None = None  # the highest election id ever seen
    primary: Client | None = None


class Arbitration:
    """All open streams, with the controllers and the primary of each role.

    A role ends when its last stream ends. The highest election id of the role stays stored, because
    a controller with a lower id must not become primary later. P4Runtime 1.4.1, 5.3 ("Rules for
    Handling MasterArbitrationUpdate Messages") defines `election_id_past` as the highest id that
    the server has ever seen for the device and role.
    """

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self._streams = 0
        self._roles: dict[str, _Role] = {}  # roles that have a stream
        self._highest: dict[str, int] = {}  # highest election id of each role without a stream

    def join(self) -> None:
        """Count a new stream. Raises StatusError if there are too many."""
        if self._streams >= MAX_STREAMS:
            raise exhausted(
                f"{MAX_STREAMS} streams are open; close one before you open another one"
            )
        self._streams += 1

    def update(self, client: Client, message: p4r.MasterArbitrationUpdate) -> None:
        """Handle an arbitration message; a StatusError ends the stream."""
        check_device(self._device_id, message.device_id)
        name = _role_name(message.role)
        if client.role not in (None, name):
            raise StatusError(
                Code.FAILED_PRECONDITION,
                f"this stream has role {client.role!r}: open another one for role {name!r}",
            )
        role = self._roles.get(name) or self._new_role(name)
        wanted = U128.decode(message.election_id)
        if wanted and any(c.election_id == wanted and c is not client for c in role.clients):
            raise invalid(f"Election id {wanted} already exists: another controller uses it")
        if client.role is None:
            client.role = name
            role.clients.append(client)
            self._roles[name] = role
            self._highest.pop(name, None)
        client.election_id = wanted
        self._elect(role, client)

    def leave(self, client: Client) -> None:
        """Remove a closed stream, and its role if the role has no other stream."""
        self._streams -= 1
        if client.role is None:
            return
        role = self._roles[client.role]
        role.clients.remove(client)
        self._elect(role, None)
        if not role.clients:
            del self._roles[client.role]
            if role.highest is not None:
                self._highest[client.role] = role.highest

    def check(self, device_id: int, role_name: str, role_id: int, election_id: int) -> None:
        """Reject a write by a controller that is not primary."""
        check_device(self._device_id, device_id)
        if role_id:
            raise unimplemented("numeric role ids are not supported, name the role")
        role = self._roles.get(role_name)
        if role is None or role.primary is None:
            raise denied("this role has no primary controller: send an arbitration message first")
        if role.primary.election_id != election_id:
            raise denied(
                f"only the primary may do this: its election id is {role.primary.election_id}, "
                f"the request has {election_id}"
            )

    def is_primary(self, client: Client) -> bool:
        return client.role is not None and self._roles[client.role].primary is client

    def primaries(self) -> list[Client]:
        """Return the primary of each role. Primaries receive packets and digests."""
        return [role.primary for role in self._roles.values() if role.primary is not None]

    def _new_role(self, name: str) -> _Role:
        """Create a role. Raises StatusError if there are too many."""
        # the default role does not count towards the limit
        is_known = name in self._highest or not name
        if not is_known and len(self._roles) + len(self._highest) >= MAX_ROLES:
            raise exhausted(
                f"role {name!r}: the switch stores election ids of at most "
                f"{MAX_ROLES} roles; use one of these roles, or restart the switch"
            )
        return _Role(highest=self._highest.get(name))

    def _elect(self, role: _Role, sender: Client | None) -> None:
        """Elect the primary of a role.

        Notifies all controllers if the primary changed, else only the sender.
        """
        if sender is not None and sender.election_id:
            role.highest = max(sender.election_id, role.highest or 0)
        before = role.primary
        role.primary = next(
            (c for c in role.clients if c.election_id and c.election_id == role.highest), None
        )
        changed = role.primary is not before
        for client in role.clients:
            if changed or client is sender or (sender is not None and sender is role.primary):
                client.send(self._response(role, client))

    def _response(self, role: _Role, client: Client) -> p4r.StreamMessageResponse:
        response = p4r.StreamMessageResponse()
        update = response.arbitration
        update.device_id = self._device_id
        if client.role:
            update.role.name = client.role
        update.election_id.CopyFrom(U128.encode(role.highest or 0))
        if role.primary is client:
            update.status.code = Code.OK.value[0]
            update.status.message = "you are the primary"
        elif role.primary is not None:
            update.status.code = Code.ALREADY_EXISTS.value[0]
            update.status.message = "there is a primary with a higher election id"
        else:
            update.status.code = Code.NOT_FOUND.value[0]
            update.status.message = "there is no primary"
        return response


def check_device(expected: int, given: int) -> None:
    if given != expected:
        raise not_found(f"unknown device id {given}; this switch has device id {expected}")


def _role_name(role: p4r.Role) -> str:
    if role.id:
        raise unimplemented("numeric role ids are not supported, name the role")
    if role.HasField("config"):
        raise unimplemented(f"role {role.name[:40]!r}: the config of a role is not supported")
    size = len(role.name.encode())
    if size > MAX_ROLE_NAME:
        raise invalid(f"role name: {size} bytes; use at most {MAX_ROLE_NAME}")
    return str(role.name)
