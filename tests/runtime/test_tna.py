"""A TNA program through P4Runtime: tables, registers of structs, mirror sessions, digests."""

import grpc
import pytest
from finsy.proto import p4d, p4r
from harness import asynchronous, bench, entry, info, insert, modify, named, ternary

PROGRAM = "tofino"
DST, SRC = bytes.fromhex("020000000002"), bytes.fromhex("020000000001")
FRAME = DST + SRC + b"\x88\xb5data"


def seen(index: int, *values: p4d.P4Data) -> p4r.Entity:
    register = named(info(PROGRAM).registers, "seen")
    message = p4r.RegisterEntry(register_id=register.preamble.id)
    message.index.index = index
    if values:
        message.data.struct.members.extend(values)
    return p4r.Entity(register_entry=message)


@asynchronous
async def test_table_and_mirror_session() -> None:
    async with bench(PROGRAM) as running:
        clone = p4r.CloneSessionEntry(session_id=9)
        clone.replicas.add(egress_port=5, instance=0)
        session = p4r.PacketReplicationEngineEntry(clone_session_entry=clone)
        match = {"hdr.frame.dst": ternary(DST, b"\xff" * 6)}
        action = ("forward", {"port": b"\x03", "session": b"\x09"})
        added = entry("l2", match, action, program_name=PROGRAM, priority=1)
        await running.write(
            insert(p4r.Entity(packet_replication_engine_entry=session)), insert(added)
        )
        running.driver.arrive(1, FRAME)
        assert sorted(running.driver.left) == [(3, FRAME), (5, b"\xff\xaa" + FRAME)]
        (read,) = await running.read(entry("l2", match, None, program_name=PROGRAM, priority=1))
        assert read.table_entry.action == added.table_entry.action


@asynchronous
async def test_register_of_structs() -> None:
    async with bench(PROGRAM) as running:
        running.driver.arrive(7, FRAME)
        (read,) = await running.read(seen(7))
        values = (
            p4d.P4Data(bitstring=b"\x01"),
            p4d.P4Data(bitstring=b"\x88\xb5"),
            p4d.P4Data(bool=True),
        )
        assert read == seen(7, *values)
        written = seen(7, p4d.P4Data(bitstring=b"\x10"), *values[1:])
        await running.write(modify(written))
        assert await running.read(seen(7)) == [written]
        with pytest.raises(grpc.aio.AioRpcError, match="expected a struct of 3 members"):
            await running.write(modify(seen(7, values[0])))


@asynchronous
async def test_digest_and_counters() -> None:
    async with bench(PROGRAM) as running:
        digest = named(info(PROGRAM).digests, "reports")
        message = p4r.DigestEntry(digest_id=digest.preamble.id)
        message.config.max_list_size = 1
        stream = await running.arbitrate(2)
        await stream.read()
        running.election_id = 2
        await running.write(insert(p4r.Entity(digest_entry=message)))
        running.driver.arrive(4, FRAME)
        (data,) = (await stream.read()).digest.data
        assert [m.bitstring for m in data.struct.members] == [SRC.lstrip(b"\0"), b"\x04"]
        counter = named(info(PROGRAM).counters, "per_port")
        cell = p4r.CounterEntry(counter_id=counter.preamble.id)
        cell.index.index = 4
        (count,) = await running.read(p4r.Entity(counter_entry=cell))
        assert count.counter_entry.data.packet_count == 1
