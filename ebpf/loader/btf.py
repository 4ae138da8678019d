"""Converter of BTF to numpy types. BTF is the type information that clang adds to BPF objects.

Documentation/bpf/btf.rst of Linux describes the format.
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebpf.loader.errors import LoadError

MAGIC = 0xEB9F
INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT = range(1, 12)
FUNC, FUNC_PROTO, VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = range(12, 20)
NAMES_ONLY = (TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG, VAR)
# Number of bytes that follow the common 12 bytes of a type: for the type itself, and per member.
OWN_BYTES = {INT: 4, ARRAY: 12, VAR: 4, DECL_TAG: 4}
MEMBER_BYTES = {STRUCT: 12, UNION: 12, ENUM: 8, FUNC_PROTO: 8, DATASEC: 12, ENUM64: 12}
SIGNED, BOOL = 1, 4  # flags of an INT
# Typedefs in kernel headers, for numbers in network byte order.
NETWORK_ORDER = {"__be16": ">u2", "__be32": ">u4", "__be64": ">u8"}
POINTER = np.dtype("u8")


@dataclass(frozen=True)
class _Type:
    kind: int
    name: str
    # size in bytes; for PTR, TYPEDEF and similar kinds: number of the type to which they refer
    size: int
    is_flagged: bool  # for STRUCT and UNION: whether members may be bit fields
    own: tuple[int, ...]
    members: tuple[tuple[int, int, int], ...]


class Types:
    """All types of an object file; `number` is the index of a type."""

    def __init__(self, raw: bytes) -> None:
        magic, _, _, length, types_at, types_size, names_at, names_size = struct.unpack_from(
            "<HBBIIIII", raw
        )
        if magic != MAGIC:
            raise LoadError("BTF has the byte order of another machine")
        self._names = raw[length + names_at :][:names_size]
        self._types = [_Type(0, "", 0, False, (), ())]  # void
        at, end = length + types_at, length + types_at + types_size
        while at < end:
            at = self._read(raw, at)

    def dtype(self, number: int) -> np.dtype[Any]:
        """Return a type as a dtype of numpy.

        Structures have named fields. The typedefs __be16 etc. have network byte order.

        Raises LoadError for bit fields, because numpy has no such type.
        """
        kind = self._types[number]
        if kind.kind in NAMES_ONLY:
            known = NETWORK_ORDER.get(kind.name) if kind.kind == TYPEDEF else None
            return np.dtype(known) if known else self.dtype(kind.size)
        if kind.kind == INT:
            return _integer(kind)
        if kind.kind in (ENUM, ENUM64):
            return _enumeration(kind)
        if kind.kind == ARRAY:
            return np.dtype((self.dtype(kind.own[0]), (kind.own[2],)))
        if kind.kind in (STRUCT, UNION, DATASEC):
            return self._structure(kind)
        if kind.kind == PTR:
            return POINTER
        raise LoadError(f"BTF: type {kind.name or number} (kind {kind.kind}) has no size")

    def _structure(self, kind: _Type) -> np.dtype[Any]:
        fields = self._fields(kind)
        return np.dtype(
            {
                "names": [name for name, _, _ in fields],
                "formats": [form for _, form, _ in fields],
                "offsets": [at for _, _, at in fields],
                "itemsize": kind.size,
            }
        )

    def _fields(self, kind: _Type) -> list[tuple[str, np.dtype[Any], int]]:
        fields = []
        for first, second, third in kind.members:
            if kind.kind == DATASEC:  # each member has type, byte offset and size
                name, number, at = self._types[first].name, first, second
            else:  # each member has name, type and bit offset
                name, number, at = self._name(first), second, (third & 0xFFFFFF) // 8
                if kind.is_flagged and third >> 24:
                    raise LoadError(f"BTF: struct {kind.name}: {name} is a bit field")
            if name:
                fields.append((name, self.dtype(number), at))
            # anonymous struct or union: its fields become fields of the type that contains it
            else:
                inner = self._fields(self._types[number])
                fields += [(each, form, at + offset) for each, form, offset in inner]
        return fields

    def _read(self, raw: bytes, at: int) -> int:
        name, info, size = struct.unpack_from("<III", raw, at)
        kind, count = info >> 24 & 0x1F, info & 0xFFFF
        at += 12
        own_bytes, member_bytes = OWN_BYTES.get(kind, 0), MEMBER_BYTES.get(kind, 0)
        own = struct.unpack_from(f"<{own_bytes // 4}I", raw, at)
        at += own_bytes
        members = [
            (*struct.unpack_from(f"<{member_bytes // 4}I", raw, at + i * member_bytes), 0)[:3]
            for i in range(count if member_bytes else 0)
        ]
        flagged = bool(info >> 31)
        self._types.append(_Type(kind, self._name(name), size, flagged, own, tuple(members)))
        return at + len(members) * member_bytes

    def _name(self, at: int) -> str:
        return self._names[at : self._names.index(0, at)].decode()


def _enumeration(kind: _Type) -> np.dtype[Any]:
    """Return the dtype of an enumeration.

    clang 14 does not set the sign flag, so the function looks for negative values.
    """
    negative = kind.kind == ENUM and any(value >> 31 for _, value, _ in kind.members)
    return np.dtype(f"{'i' if kind.is_flagged or negative else 'u'}{kind.size}")


def _integer(kind: _Type) -> np.dtype[Any]:
    encoding = kind.own[0] >> 24 & 0xF
    if encoding & BOOL:
        return np.dtype("?")
    if kind.size > 8:
        return np.dtype(f"V{kind.size}")
    return np.dtype(f"{'i' if encoding & SIGNED else 'u'}{kind.size}")
