"""Members of groups (spec 9.2): checks of their number and weights, and selection by port state.

A member is active if the port that it watches is up.
"""

from collections.abc import Collection, Iterable, Sequence

from finsy.proto import p4r

from minip4.runtime.p4info.schema import ActionProfile
from minip4.runtime.p4info.values import Values
from minip4.runtime.status import Code, StatusError, invalid

MAX_PORT = 510

Member = p4r.ActionProfileGroup.Member | p4r.ActionProfileAction


def watched(member: Member, ports: Values, what: str = "") -> int | None:
    """Return the port that a member watches, or None. Raises StatusError."""
    kind = member.WhichOneof("watch_kind")
    if kind == "watch_port":
        return ports.decode(member.watch_port, f"{what}, watch_port")
    return member.watch or None  # the older field, in which 0 means no port


def check(
    what: str,
    profile: ActionProfile,
    members: Collection[Member],
    ports: Values,
    *,
    max_size: int = 0,
    semantics: int = p4r.ActionProfileActionSet.DEFAULT_SIZE_DETERMINED_BY_ACTION_SELECTOR,
) -> None:
    """Reject a list of members that is not valid for a group of the profile.

    `max_size` is the size limit of the group; 0 means that only the profile limits it.
    """
    if max_size < 0 or (profile.max_group_size and max_size > profile.max_group_size):
        limit = f" to {profile.max_group_size}" if profile.max_group_size else " or more"
        raise invalid(f"{what}: max_size {max_size}, expected 0{limit}")
    for member in members:
        if member.weight < 1:
            raise invalid(f"{what}: weight {member.weight}, expected 1 or more")
        port = watched(member, ports, what)
        if port is not None and not 0 <= port <= MAX_PORT:
            raise invalid(f"{what}: watch port {port}, expected 0 to {MAX_PORT}")
    counts_members = profile.sum_of_members
    if semantics != p4r.ActionProfileActionSet.DEFAULT_SIZE_DETERMINED_BY_ACTION_SELECTOR:
        counts_members = semantics == p4r.ActionProfileActionSet.SUM_OF_MEMBERS
    size = len(members) if counts_members else sum(member.weight for member in members)
    limit_size = max_size or profile.max_group_size
    if limit_size and size > limit_size:
        counted = "members are" if counts_members else "the sum of the weights is"
        by = "its max_size" if max_size else "the program"
        raise StatusError(
            Code.RESOURCE_EXHAUSTED, f"{what}: {counted} {size}, but {by} allows {limit_size}"
        )


def taking_part(
    members: Iterable[Member],
    handles: Sequence[int],
    ports: Values,
    down_ports: Collection[int],
) -> list[int]:
    """Return the handles of the active members; a member is repeated according to its weight."""
    return [
        handle
        for member, handle in zip(members, handles, strict=True)
        if watched(member, ports) not in down_ports
        for _ in range(member.weight)
    ]
