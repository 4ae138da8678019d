"""A TNA program over P4Runtime: tables, registers of structs, mirror sessions and digests."""

import grpc
import pytest
from finsy.proto import p4d, p4r, p4t
from harness import (
    asynchronous,
    bench,
    config,
    entry,
    exact,
    info,
    insert,
    modify,
    named,
    ternary,
)

PROGRAM, PIPES = "tofino", "tofino_pipes"
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
async def test_settings_of_a_filter() -> None:
    """A controller writes the settings of a filter as a register of structs.

    The register has the name of the filter.
    """
    async with bench(PROGRAM) as running:
        register = named(info(PROGRAM).registers, "load")
        message = p4r.RegisterEntry(register_id=register.preamble.id)
        message.index.index = 7
        for value in (10_000_000_000, 0):
            bits = value.to_bytes(5, "big").lstrip(b"\0") or b"\0"
            message.data.struct.members.add().bitstring = bits
        written = p4r.Entity(register_entry=message)
        await running.write(modify(written))
        assert await running.read(written) == [written]
        read = p4r.Entity(register_entry=p4r.RegisterEntry(register_id=register.preamble.id))
        assert len(await running.read(read)) == 512


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (p4t.P4NamedType(name="seen_t"), "struct seen_t contains itself"),
        (p4t.P4NamedType(name="none_t"), "P4Info has no struct none_t"),
    ],
    ids=["a struct in itself", "an unknown struct"],
)
@asynchronous
async def test_bad_types_are_refused(member: p4t.P4NamedType, message: str) -> None:
    async with bench(None) as running:
        bad = config(PROGRAM)
        bad.p4info.type_info.structs["seen_t"].members[0].type_spec.struct.CopyFrom(member)
        with pytest.raises(grpc.aio.AioRpcError, match=message):
            await running.push(p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT, bad)


@asynchronous
async def test_members_of_a_translated_type_are_refused() -> None:
    """A register of a struct cannot be read if a member has a translated type.

    The reason is that P4Info does not contain the width of this member.
    """
    translated = config(PROGRAM)
    types = translated.p4info.type_info
    types.new_types["port_t"].translated_type.sdn_string.SetInParent()
    types.structs["seen_t"].members[1].type_spec.new_type.name = "port_t"
    async with bench(None) as running:
        await running.push(p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT, translated)
        with pytest.raises(grpc.aio.AioRpcError, match="translated type port_t in a register"):
            await running.read(seen(7))


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


@asynchronous
async def test_tables_and_registers_of_two_pipelines() -> None:
    async with bench(PIPES) as running:
        match = {"hdr.frame.dst": exact(DST)}
        for name, port in (("first", b"\x03"), ("second", b"\x04")):
            action = (f"{name}.Ingress.forward", {"port": port})
            await running.write(
                insert(entry(f"{name}.Ingress.l2", match, action, program_name=PIPES))
            )
        running.driver.arrive(1, FRAME)
        running.driver.arrive(129, FRAME)
        assert sorted(running.driver.left) == [
            (3, DST + SRC + b"\x00\x0adata"),
            (4, DST + SRC + b"\x00\x14data"),
        ]
        read = [cell(f"{name}.Ingress.seen", port) for name in ("first", "second")
                for port in (1, 129)]  # fmt: skip
        values = [b"\x01", b"\x07", b"\x07", b"\x01"]
        found = [(await running.read(entity))[0].register_entry.data.bitstring for entity in read]
        assert found == values


def cell(register: str, index: int) -> p4r.Entity:
    message = p4r.RegisterEntry(register_id=named(info(PIPES).registers, register).preamble.id)
    message.index.index = index
    return p4r.Entity(register_entry=message)
