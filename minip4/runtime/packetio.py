"""Packet-in and packet-out: frames on the CPU port begin with a controller header (spec 16.1)."""

from finsy.proto import p4i, p4r

from minip4.runtime import values
from minip4.runtime.status import invalid


class ControllerHeader:
    """A @controller_header: fields packed from the most significant bit on."""

    def __init__(self, header: p4i.ControllerPacketMetadata | None, name: str) -> None:
        self._name = name
        self._fields = () if header is None else tuple(header.metadata)
        bits = sum(f.bitwidth for f in self._fields)
        if bits % 8:
            raise invalid(f"header {name}: {bits} bits, expected whole bytes")
        self._length = bits // 8

    def unpack(self, frame: bytes) -> p4r.PacketIn:
        """Split a frame from the CPU port; one too short for the header is all payload."""
        packet = p4r.PacketIn()
        if len(frame) < self._length:
            packet.payload = frame
            return packet
        bits = int.from_bytes(frame[: self._length], "big")
        left = self._length * 8
        for field in self._fields:
            left -= field.bitwidth
            value = bits >> left & ((1 << field.bitwidth) - 1)
            packet.metadata.add(metadata_id=field.id, value=values.encode(value))
        packet.payload = frame[self._length :]
        return packet

    def pack(self, packet: p4r.PacketOut) -> bytes:
        """Make the frame for the CPU port. Raises StatusError."""
        given = {m.metadata_id: m.value for m in packet.metadata}
        if len(given) != len(packet.metadata):
            raise invalid(f"{self._name}: a metadata field is given twice")
        bits = 0
        for field in self._fields:
            value = given.pop(field.id, None)
            what = f"{self._name}, field {field.name}"
            if value is None:
                raise invalid(f"{what}: missing")
            bits = bits << field.bitwidth | values.decode(value, field.bitwidth, what)
        if given:
            raise invalid(f"{self._name}: it has no metadata field with id {min(given)}")
        return bits.to_bytes(self._length, "big") + packet.payload
