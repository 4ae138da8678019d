"""The path of a packet: unicast, drop, multicast, clones, resubmit, recirculate, digests."""

import ctypes

import pytest
from small_programs import DEFAULTS, engine, json_of

from minip4.engine.engine import Engine
from minip4.engine.errors import NotFound, NotSupported
from minip4.engine.keys import Digest, Exact

# Fields of the header: a is the operation, b the number of repetitions. Egress writes its values
# (instance type, replica id) into c.
FATE = """
    if (hdr.h.a == 1) { mark_to_drop(std); }
    else if (hdr.h.a == 2) { std.mcast_grp = 7; }
    else if (hdr.h.a == 3) { std.egress_spec = 3; clone(CloneType.I2E, 5); }
    else if (hdr.h.a == 4) { std.egress_spec = 3; }
    else if (hdr.h.a == 5) {
        std.egress_spec = 3;
        if (meta.turns < 3) { meta.turns = meta.turns + 1; hdr.h.b = 99;
                              resubmit_preserving_field_list(1); }
        else { hdr.h.b = meta.turns; }
    }
    else if (hdr.h.a == 6) { std.egress_spec = 3; }
    else if (hdr.h.a == 7) { std.egress_spec = 400; }
    else if (hdr.h.a == 8) { mark_to_drop(std); std.egress_spec = 2; }
    else if (hdr.h.a == 9) { std.egress_spec = 3; meta.kept = 0x55;
                             clone_preserving_field_list(CloneType.I2E, 5, 1); }
    else if (hdr.h.a == 11) { std.mcast_grp = 7; mark_to_drop(std); }
    else if (hdr.h.a == 12) { std.egress_spec = 3; resubmit_preserving_field_list(1); }
"""
EGRESS = """
    hdr.h.c = std.instance_type[7:0] ++ std.egress_rid[7:0];
    if (hdr.h.a == 4 && std.instance_type == 0) { hdr.h.b = 1; clone(CloneType.E2E, 5); }
    if (hdr.h.a == 6 && hdr.h.b < 4) { hdr.h.b = hdr.h.b + 1; meta.turns = hdr.h.b;
                                       recirculate_preserving_field_list(1); }
    if (hdr.h.a == 9 && std.instance_type == 1) { hdr.h.b = meta.kept; }
    if (hdr.h.a == 10) { mark_to_drop(std); recirculate_preserving_field_list(1); }
    if (hdr.h.a == 13) { clone(CloneType.E2E, 5); }
"""
METADATA = "@field_list(1) bit<8> turns; @field_list(1) bit<8> kept;"


@pytest.fixture
def switch() -> Engine:
    e = engine(metadata=METADATA, ingress=FATE, egress=EGRESS)
    e.multicast_set(7, [(1, 21), (2, 22), (2, 23)])
    e.mirror_set(5, [(9, 0)])
    return e


NORMAL, I2E, E2E, RECIRCULATED, REPLICATED, RESUBMITTED = 0, 1, 2, 4, 5, 6

FATES: dict[str, tuple[int, list[tuple[int, tuple[int, int, int, int]]]]] = {
    # operation: its value of a, then for each sent frame: port, (a, b, instance type, replica id)
    "nothing set: port 0": (0, [(0, (0, 0, NORMAL, 0))]),
    "mark_to_drop": (1, []),
    "multicast": (
        2,
        [
            (1, (2, 0, REPLICATED, 21)),
            (2, (2, 0, REPLICATED, 22)),
            (2, (2, 0, REPLICATED, 23)),
        ],
    ),
    "clone of ingress": (3, [(3, (3, 0, NORMAL, 0)), (9, (3, 0, I2E, 0))]),
    "clone of egress has egress' headers": (4, [(3, (4, 1, NORMAL, 0)), (9, (4, 1, E2E, 0))]),
    "resubmit starts from the frame as it came": (5, [(3, (5, 3, NORMAL, 0))]),
    "recirculate starts from the frame as it left": (6, [(3, (6, 4, NORMAL, 0))]),
    "egress_spec set after mark_to_drop": (8, [(2, (8, 0, NORMAL, 0))]),
    "clone keeps its field list": (9, [(3, (9, 0, NORMAL, 0)), (9, (9, 0x55, I2E, 0))]),
    "dropped in egress, not recirculated": (10, []),
    "mark_to_drop takes the multicast group away": (11, []),
}


@pytest.mark.parametrize("name", FATES)
def test_ports_and_contents_of_packets(switch: Engine, name: str) -> None:
    assert_fate(switch, name)


def assert_fate(switch: Engine, name: str) -> None:
    action, expected = FATES[name]
    frame = bytes([action, 0, 0, 0]) + b"payload"
    sent = switch.process(1, frame, 0)
    wanted = [(port, bytes(header) + b"payload") for port, header in expected]
    assert sorted(sent) == sorted(wanted)
    assert_balance(switch)


OLDER = {  # calls of v1model before 2020, and the calls that replaced them
    "clone_preserving_field_list(CloneType.I2E, 5, 1)":
        "clone3<metadata>(CloneType.I2E, 5, meta)",
    "resubmit_preserving_field_list(1)": "resubmit({ meta.turns, meta.kept })",
    "recirculate_preserving_field_list(1)": "recirculate<tuple<bit<8>>>({ meta.turns })",
    "mark_to_drop(std)": "mark_to_drop()",
}  # fmt: skip


@pytest.mark.parametrize("name", FATES)
def test_older_calls_do_the_same(name: str) -> None:
    ingress, egress = FATE, EGRESS
    for current, older in OLDER.items():
        assert current in ingress + egress
        ingress, egress = ingress.replace(current, older), egress.replace(current, older)
    switch = engine(metadata="bit<8> turns; bit<8> kept;", ingress=ingress, egress=egress)
    switch.multicast_set(7, [(1, 21), (2, 22), (2, 23)])
    switch.mirror_set(5, [(9, 0)])
    assert_fate(switch, name)


def test_a_clone_comes_out_before_its_original_that_was_enqueued_after_it(switch: Engine) -> None:
    switch.mirror_set(5, [(3, 0)])
    sent = switch.process(1, bytes([3, 0, 0, 0]), 0)
    assert sent == [(3, bytes([3, 0, I2E, 0])), (3, bytes([3, 0, NORMAL, 0]))]


def test_a_port_that_is_not_there_is_counted(switch: Engine) -> None:
    switch.process(1, bytes(4), 0)
    switch.library.engine_set_port(switch.handle, 400, False)
    assert switch.process(1, bytes([7, 0, 0, 0]), 0) == []
    assert assert_balance(switch)["no_port_drops"] == 1


def test_groups_and_sessions_that_are_gone_send_nothing(switch: Engine) -> None:
    switch.multicast_delete(7)
    switch.mirror_delete(5)
    assert switch.process(1, bytes([2, 0, 0, 0]), 0) == []
    assert [port for port, _ in switch.process(1, bytes([3, 0, 0, 0]), 0)] == [3]
    assert_balance(switch)
    with pytest.raises(NotFound):
        switch.multicast_delete(7)
    with pytest.raises(NotFound):
        switch.mirror_delete(5)


@pytest.mark.parametrize("action", [12, 13])
def test_packets_that_go_round_for_ever_do_not_hang_the_switch(switch: Engine, action: int) -> None:
    switch.mirror_set(5, [(9, 0), (9, 0)])
    switch.process(1, bytes([0, 0, 0, 0]), 0)
    frame = (ctypes.c_uint8 * 4)(action, 0, 0, 0)
    assert switch.library.engine_inject(switch.handle, 1, frame, 4, 1000)
    due = switch.library.engine_advance(switch.handle, 1000)
    assert 1000 < due < 10_000, "the rest must be put off, not be forgotten"
    assert_balance(switch)


def test_a_mirroring_session_may_truncate(switch: Engine) -> None:
    switch.mirror_set(5, [(9, 0)], truncate_bytes=6)
    sent = dict(switch.process(1, bytes([3, 0, 0, 0]) + bytes(100), 0))
    assert (len(sent[9]), len(sent[3])) == (6, 104)


def test_a_clone_at_the_end_of_egress_is_whole() -> None:
    """A clone that egress makes is complete, even if egress truncates the packet itself.

    Only the session of the clone, or the egress pass of the clone, can truncate it.
    """
    cut = engine(
        ingress="truncate(8);",
        egress="if (std.instance_type == 0) { truncate(5); clone(CloneType.E2E, 5); }"
        "else if (hdr.h.a == 1) { truncate(7); }",
    )
    for a, session, expected in ((0, 0, 50), (1, 0, 7), (0, 6, 6)):
        cut.mirror_set(5, [(9, 0)], truncate_bytes=session)
        sent = dict(cut.process(1, bytes([a]) + bytes(49), 0))
        assert (len(sent[0]), len(sent[9])) == (5, expected)


def test_digests_go_round_their_ring() -> None:
    """Over 10,000 digests pass a ring with room for 4,096 digests, in order and unchanged.

    If 5,000 digests arrive before any of them is read, the last 904 are lost.
    """
    e = engine(
        types="header h_t { bit<8> a; bit<8> b; bit<16> c; } struct d_t { bit<16> x; }",
        ingress="digest<d_t>(1, {hdr.h.c});",
    )

    def learned(first: int, count: int) -> list[int]:
        frames = [bytes(2) + number.to_bytes(2, "big") for number in range(first, first + count)]
        e.repeat(1, frames, 1, 0)
        return [digest.values[0] for digest in e.digests()]

    assert learned(0, 3000) == [*range(3000)]
    assert learned(3000, 3000) == [*range(3000, 6000)]
    assert learned(6000, 5000) == [*range(6000, 6000 + 4096)]
    assert learned(0, 1) == [0]


def test_digests_come_in_order_with_their_fields() -> None:
    e = engine(
        types="header h_t { bit<8> a; bit<8> b; bit<16> c; } struct d_t { bit<8> x; bit<100> y; }",
        ingress="""if (hdr.h.a != 0) {
            digest<d_t>(1, {hdr.h.a, (bit<100>) hdr.h.c << 84}); }""",
    )
    for a in (1, 0, 2):
        e.process(1, bytes([a, 0, 0, a]), 0)
    name = next(iter(e.program.digests))
    assert e.digests() == [Digest(name, (1, 1 << 84)), Digest(name, (2, 2 << 84))]
    assert e.digests() == []


def test_a_digest_of_too_many_fields_is_refused() -> None:
    fields = "".join(f"bit<8> f{i};" for i in range(33))
    values = ", ".join(["hdr.h.a"] * 33)
    with pytest.raises(NotSupported, match="33 words of 64 bits; at most 32"):
        engine(
            types="header h_t { bit<8> a; bit<8> b; bit<16> c; } struct d_t {" + fields + "}",
            ingress=f"digest<d_t>(1, {{{values}}});",
        )


def test_truncate_cuts_the_frame_that_leaves() -> None:
    e = engine(ingress="truncate((bit<32>) hdr.h.a);")
    assert e.process(1, bytes([10, 2, 3, 4]) + bytes(range(20)), 0) == [
        (0, bytes([10, 2, 3, 4]) + bytes(range(6)))
    ]


@pytest.mark.parametrize(("ingress", "egress"), [(5, 7), (7, 5)])
def test_of_several_truncations_the_shortest_holds(ingress: int, egress: int) -> None:
    e = engine(ingress=f"truncate({ingress}); truncate(9);", egress=f"truncate({egress});")
    assert e.process(1, bytes(20), 0) == [(0, bytes(5))]


def test_headers_come_and_go_before_a_payload_that_stays() -> None:
    e = engine(
        types="""header h_t { bit<8> a; bit<8> b; bit<16> c; }
            header x_t { bit<24> v; } header y_t { bit<8> n; varbit<64> v; }""",
        headers="x_t x; h_t h; y_t y; x_t z;",
        parser="""state start { packet.extract(hdr.x); packet.extract(hdr.h);
            packet.extract(hdr.y, (bit<32>) packet.lookahead<bit<8>>() * 8);
            transition accept; }""",
        ingress="""if (hdr.h.a[0:0] == 1) { hdr.x.setInvalid(); }
            if (hdr.h.a[1:1] == 1) { hdr.y.setInvalid(); }
            if (hdr.h.a[2:2] == 1) { hdr.z.setValid(); hdr.z.v = 0xABCDEF; }
            if (hdr.h.a[3:3] == 1) { hdr.z = hdr.x; hdr.x.setValid(); hdr.x.v = 0x010203; }
            hdr.h.b = hdr.h.b + 1;""",
    )
    x, y, payload = b"XYZ", b"\x02qr", b"the payload"
    for a in range(16):
        frame = x + bytes([a, 255, 7, 8]) + y + payload
        z = b"\xab\xcd\xef" if a & 4 else b""
        new_x = b"" if a & 1 else x
        if a & 8:
            new_x, z = b"\1\2\3", b"" if a & 1 else x
        wanted = new_x + bytes([a, 0, 7, 8]) + (b"" if a & 2 else y) + z + payload
        assert e.process(1, frame, 0) == [(0, wanted)], f"a = {a}"


DROPPING = """
    action drop() { mark_to_drop(std); } action pass() { std.egress_spec = 3; }
    action choose() { if (hdr.h.b == 9) { mark_to_drop(std); } }
    table t { key = { hdr.h.a: exact; } actions = { drop; pass; } default_action = drop; }
    table u { key = { hdr.h.c: exact; } actions = { choose; } default_action = choose; }
"""


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        (0, 0, "miss"),
        (1, 0, "ingress"),  # an entry of t drops, but the default action of u does not
        (2, 9, "miss"),  # the default action of u drops
        (1, 9, "miss"),  # both tables drop the packet, and the second one counts
        (0, 1, "ingress"),  # after the miss, a statement of ingress drops
        (2, 2, "ingress"),  # an assignment to egress_spec drops
    ],
)
def test_why_ingress_dropped(a: int, b: int, reason: str) -> None:
    e = engine(
        ingress_locals=DROPPING,
        ingress="""t.apply(); u.apply(); if (hdr.h.b == 1) { mark_to_drop(std); }
            else if (hdr.h.b == 2) { std.egress_spec = 511; }""",
    )
    e.table_add("I.t", [Exact(1)], "I.drop", [])
    e.table_add("I.t", [Exact(2)], "I.pass", [])
    e.process(1, bytes(4), 0)  # the miss of this packet must not count for the next one
    e.process(2, bytes([a, b, 0, 0]), 0)
    found = {port: {why: n for why, n in drops.items() if n} for port, drops in e.drops().items()}
    assert found == {"1": {"miss": 1}, "2": {reason: 1}}
    assert assert_balance(e)["ingress_drops"] == 2


COUNTERS = ("received", "transmitted", "ingress_drops", "egress_drops", "queue_drops",
            "no_port_drops", "memory_drops", "replicas", "in_queues")  # fmt: skip


def assert_balance(e: Engine) -> dict[str, int]:
    """Assert that every packet is accounted for: see struct engine_counters."""
    values = (ctypes.c_uint64 * len(COUNTERS))()
    e.library.engine_counters(e.handle, values)
    c = dict(zip(COUNTERS, values, strict=True))
    drops = sum(v for k, v in c.items() if k.endswith("_drops"))
    assert c["received"] + c["replicas"] == c["transmitted"] + drops + c["in_queues"], c
    return c


def test_a_field_list_may_name_the_last_element_of_a_stack() -> None:
    """A field list may contain the last element of a stack. Packet and clone have its final value.

    The field list also has a metadata field, which the clone keeps.
    """
    document = json_of(
        types=DEFAULTS["types"] + "header w_t { bit<8> x; }", headers="h_t h; w_t[2] w;",
        metadata="@field_list(1) bit<8> kept;",
        parser="""state start { packet.extract(hdr.h); packet.extract(hdr.w.next);
                                transition accept; }""",
        ingress="""hdr.w[0].x = hdr.w[0].x + 1; meta.kept = 7; std.egress_spec = 2;
                   clone_preserving_field_list(CloneType.I2E, 5, 1);""",
        egress="hdr.h.b = meta.kept;",
    )  # fmt: skip
    (fields,) = [each for each in document["field_lists"] if each["elements"]]
    fields["elements"].append({"type": "stack_field", "value": ["w", "x"]})
    e = Engine(document)
    e.mirror_set(5, [(9, 0)])
    assert sorted(e.process(1, b"\1\0\0\0\5rest", 0)) == [
        (2, b"\1\7\0\0\6rest"), (9, b"\1\7\0\0\6rest")
    ]  # fmt: skip
    e.close()
