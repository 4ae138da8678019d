"""Table entries over P4Runtime: which entries are accepted or rejected, and batches."""

import grpc
import pytest
from finsy.proto import p4r
from harness import (
    asynchronous,
    bench,
    between,
    delete,
    entry,
    error_details,
    exact,
    info,
    insert,
    lpm,
    modify,
    named,
    optional,
    ternary,
)

PORT = "standard_metadata.ingress_port"
MAC = b"\x02\x00\x00\x00\x00\x01"


def switching(mac: bytes = MAC, action: str = "forward", **params: bytes) -> p4r.Entity:
    return entry("switching", {"hdr.ethernet.destination": exact(mac)}, (action, params))


def route(value: bytes, length: int, port: bytes = b"\x01", **fields: object) -> p4r.Entity:
    match = {"hdr.ipv4.destination": lpm(value, length)}
    return entry("route", match, ("forward", {"port": port}), **fields)


ACCEPTED = {
    "exact": switching(port=b"\x01"),
    "exact, nine bits": switching(port=b"\x01\xff"),
    "no parameter": switching(action="NoAction"),
    "lpm": route(b"\x0a\x00\x01\x00", 24, controller_metadata=5, metadata=b"abc"),
    "lpm, anything": entry("route", {}, ("drop", {})),
    "ternary, optional, range": entry(
        "acl",
        {
            "hdr.ipv4.source": ternary(b"\x0a\x00\x00\x00", b"\xff\x00\x00\x00"),
            "hdr.ipv4.protocol": optional(b"\x06"),
            "hdr.ipv4.ttl": between(b"\x01", b"\x40"),
            PORT: exact(b"\x01"),
        },
        ("drop", {}),
        priority=10,
    ),
    "fields left out": entry("acl", {PORT: exact(b"\x01")}, ("drop", {}), priority=1),
}


@pytest.mark.parametrize("entity", ACCEPTED.values(), ids=ACCEPTED.keys())
@asynchronous
async def test_an_entry_reads_back_as_it_was_written(entity: p4r.Entity) -> None:
    async with bench() as running:
        await running.write(insert(entity))
        request = p4r.Entity(table_entry=p4r.TableEntry(table_id=entity.table_entry.table_id))
        assert await running.read(request) == [entity]
        await running.write(delete(entity))
        assert await running.read(request) == []


@asynchronous
async def test_leading_zeros_are_taken_and_read_back_canonical() -> None:
    async with bench() as running:
        await running.write(insert(switching(b"\x00\x00" + MAC, port=b"\x00\x00\x01")))
        assert await running.read(switching()) == [switching(MAC, port=b"\x01")]


REFUSED = {
    "unknown table": (
        p4r.Entity(table_entry=p4r.TableEntry(table_id=0x02FFFFFF)),
        grpc.StatusCode.INVALID_ARGUMENT,
        "no table has id 0x02ffffff",
    ),
    "exact field missing": (
        entry("switching", {}, ("drop", {})),
        grpc.StatusCode.INVALID_ARGUMENT,
        "table MyIngress.switching, field hdr.ethernet.destination: missing",
    ),
    "value too wide": (
        switching(b"\x01" + MAC, port=b"\x01"),
        grpc.StatusCode.OUT_OF_RANGE,
        "value 0x1020000000001 does not fit in 48 bits",
    ),
    "empty value": (
        switching(b"", port=b"\x01"),
        grpc.StatusCode.INVALID_ARGUMENT,
        "empty byte string, expected a value of 48 bits",
    ),
    "parameter too wide": (
        switching(port=b"\x02\x00"),
        grpc.StatusCode.OUT_OF_RANGE,
        "action MyIngress.forward, parameter port: value 0x200 does not fit in 9 bits",
    ),
    "parameter missing": (
        switching(),
        grpc.StatusCode.INVALID_ARGUMENT,
        "parameter port is missing",
    ),
    "default-only action": (
        entry("route", {}, ("NoAction", {})),
        grpc.StatusCode.INVALID_ARGUMENT,
        "is not allowed here; expected one of: MyIngress.drop",
    ),
    "other match kind": (
        entry("switching", {"hdr.ethernet.destination": lpm(MAC, 48)}, ("drop", {})),
        grpc.StatusCode.INVALID_ARGUMENT,
        "lpm match given, expected exact",
    ),
    "prefix too long": (
        route(b"\x0a\x00\x01\x00", 33),
        grpc.StatusCode.INVALID_ARGUMENT,
        "prefix length 33, expected 1 to 32",
    ),
    "bits below the prefix": (
        route(b"\x0a\x00\x01\x01", 24),
        grpc.StatusCode.INVALID_ARGUMENT,
        "value 0xa000101 has bits set below its /24 prefix",
    ),
    "the first bit below the prefix": (
        route(b"\x0a\x00\x01\x80", 24),
        grpc.StatusCode.INVALID_ARGUMENT,
        "value 0xa000180 has bits set below its /24 prefix",
    ),
    "bits outside the mask": (
        entry("acl", {"hdr.ipv4.source": ternary(b"\x03", b"\x01"), PORT: exact(b"\x01")},
              ("drop", {}), priority=1),
        grpc.StatusCode.INVALID_ARGUMENT,
        "has bits set outside its mask 0x1",
    ),
    "empty range": (
        entry("acl", {"hdr.ipv4.ttl": between(b"\x02", b"\x01"), PORT: exact(b"\x01")},
              ("drop", {}), priority=1),
        grpc.StatusCode.INVALID_ARGUMENT,
        "range 0x2..0x1 is empty",
    ),
    "full range": (
        entry("acl", {"hdr.ipv4.ttl": between(b"\x00", b"\xff"), PORT: exact(b"\x01")},
              ("drop", {}), priority=1),
        grpc.StatusCode.INVALID_ARGUMENT,
        "the full range; omit the field to match any value",
    ),
    "no priority": (
        entry("acl", {PORT: exact(b"\x01")}, ("drop", {})),
        grpc.StatusCode.INVALID_ARGUMENT,
        "priority 0, expected 1 or more",
    ),
    "needless priority": (
        route(b"\x0a\x00\x01\x00", 24, priority=3),
        grpc.StatusCode.INVALID_ARGUMENT,
        "priority 3, expected 0",
    ),
    "const table": (
        entry("fixed", {"hdr.ethernet.type": exact(b"\x01")}, ("drop", {})),
        grpc.StatusCode.PERMISSION_DENIED,
        "table MyIngress.fixed: its entries are const",
    ),
    "inserted default action": (
        entry("switching", {}, ("drop", {}), is_default_action=True),
        grpc.StatusCode.INVALID_ARGUMENT,
        "it can only be modified",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("entity", "code", "message"), REFUSED.values(), ids=REFUSED.keys())
@asynchronous
async def test_an_entry_is_refused(entity: p4r.Entity, code: grpc.StatusCode, message: str) -> None:
    async with bench() as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(insert(entity))
        assert caught.value.code() == grpc.StatusCode.UNKNOWN
        (detail,) = error_details(caught.value)
        assert detail.canonical_code == code.value[0]
        assert message in detail.message


@asynchronous
async def test_existing_and_missing_entries() -> None:
    async with bench() as running:
        await running.write(insert(switching(port=b"\x01")))
        for update, code in (
            (insert(switching(port=b"\x02")), grpc.StatusCode.ALREADY_EXISTS),
            (modify(switching(b"\x09", port=b"\x02")), grpc.StatusCode.NOT_FOUND),
            (delete(switching(b"\x09")), grpc.StatusCode.NOT_FOUND),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await running.write(update)
            assert [d.canonical_code for d in error_details(caught.value)] == [code.value[0]]
        assert await running.read(switching()) == [switching(port=b"\x01")]


@asynchronous
async def test_default_actions() -> None:
    async with bench() as running:
        default = entry("switching", {}, ("forward", {"port": b"\x03"}), is_default_action=True)
        initial = entry("switching", {}, ("NoAction", {}), is_default_action=True)
        assert await running.read(initial) == [initial]
        await running.write(modify(default))
        assert await running.read(initial) == [default]
        reset = entry("switching", {}, None, is_default_action=True)
        await running.write(modify(reset))
        assert await running.read(initial) == [initial]
        fixed = entry("acl", {}, ("drop", {}), is_default_action=True)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(modify(fixed))
        assert "const in the program" in error_details(caught.value)[0].message


@asynchronous
async def test_continue_on_error_executes_the_valid_updates() -> None:
    async with bench() as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(
                insert(switching(b"\x01", port=b"\x01")),
                insert(switching(b"\x02")),
                insert(switching(b"\x03", port=b"\x03")),
            )
        codes = [d.canonical_code for d in error_details(caught.value)]
        assert codes == [0, grpc.StatusCode.INVALID_ARGUMENT.value[0], 0]
        assert len(await running.read(all_of("switching"))) == 2


ATOMIC = (p4r.WriteRequest.ROLLBACK_ON_ERROR, p4r.WriteRequest.DATAPLANE_ATOMIC)


@pytest.mark.parametrize("atomicity", ATOMIC)
@asynchronous
async def test_an_atomic_batch_is_taken_back_whole(atomicity: int) -> None:
    async with bench() as running:
        kept = switching(b"\x01", port=b"\x01")
        default = entry("switching", {}, ("forward", {"port": b"\x03"}), is_default_action=True)
        await running.write(insert(kept), modify(default), insert(switching(b"\x08", port=b"\x08")))
        before = await running.read(all_of("switching"), default)
        tables = running.device.running_pipeline.tables
        state = [*tables.state()]  # the entries that a new pipeline would get
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(
                modify(switching(b"\x01", port=b"\x02")),
                insert(switching(b"\x02", port=b"\x02")),
                delete(switching(b"\x01")),
                insert(switching(b"\x01", port=b"\x07")),
                modify(entry("switching", {}, None, is_default_action=True)),
                delete(switching(b"\x08")),
                delete(switching(b"\x09")),
                atomicity=atomicity,
            )
        codes = [d.canonical_code for d in error_details(caught.value)]
        aborted = grpc.StatusCode.ABORTED.value[0]
        assert codes == [aborted] * 6 + [grpc.StatusCode.NOT_FOUND.value[0]]
        after = await running.read(all_of("switching"), default)
        assert sorted(map(str, after)) == sorted(map(str, before))
        assert sorted(map(str, tables.state())) == sorted(map(str, state))
        await running.write(
            delete(switching(b"\x01")), insert(switching(b"\x02", port=b"\x02")),
            atomicity=atomicity,
        )  # fmt: skip


@asynchronous
async def test_a_read_without_a_key_may_ask_for_a_priority_or_for_metadata() -> None:
    port_1, port_2 = ({PORT: exact(bytes((port,)))} for port in (1, 2))
    async with bench() as running:
        entries = [
            entry("acl", key, ("drop", {}), priority=priority, controller_metadata=metadata)
            for key, priority, metadata in ((port_1, 1, 7), (port_1, 2, 8), (port_2, 2, 7))
        ]
        await running.write(*map(insert, entries))
        for fields, expected in (
            ({"priority": 1}, entries[:1]),
            ({"priority": 2}, entries[1:]),
            ({"controller_metadata": 7}, entries[::2]),
            ({"priority": 2, "controller_metadata": 7}, entries[2:]),
            ({"priority": 3}, []),
        ):
            asked = all_of("acl")
            asked.table_entry.MergeFrom(p4r.TableEntry(**fields))
            assert sorted(map(str, await running.read(asked))) == sorted(map(str, expected))


@asynchronous
async def test_many_entries_come_in_bounded_responses() -> None:
    async with bench() as running:
        entities = [switching(i.to_bytes(2, "big").lstrip(b"\0"), port=b"\x01")
                    for i in range(1, 1201)]  # fmt: skip
        await running.write(*(insert(e) for e in entities))
        request = p4r.ReadRequest(device_id=1, entities=[all_of("switching")])
        responses = [len(r.entities) async for r in running.stub.Read(request)]
        assert responses == [500, 500, 200]


@asynchronous
async def test_const_entries_and_all_tables_are_readable() -> None:
    async with bench() as running:
        await running.write(insert(switching(port=b"\x01")))
        entities = await running.read(p4r.Entity(table_entry=p4r.TableEntry()))
        fixed = entry("fixed", {"hdr.ethernet.type": exact(b"\x88\xcc")}, ("drop", {}))
        fixed.table_entry.is_const = True
        assert sorted(map(str, entities)) == sorted(map(str, [switching(port=b"\x01"), fixed]))


@asynchronous
async def test_insert_into_a_full_table_is_resource_exhausted() -> None:
    async with bench() as running:
        size = named(info().tables, "route").size
        updates = [insert(route(bytes((10, 0, i, 0)), 24)) for i in range(size)]
        await running.write(*updates)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(insert(route(bytes((11, 0, 0, 0)), 24)))
        (detail,) = error_details(caught.value)
        assert detail.canonical_code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]


def all_of(table: str) -> p4r.Entity:
    return p4r.Entity(table_entry=p4r.TableEntry(table_id=named(info().tables, table).preamble.id))


@asynchronous
async def test_an_error_names_the_entry() -> None:
    acl = {"hdr.ipv4.source": ternary(b"\x0a\0\0\1", b"\xff\0\0\xff"),
           "standard_metadata.ingress_port": exact(b"\1")}  # fmt: skip
    async with bench() as running:
        await running.write(insert(switching(port=b"\1")), insert(route(b"\x0a\0\0\0", 8)))
        for update, text in (
            (insert(switching(port=b"\1")), "table MyIngress.switching, entry "
             f"hdr.ethernet.destination=0x{MAC.hex()}: an entry with this key exists already"),
            (delete(route(b"\x0b\0\0\0", 8)), "table MyIngress.route, entry "
             "hdr.ipv4.destination=0x0b000000/8: no such entry"),
            (delete(entry("acl", acl, ("drop", {}), priority=7)), "table MyIngress.acl, entry "
             "hdr.ipv4.source=0x0a000001 &&& 0xff0000ff, hdr.ipv4.protocol=*, hdr.ipv4.ttl=*, "
             "standard_metadata.ingress_port=0x001 (priority 7): no such entry"),
        ):  # fmt: skip
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await running.write(update)
            assert error_details(caught.value)[0].message == text
