"""Packets that controllers send to the CPU port, and packets that they get from it."""

import grpc
import pytest
from finsy.proto import p4r
from harness import asynchronous, bench, entry, exact, info, insert, modify, named

FRAME = bytes.fromhex("020000000002 020000000001 1234") + b"hello, controller"


def packet_out(**metadata: bytes) -> p4r.StreamMessageRequest:
    request = p4r.StreamMessageRequest()
    request.packet.payload = FRAME
    ids = {"egress_port": 1, "padding": 2, "other": 3}
    for name, value in metadata.items():
        request.packet.metadata.add(metadata_id=ids[name], value=value)
    return request


@asynchronous
async def test_packet_out_leaves_by_the_port_in_its_metadata() -> None:
    async with bench(primary=False) as running:
        stream = await running.arbitrate(1)
        await stream.read()
        await stream.write(packet_out(egress_port=b"\x01\x05", padding=b"\x00"))
        # when the error of this message arrives, the switch has processed the message before it
        await stream.write(packet_out())
        await stream.read()
        assert running.driver.left == [(0x105, FRAME)]


@asynchronous
async def test_packet_in_reaches_the_primary_only() -> None:
    async with bench(primary=False) as running:
        backup = await running.arbitrate(1)
        await backup.read()
        primary = await running.arbitrate(2)
        await primary.read()
        running.election_id = 2
        to_cpu = ("to_cpu", {"reason": b"\x05"})
        await running.write(
            insert(entry("switching", {"hdr.ethernet.destination": exact(FRAME[:6])}, to_cpu))
        )
        running.driver.arrive(257, FRAME)
        packet = (await primary.read()).packet
        assert packet.payload == FRAME
        assert [(m.metadata_id, m.value) for m in packet.metadata] == [
            (1, b"\x01\x01"),
            (2, b"\x05"),
        ]
        assert (await backup.read()).HasField("arbitration")
        await primary.done_writing()
        assert (await backup.read()).HasField("arbitration")


BAD = {
    "missing": (packet_out(egress_port=b"\x01"), "packet_out, field padding: missing"),
    "too wide": (
        packet_out(egress_port=b"\x02\x00", padding=b"\x00"),
        "packet_out, field egress_port: value 0x200 does not fit in 9 bits",
    ),
    "unknown": (
        packet_out(egress_port=b"\x01", padding=b"\x00", other=b"\x00"),
        "packet_out: no metadata field with id 3",
    ),
}


@pytest.mark.parametrize(("message", "text"), BAD.values(), ids=BAD.keys())
@asynchronous
async def test_a_bad_packet_out_gets_a_stream_error(
    message: p4r.StreamMessageRequest, text: str
) -> None:
    async with bench(primary=False) as running:
        stream = await running.arbitrate(1)
        await stream.read()
        await stream.write(message)
        error = (await stream.read()).error
        assert text in error.message
        assert error.packet_out.packet_out == message.packet
        assert running.driver.left == []


@asynchronous
async def test_a_backup_may_not_send_packets() -> None:
    async with bench() as running:
        backup = await running.arbitrate(0)
        await backup.read()
        await backup.write(packet_out(egress_port=b"\x01", padding=b"\x00"))
        error = (await backup.read()).error
        assert error.canonical_code == grpc.StatusCode.PERMISSION_DENIED.value[0]


@asynchronous
async def test_frames_count_where_the_program_counts_them() -> None:
    async with bench() as running:
        default = entry("switching", {}, ("forward", {"port": b"\x02"}), is_default_action=True)
        await running.write(modify(default))
        for _ in range(3):
            running.driver.arrive(1, FRAME)
        assert running.driver.left == [(2, FRAME)] * 3
        (cell,) = await running.read(
            p4r.Entity(
                counter_entry=p4r.CounterEntry(
                    counter_id=named(info().counters, "port_counter").preamble.id,
                    index=p4r.Index(index=1),
                )
            )
        )
        assert cell.counter_entry.data == p4r.CounterData(packet_count=3, byte_count=3 * len(FRAME))
