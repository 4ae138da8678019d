"""Watch ports: a member of a group takes part only while its port is up (spec 9.2.3)."""

from collections.abc import Collection, Iterable, Sequence

from finsy.proto import p4r

from minip4.runtime import values
from minip4.runtime.status import invalid

MAX_PORT = 510
PORT_BITS = 9

_Member = p4r.ActionProfileGroup.Member | p4r.ActionProfileAction


def watched(member: _Member) -> int | None:
    """The port that a member watches, or None."""
    kind = member.WhichOneof("watch_kind")
    if kind == "watch_port":
        return int.from_bytes(member.watch_port, "big")
    return member.watch or None  # the older field, in which 0 stands for none


def check(what: str, member: _Member) -> None:
    """Refuse a watch port that no port can be."""
    if member.WhichOneof("watch_kind") == "watch_port":
        values.decode(member.watch_port, PORT_BITS, f"{what}, watch_port")
    port = watched(member)
    if port is not None and not 0 <= port <= MAX_PORT:
        raise invalid(f"{what}: watch port {port}, expected 0 to {MAX_PORT}")


def taking_part(
    members: Iterable[_Member], handles: Sequence[int], down_ports: Collection[int]
) -> list[int]:
    """The engine's handles of the members whose port is up, each as often as its weight says."""
    return [
        handle
        for member, handle in zip(members, handles, strict=True)
        if watched(member) not in down_ports
        for _ in range(member.weight)
    ]
