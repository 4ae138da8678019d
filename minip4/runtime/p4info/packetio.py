"""Packet-in and packet-out: frames on the CPU port begin with a controller header (spec 16.1)."""

from finsy.proto import p4i, p4r

from minip4.engine.model import Program
from minip4.runtime.p4info.schema import Schema
from minip4.runtime.status import invalid

_Metadata = p4i.ControllerPacketMetadata.Metadata
# fields in the order of the header, with their width in bits
Layout = list[tuple[_Metadata | None, int]]


def header_layout(header: p4i.ControllerPacketMetadata, program: Program) -> Layout:
    """Return the fields of a controller header as they are in frames.

    Returns None if P4Info does not declare the header. P4Info does not give the width of translated
    fields and may omit padding at the end of a header. Therefore the header is looked up in the
    program by its fields. If the program lacks the header, frames on the CPU port start without a
    header. Raises StatusError.
    """
    names = [field.name for field in header.metadata]
    known = {
        tuple((f.name, f.width) for f in found.type.fields)
        for found in program.headers.values()
        if not found.metadata and [f.name for f in found.type.fields[: len(names)]] == names
    }
    shortest = min(map(len, known), default=0)
    layouts = [fields for fields in known if len(fields) == shortest]
    if len(layouts) > 1:
        raise invalid(
            f"header {header.preamble.name}: several headers in the program have this layout"
        )
    if layouts:
        padding = [None] * (shortest - len(names))
        widths = (width for _, width in layouts[0])
        return list(zip([*header.metadata, *padding], widths, strict=True))
    bits = [field.bitwidth for field in header.metadata]
    return list(zip(header.metadata, bits, strict=True)) if all(bits) and not sum(bits) % 8 else []


class ControllerHeader:
    """A @controller_header. Its fields are packed, the first one into the most significant bits."""

    def __init__(self, schema: Schema, program: Program, name: str) -> None:
        self._name = name
        header = schema.controller_headers.get(name)
        layout = [] if header is None else header_layout(header, program)
        self._fields = [(f, width, schema.values(f or _Metadata())) for f, width in layout]
        bits = sum(width for _, width in layout)
        if bits % 8:
            raise invalid(f"header {name}: its length is {bits} bits; expected a multiple of 8")
        self._length = bits // 8

    def unpack(self, frame: bytes) -> p4r.PacketIn:
        """Split a frame from the CPU port into header fields and payload.

        If the frame is shorter than the header, all of it is payload.
        """
        packet = p4r.PacketIn()
        if len(frame) < self._length:
            packet.payload = frame
            return packet
        bits = int.from_bytes(frame[: self._length], "big")
        left = self._length * 8
        for field, width, of in self._fields:
            left -= width
            if field is not None:
                value = bits >> left & ((1 << width) - 1)
                packet.metadata.add(metadata_id=field.id, value=of.encode(value))
        packet.payload = frame[self._length :]
        return packet

    def pack(self, packet: p4r.PacketOut) -> bytes:
        """Build the frame for the CPU port. Raises StatusError."""
        given = {m.metadata_id: m.value for m in packet.metadata}
        if len(given) != len(packet.metadata):
            raise invalid(f"{self._name}: a metadata field is given twice")
        bits = 0
        for field, width, of in self._fields:
            bits <<= width
            if field is None:
                continue
            value = given.pop(field.id, None)
            what = f"{self._name}, field {field.name}"
            if value is None:
                raise invalid(f"{what}: missing")
            bits |= of.decode(value, what)
        if given:
            raise invalid(f"{self._name}: no metadata field with id {min(given)}")
        return bits.to_bytes(self._length, "big") + packet.payload
