"""@p4runtime_translation: controllers see strings or other numbers (P4Runtime spec 8.4.6, 18)."""

import functools

import grpc
import pytest
from finsy.proto import p4i, p4r
from google.protobuf import text_format
from harness import (
    Bench,
    asynchronous,
    bench,
    between,
    call,
    compiled,
    config,
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

from minip4.engine.reader.program import read_program
from minip4.runtime.client.dump import key_text
from minip4.runtime.p4info.packetio import header_layout
from minip4.runtime.p4info.schema import Schema
from minip4.runtime.p4info.translation import Strings
from minip4.runtime.service.pipeline import Turns

Set = p4r.SetForwardingPipelineConfigRequest
NAME = "translated"
FRAME = bytes.fromhex("020000000002 020000000001 1234") + b"hello"
there = functools.partial(entry, program_name=NAME)
EVERYTHING = p4r.Entity(table_entry=p4r.TableEntry())


def vrf(name: bytes, port: bytes | None = None, priority: int = 1) -> p4r.Entity:
    key = {} if port is None else {"in_port": optional(port)}
    return there("vrfs", key, ("set_vrf", {"vrf": name}), priority=priority)


def route(vrf_name: bytes, next_hop: bytes, length: int = 48) -> p4r.Entity:
    key = {
        "meta.vrf": exact(vrf_name),
        "hdr.ethernet.destination": lpm(b"\x02\0\0\0\0\x02" if length == 48 else b"", length),
    }
    return there("routes", key, ("set_next_hop", {"next_hop": next_hop}))


def hop(next_hop: bytes, actions: list[p4r.ActionProfileAction]) -> p4r.Entity:
    message = there("hops_of", {"meta.next_hop": exact(next_hop)}, None)
    action_set = message.table_entry.action.action_profile_action_set
    action_set.action_profile_actions.extend(actions)
    return message


def to_interface(number: bytes, label: bytes = b"\x05") -> p4r.Action:
    return call("set_interface", {"interface": number, "label": label}, NAME)


def weighted(number: bytes, watch: bytes | None = None) -> p4r.ActionProfileAction:
    action = p4r.ActionProfileAction(action=to_interface(number), weight=1)
    if watch is not None:
        action.watch_port = watch
    return action


def interface(number: bytes, port: bytes) -> p4r.Entity:
    return there("interfaces", {"meta.interface": exact(number)}, ("send", {"port": port}))


PATH = (
    vrf(b"customers", b"1"),
    route(b"customers", b"hop to the right"),
    hop(b"hop to the right", [weighted(b"\x07", b"2")]),
    interface(b"\x07", b"2"),
)


async def failing(running: Bench, *updates: p4r.Update, atomicity: int = 0) -> list[p4r.Error]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await running.write(*updates, atomicity=atomicity)
    return error_details(caught.value)


async def written(running: Bench) -> list[p4r.Entity]:
    """Return all table entries except the const entries of the program."""
    return [e for e in await running.read(EVERYTHING) if not e.table_entry.is_const]


@asynchronous
async def test_entries_by_name_forward_and_are_read_as_they_were_written() -> None:
    async with bench(NAME) as running:
        await running.write(*map(insert, PATH))
        running.driver.arrive(1, FRAME)
        running.driver.arrive(4, FRAME)  # no entry of vrfs matches port 4
        assert running.driver.left == [(2, FRAME)]
        assert await written(running) == list(PATH)
        await running.write(*map(delete, PATH))
        assert await written(running) == []


@asynchronous
async def test_a_decimal_string_is_that_number_and_other_strings_get_one_from_the_top() -> None:
    async with bench(NAME) as running:
        strings = running.device.running_pipeline.schema.translations["vrf_t"]
        names = [b"", b'guests "A"', b"2", b"first", b"02", b"8"]
        # number 5 is in use: the program has it in a default action
        assert [strings.decode(n, "vrf") for n in names] == [0, 3, 2, 7, 6, 4]
        assert [strings.encode(n) for n in (0, 3, 2, 7, 6, 4, 5, 1)] == [*names, b"5", b"1"]


@asynchronous
async def test_numbers_of_another_width_are_the_same_but_for_the_programs_pairs() -> None:
    async with bench(NAME) as running:
        members = [weighted(b"\x0f\xff"), weighted(b"\x01")]
        members[1].action.CopyFrom(to_interface(b"\x01", b"\x07"))
        wide = hop(b"a", members)
        await running.write(insert(wide), insert(interface(b"\x0f\xff", b"3")))
        assert await written(running) == [wide, interface(b"\x0f\xff", b"3")]
        labels = running.device.running_pipeline.schema.translations["label_t"]
        assert [labels.decode(b"\x07", ""), labels.decode(b"\x08", "")] == [1, 8]
        assert [labels.encode(n) for n in (1, 8, 0x1234)] == [b"\x07", b"\x08", b"\x12\x34"]


REFUSED = {
    "too large": (
        interface(b"\x10\x00", b"1"),
        "value 0x1000 does not fit in type interface_t, which has",
    ),
    "beyond sdn_bitwidth": (interface(b"\x01\0\0\0\0", b"1"), "does not fit in 32 bits"),
    "taken by a pair": (
        hop(b"a", [p4r.ActionProfileAction(action=to_interface(b"\x01", b"\x01"), weight=1)]),
        "parameter label: 0x1 cannot have number 1, which stands for 0x7",
    ),
    "taken by a name": (vrf(b"3"), '"3" cannot have number 3, which stands for "guests \\"A\\""'),
    "empty": (
        interface(b"\x01", b""),
        "parameter port: empty string, expected the name of a port_t",
    ),
    "mask": (
        there("labels", {"meta.label": ternary(b"\x07", b"\x0f")}, ("NoAction", {}), priority=1),
        "field meta.label: its type is translated; expected mask 0xff, or omit the field",
    ),
    "prefix": (
        there("labels", {"meta.interface": lpm(b"\x08", 31)}, ("NoAction", {}), priority=1),
        "meta.interface: its type is translated; expected prefix length 32, or omit the field",
    ),
    "range": (
        there("labels", {"label_range": between(b"\x07", b"\x08")}, ("NoAction", {}), priority=1),
        "its type is translated; expected a range of one value, or omit the field",
    ),
}


@pytest.mark.parametrize(("entity", "text"), REFUSED.values(), ids=REFUSED.keys())
@asynchronous
async def test_values_that_cannot_be_are_refused(entity: p4r.Entity, text: str) -> None:
    async with bench(NAME) as running:
        assert text in (await failing(running, insert(entity)))[0].message
        assert await written(running) == []


@asynchronous
async def test_masks_prefixes_and_ranges_of_one_value_are_exact() -> None:
    async with bench(NAME) as running:
        key = {
            "meta.label": ternary(b"\x07", b"\xff"),
            "meta.interface": lpm(b"\x07", 32),
            "label_range": between(b"\x07", b"\x07"),
            # not translated, because the widths are equal
            "meta.same": ternary(b"\x12\0", b"\xff\0"),
        }
        entity = there("labels", key, ("send", {"port": b"1"}), priority=3)
        await running.write(insert(entity))
        assert await written(running) == [entity]


@asynchronous
async def test_packets_to_and_from_the_controller_have_names() -> None:
    async with bench(NAME, primary=False) as running:
        stream = await running.arbitrate(1)
        await stream.read()
        await running.write(insert(there("vrfs", {}, ("punt", {}), priority=1)))
        running.driver.arrive(300, FRAME)
        packet = (await stream.read()).packet
        assert packet.payload == FRAME
        assert [m.value for m in packet.metadata] == [b"300", b"\0"]
        request = p4r.StreamMessageRequest()
        request.packet.payload = FRAME
        for number, value in enumerate((b"301", b"\x01", b"\0"), 1):
            request.packet.metadata.add(metadata_id=number, value=value)
        await stream.write(request)
        del request.packet.metadata[:]
        # this message is invalid; the switch processes it, and sends its error, after the valid one
        await stream.write(request)
        await stream.read()
        assert running.driver.left == [(301, FRAME)]


def test_a_header_is_found_in_the_program_with_padding_that_p4info_lacks() -> None:
    pushed = config(NAME)
    for header in pushed.p4info.controller_packet_metadata:
        del header.metadata[-1]
    schema_of = functools.partial(_layout, pushed.p4info)
    assert schema_of("packet_in") == [9, 7]
    assert schema_of("packet_out") == [9, 1, 6]
    pushed.p4info.controller_packet_metadata[0].metadata[0].name = "elsewhere"
    name = pushed.p4info.controller_packet_metadata[0].preamble.name
    assert schema_of(name) == []  # the program lacks this header


def _layout(p4info: p4i.P4Info, name: str) -> list[int]:
    program = read_program(compiled(NAME).bmv2_json)
    header = Schema(p4info).controller_headers[name]
    return [width for _, width in header_layout(header, program)]


@asynchronous
async def test_ports_of_replicas_and_watchers_are_named_as_in_packet_io() -> None:
    async with bench(NAME) as running:
        group = p4r.Entity()
        message = group.packet_replication_engine_entry.multicast_group_entry
        message.multicast_group_id = 1
        message.replicas.add(port=b"6", instance=1)
        flood = route(b"5", b"")
        flood.table_entry.action.action.CopyFrom(call("flood", {}, NAME))
        await running.write(insert(group), insert(flood))
        running.driver.arrive(9, FRAME)
        assert running.driver.left == [(6, FRAME)]
        assert await running.read(group) == [group]


@asynchronous
async def test_a_member_that_watches_a_named_port_leaves_with_it() -> None:
    async with bench(NAME) as running:
        path = list(PATH)
        path[2] = hop(b"hop to the right", [weighted(b"\x07", b"2"), weighted(b"\x08", b"3")])
        await running.write(*map(insert, [*path, interface(b"\x08", b"3")]))
        for port in (2, 3):
            running.device.set_port(port, False)
            running.driver.arrive(1, FRAME)
            running.device.set_port(port, True)
        assert running.driver.left == [(3, FRAME), (2, FRAME)]


@asynchronous
async def test_digests_and_registers_have_the_controllers_values() -> None:
    async with bench(NAME, primary=False) as running:
        stream = await running.arbitrate(1)
        await stream.read()
        digest = p4r.Entity()
        digest.digest_entry.digest_id = info(NAME).digests[0].preamble.id
        digest.digest_entry.config.max_list_size = 1
        learn = interface(b"\x07", b"")
        learn.table_entry.action.action.CopyFrom(call("learn", {}, NAME))
        await running.write(*map(insert, [*PATH[:3], learn, digest]))
        running.driver.arrive(1, FRAME)
        seen = (await stream.read()).digest.data[0].struct.members
        assert [m.bitstring for m in seen] == [b"1", b"\x07"]
        cell = p4r.Entity()
        cell.register_entry.register_id = named(info(NAME).registers, "ports").preamble.id
        cell.register_entry.index.index = 0
        assert (await running.read(cell))[0].register_entry.data.bitstring == b"1"
        cell.register_entry.data.bitstring = b"uplink"
        await running.write(modify(cell))
        assert await running.read(cell) == [cell]
        await running.device.running_pipeline.write([], 0, Turns())
        running.device.running_pipeline.schema.translations["port_t"].collect()
        assert await running.read(cell) == [cell]  # the program may still use the string


@asynchronous
async def test_numbers_of_strings_that_nothing_uses_are_given_again() -> None:
    async with bench(NAME) as running:
        kept = vrf(b"kept")
        await running.write(insert(kept), modify(there("vrfs", {}, ("set_vrf", {"vrf": b"base"}),
                                                       is_default_action=True)))  # fmt: skip
        for i in range(20):  # of eight numbers, three are in use: for "", for guests, and 5
            one, two = vrf(b"one of %d" % i, priority=2), vrf(b"two of %d" % i, priority=3)
            await running.write(insert(one), insert(two))
            assert sorted(map(str, await written(running))) == sorted(map(str, [kept, one, two]))
            await running.write(delete(one), delete(two))


@asynchronous
async def test_a_decimal_string_gets_its_number_back_when_no_other_uses_it() -> None:
    async with bench(NAME) as running:
        await running.write(insert(vrf(b"name")))  # it has number 7
        assert (
            '"7" cannot have number 7, which stands for "name"'
            in (await failing(running, insert(vrf(b"7", priority=2))))[0].message
        )
        await running.write(delete(vrf(b"name")))
        await running.write(insert(vrf(b"7", priority=2)))
        assert await written(running) == [vrf(b"7", priority=2)]


@asynchronous
async def test_strings_are_forgotten_before_the_numbers_run_out_too() -> None:
    async with bench(NAME) as running:
        strings = running.device.running_pipeline.schema.translations["port_t"]
        assert isinstance(strings, Strings)
        strings.collect_at = 10
        for i in range(100):
            await running.write(insert(interface(b"\x01", b"port %d" % i)))
            await running.write(delete(interface(b"\x01", b"")))
            assert strings.known <= 10


@asynchronous
async def test_when_all_numbers_are_used_a_new_string_is_refused_and_nothing_changes() -> None:
    async with bench(NAME) as running:
        fill = [vrf(b"name %d" % i, priority=i + 1) for i in range(5)]
        await running.write(*map(insert, fill))
        before = await written(running)
        more = vrf(b"one more", priority=9)
        for atomicity in (0, 1):
            errors = await failing(running, insert(more), atomicity=atomicity)
            assert "all 8 numbers of type vrf_t are in use" in errors[0].message
            assert errors[0].canonical_code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        assert await written(running) == before
        await running.write(delete(fill[0]), insert(more))


@asynchronous
async def test_a_batch_that_fails_gives_its_numbers_back_and_one_that_runs_keeps_its_own() -> None:
    async with bench(NAME) as running:
        five = [vrf(b"lost %d" % i, priority=i + 1) for i in range(5)]
        bad = interface(b"\x10\x00", b"1")
        await failing(running, *map(insert, [*five, bad]), atomicity=1)
        assert await written(running) == []
        kept = [vrf(b"kept %d" % i, priority=i + 1) for i in range(5)]
        # the switch searches for unused strings during the batch
        await running.write(*map(insert, kept), atomicity=1)
        names = {e.table_entry.action.action.params[0].value for e in await written(running)}
        assert names == {b"kept %d" % i for i in range(5)}


@asynchronous
async def test_the_programs_own_entries_keep_their_numbers() -> None:
    async with bench(NAME) as running:
        own = [e for e in await running.read(EVERYTHING) if e.table_entry.is_const]
        assert own[0].table_entry.match[0].exact.value == b"510"
        assert own[0].table_entry.action.action.params[0].value == b"511"
        await running.write(insert(interface(b"\x01", b"a port")))
        ports = running.device.running_pipeline.schema.translations["port_t"]
        assert ports.decode(b"a port", "") == 509
        assert [e for e in await running.read(EVERYTHING) if e.table_entry.is_const] == own


@asynchronous
async def test_names_survive_reconcile_and_are_forgotten_by_a_commit() -> None:
    async with bench(NAME) as running:
        await running.write(*map(insert, PATH))
        await running.push(Set.RECONCILE_AND_COMMIT, config(NAME))
        assert await written(running) == list(PATH)
        running.driver.arrive(1, FRAME)
        assert running.driver.left == [(2, FRAME)]
        await running.push(Set.VERIFY_AND_COMMIT, config(NAME))
        await running.write(*[insert(vrf(b"new %d" % i, priority=i + 1)) for i in range(5)])


CHANGED_P4INFO = {
    "a ternary string": (
        "match_type: EXACT",
        "match_type: TERNARY",
        "field meta.vrf: type vrf_t is a string for controllers, so the field must be",
    ),
    "no pairs": ('{ \\"\\" , 0 }', "{ 0 }", 'expected ({ {"name", number}, ... })'),
    "a pair twice": ('{ \\"\\" , 0 }', '{ \\"\\" , 3 }', 'maps "guests \\"A\\"" or 3 twice'),
    "a pair too large": ('{ \\"\\" , 0 }', '{ \\"\\" , 8 }', "has 8, which does not fit in 3 bits"),
    "a decimal string for another number": (
        '{ \\"\\" , 0 }',
        '{ \\"5\\" , 0 }',
        'has "5" for 0, but a decimal string stands for itself',
    ),
    "no width": ("sdn_bitwidth: 32", "sdn_bitwidth: -1", "interface_t: -1 bits; expected 1 to"),
    "another type's width": (
        'name: "vrf_t"',
        'name: "next_hop_t"',
        "table MyIngress.hops_of, field meta.next_hop has 3 bits in P4Info, but 10 in the JSON",
    ),
}


@pytest.mark.parametrize(
    ("before", "after", "text"), CHANGED_P4INFO.values(), ids=CHANGED_P4INFO.keys()
)
@asynchronous
async def test_a_pipeline_whose_types_cannot_be_is_refused(
    before: str, after: str, text: str
) -> None:
    pushed = config(NAME)
    original = str(pushed.p4info)
    assert before in original
    pushed.p4info.CopyFrom(text_format.Parse(original.replace(before, after), p4i.P4Info()))
    async with bench(None) as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.push(Set.VERIFY_AND_COMMIT, pushed)
        assert text in caught.value.details()


def test_readers_see_names_in_quotes() -> None:
    schema = Schema(info(NAME))
    table = next(t for t in schema.tables.values() if t.name == "MyIngress.routes")
    text = key_text(table.fields, route(b"a\nb", b"x").table_entry.match)
    assert text == 'meta.vrf="a\\nb", hdr.ethernet.destination=0x020000000002/48'
