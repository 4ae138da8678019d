"""BfRt scripts on a running switch process. Expected entries are read back through P4Runtime."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import finsy as fy
import loaded
import pytest

from importers.bfrt import cli, shell
from importers.bfrt.cli import run_script
from importers.bfrt.switch import Digest, Tables
from importers.bfrt.tables import Field, PerPipe
from telemark import REPOSITORY

COMMAND = REPOSITORY / "telemark" / "cli.py"
PROGRAM = Path(__file__).parents[1] / "programs" / "bfrt.p4"
MAC, TEN = 0x020000000001, 10 << 24
HIGHEST = 2**31 - 1  # priority in P4Runtime of BfRt's priority 0


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Any]:
    """Return a function that starts a switch without interfaces: its process and its address."""
    folder = tmp_path_factory.mktemp("switch")
    json_file, p4info = folder / "x.json", folder / "x.txtpb"
    command = [sys.executable, "-m", "minip4.cli"]
    subprocess.run([*command, "compile", str(PROGRAM), "-o", str(json_file), "--p4runtime-files",
                    str(p4info)], check=True)  # fmt: skip

    @contextmanager
    def start() -> Iterator[tuple[subprocess.Popen[str], str]]:
        with subprocess.Popen(
            [*command, "switch", str(json_file), "--p4info", str(p4info),
             "--grpc-server-addr", "127.0.0.1:0"],
            stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            yield process, process.stdout.readline().split(",")[1].strip()
            process.terminate()
            process.communicate()

    return start


@pytest.fixture(scope="module")
def address(switch: Callable[[], Any]) -> Iterator[str]:
    """Return the P4Runtime address of a switch."""
    with switch() as (_, address):
        yield address


def telemark(*arguments: object) -> int:
    """Run `telemark bfrt` in a process of its own, show its outputs, and return its exit status.

    In this process, the threads of gRPC would disturb later tests that fork.
    """
    done = loaded.run(COMMAND, "bfrt", *map(str, arguments))
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


@pytest.fixture
def bfrt(address: str, tmp_path: Path) -> Callable[[str], int]:
    """Return a function that runs the text of a script, and returns the exit status."""

    def run(text: str) -> int:
        script = tmp_path / "setup.py"
        script.write_text(text)
        # the device id that `minip4 switch` has without --device-id
        return telemark("--switch", address, "--device-id", 1, script, "an argument")

    return run


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[fy.Switch]:
    async with fy.Switch("s1", address, fy.SwitchOptions(device_id=1)) as switch:
        yield switch


async def entities(switch: fy.Switch, wanted: Any) -> list[Any]:
    found: Any = switch.read(wanted)
    return [each async for each in found]


@pytest.fixture
def read(address: str) -> Iterator[Callable[[Any], list[Any]]]:
    """Return a function that reads entities through P4Runtime. At the end, tables are emptied."""

    async def found(wanted: Any) -> list[Any]:
        async with connected(address) as switch:
            return await entities(switch, wanted)

    async def empty() -> None:
        async with connected(address) as switch:
            for name in ("exact", "masked", "prefix"):
                table = fy.P4TableEntry(f"Ingress.{name}_t")
                await switch.delete(await entities(switch, table))

    yield lambda wanted: asyncio.run(found(wanted))
    asyncio.run(empty())


TREE = """
p4 = bfrt.some_program.pipe.Ingress
p4.exact_t.add_with_send(mac=mac("02:00:00:00:00:01"), port=7)
p4.exact_t.add_with_copy("02:00:00:00:00:02", 0x11)
p4.masked_t.add_with_send(address=ip("10.0.0.0"), address_mask="255.0.0.0", number_start=5,
                          number_end=9, match_priority=3, port=8)
p4.masked_t.add_with_drop(0, 0, 0, 0xffff, 4)
p4.prefix_t.entry_with_send(address="10.0.0.0", address_p_length=8, port=9).push()
bfrt.complete_operations()
"""
CLIENT = """
import bfrt_grpc.client as gc
interface = gc.ClientInterface("localhost:50052", client_id=0, device_id=0)
interface.bind_pipeline_config("some_program")
info, target = interface.bfrt_info_get("some_program"), gc.Target(device_id=0, pipe_id=0xffff)
exact, masked = info.table_get("Ingress.exact_t"), info.table_get("pipe.Ingress.masked_t")
prefix = info.table_get("prefix_t")
exact.info.key_field_annotation_add("hdr.probe.mac", "mac")
def key(table, *parts):
    return table.make_key([gc.KeyTuple(*p) if isinstance(p, tuple) else p for p in parts])
exact.entry_add(target,
    [key(exact, ("hdr.probe.mac", "02:00:00:00:00:01")), key(exact, ("hdr.probe.mac", MAC + 1))],
    [exact.make_data([gc.DataTuple("port", 7)], "Ingress.send"),
     exact.make_data([gc.DataTuple("group", 0x11)], "copy")])
masked.entry_add(target,
    [key(masked, gc.KeyTuple("hdr.probe.address", "10.0.0.0", mask=0xff000000),
         gc.KeyTuple("hdr.probe.number", low=5, high=9), ("$MATCH_PRIORITY", 3)),
     key(masked, ("hdr.probe.address", 0, 0), ("$MATCH_PRIORITY", 4))],
    [masked.make_data([gc.DataTuple("port", val=8)], "send"), masked.make_data([], "drop")])
prefix.entry_add(target, [key(prefix, gc.KeyTuple("hdr.probe.address", 10 << 24, prefix_len=8))],
                 [prefix.make_data([gc.DataTuple("port", 9)], "Ingress.send")])
""".replace("MAC", str(MAC))


@pytest.mark.parametrize("script", [TREE, CLIENT], ids=["bfrt_python", "bfrt_grpc"])
def test_entries_of_tables(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]], script: str
) -> None:
    assert bfrt(script) == 0
    exact = read(fy.P4TableEntry("Ingress.exact_t"))
    assert {(e["mac"], *e.action.args.items()) for e in exact} == {
        (MAC, ("port", 7)), (MAC + 1, ("group", 0x11))
    }  # fmt: skip
    first, second = sorted(read(fy.P4TableEntry("Ingress.masked_t")), key=lambda e: -e.priority)
    assert (first.match, first.priority) == (
        {"address": (TEN, 0xFF000000), "number": (5, 9)}, HIGHEST - 3
    )  # fmt: skip
    assert first.action.args == {"port": 8}
    assert (second.match or {}, second.priority, second.action.args) == ({}, HIGHEST - 4, {})
    (prefix,) = read(fy.P4TableEntry("Ingress.prefix_t"))
    assert (prefix.match, prefix.action.args) == ({"address": (TEN, 8)}, {"port": 9})


def test_entries_are_modified_and_deleted(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]
) -> None:
    script = (
        "t = bfrt.x.pipe.Ingress.exact_t\n"
        "t.add_with_send(1, 7)\nt.add_with_send(2, 7)\nt.add_with_send(3, 7)\n"
        "t.mod_with_send(mac=1, port=9)\nt.delete(mac=2)\n"
        "for item in t.get(regex=True):\n    if item.key[b'hdr.probe.mac'] == 3: item.remove()\n"
    )
    assert bfrt(script) == 0
    (left,) = read(fy.P4TableEntry("Ingress.exact_t"))
    assert (left.match, left.action.args) == ({"mac": 1}, {"port": 9})
    assert bfrt("bfrt.x.pipe.Ingress.exact_t.clear()") == 0
    assert read(fy.P4TableEntry("Ingress.exact_t")) == []


def test_default_route_beside_another_route(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]
) -> None:
    """A key that matches everything is no wildcard for the other entries."""
    script = (
        "t = bfrt.x.pipe.Ingress.prefix_t\n"
        "t.add_with_send(address='10.0.0.0', address_p_length=8, port=9)\n"
        "t.entry_with_send(address=0, address_p_length=0, port=3).push()\n"
        "t.entry_with_send(address=0, address_p_length=0, port=4).push()\n"
    )
    assert bfrt(script) == 0
    ports = {e.action.args["port"] for e in read(fy.P4TableEntry("Ingress.prefix_t"))}
    assert ports == {9, 4}


def test_default_actions(bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]) -> None:
    default = fy.P4TableEntry("Ingress.exact_t", is_default_action=True)
    assert bfrt("bfrt.x.pipe.Ingress.exact_t.set_default_with_send(port=3)") == 0
    assert read(default)[0].action.args == {"port": 3}
    assert bfrt("bfrt.x.pipe.Ingress.exact_t.reset_default()") == 0
    assert read(default)[0].action.name == "drop"


def test_registers_counters_and_meters(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The script reads back what it wrote, and P4Runtime agrees."""
    script = """
import bfrt_grpc.client as gc
p4 = bfrt.x.pipe.Ingress
p4.plain.mod(REGISTER_INDEX=3, f1=77)
p4.pairs.mod(3, 8, 9)
p4.counts.mod(COUNTER_INDEX=3, COUNTER_SPEC_PKTS=5, COUNTER_SPEC_BYTES=600)
p4.pace.mod(METER_INDEX=3, METER_SPEC_CIR_KBPS=8, METER_SPEC_PIR_KBPS=16,
            METER_SPEC_CBS_KBITS=4, METER_SPEC_PBS_KBITS=4)
print(p4.plain.get(3, from_hw=True).data[b"Ingress.plain.f1"])
t = gc.ClientInterface("", 0, 0).bfrt_info_get("x").table_get("Ingress.pairs")
for data, key in t.entry_get(gc.Target(0), [t.make_key([gc.KeyTuple("$REGISTER_INDEX", 3)])],
                             {"from_hw": True}):
    print(key.to_dict(), data.to_dict())
print(p4.counts.get(3).data, len(p4.plain.dump(return_ents=True)))
print(p4.pace.get(3).data)
"""
    assert bfrt(script) == 0
    assert capsys.readouterr().out.splitlines() == [
        "[77]",
        "{'$REGISTER_INDEX': {'value': 3}} "
        "{'Ingress.pairs.low': [8], 'Ingress.pairs.high': [9], 'action_name': None, "
        "'is_default_entry': False}",
        "{b'$COUNTER_SPEC_PKTS': 5, b'$COUNTER_SPEC_BYTES': 600} 16",
        "{b'$METER_SPEC_CIR_KBPS': 8, b'$METER_SPEC_PIR_KBPS': 16, "
        "b'$METER_SPEC_CBS_KBITS': 4, b'$METER_SPEC_PBS_KBITS': 4}",
    ]
    (cell,) = read(fy.P4RegisterEntry("Ingress.plain", index=3))
    assert cell.data == 77
    (meter,) = read(fy.P4MeterEntry("Ingress.pace", index=3))
    assert meter.config == fy.P4MeterConfig(cir=1000, cburst=500, pir=2000, pburst=500)
    assert bfrt("bfrt.x.pipe.Ingress.plain.clear()") == 0
    assert {cell.data for cell in read(fy.P4RegisterEntry("Ingress.plain"))} == {0}


def test_multicast_groups_mirror_sessions_and_ports(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]
) -> None:
    script = """
import bfrt_grpc.client as gc
bfrt.port.port.add(DEV_PORT=1, SPEED="BF_SPEED_10G", FEC="BF_FEC_TYP_NONE", PORT_ENABLE=True)
bfrt.pre.node.add(MULTICAST_NODE_ID=1, MULTICAST_RID=5, MULTICAST_LAG_ID=[], DEV_PORT=[1, 2])
bfrt.pre.node.entry(2, 6, [], [3]).push()
bfrt.pre.mgid.add(MGID=9, MULTICAST_NODE_ID=[1, 2], MULTICAST_NODE_L1_XID_VALID=[0, 0],
                  MULTICAST_NODE_L1_XID=[0, 0])
info = gc.ClientInterface("", 0, 0).bfrt_info_get("x")
t = info.table_get("$mirror.cfg")
t.entry_add(gc.Target(0), [t.make_key([gc.KeyTuple("$sid", 4)])],
            [t.make_data([gc.DataTuple("$direction", str_val="EGRESS"),
                          gc.DataTuple("$ucast_egress_port", 2),
                          gc.DataTuple("$ucast_egress_port_valid", bool_val=True),
                          gc.DataTuple("$session_enable", bool_val=True),
                          gc.DataTuple("$max_pkt_len", 100)], "$normal")])
bfrt.mirror.cfg.add_with_normal(sid=5, direction="BOTH", ucast_egress_port=1)
"""
    assert bfrt(script) == 0
    (group,) = read(fy.P4MulticastGroupEntry(9))
    assert [(int(r.port), r.instance) for r in group.replicas] == [(1, 5), (2, 5), (3, 6)]
    (session,) = read(fy.P4CloneSessionEntry(4))
    assert session.packet_length_bytes == 100
    assert session.replicas == (2,)


GRPC = (
    "import bfrt_grpc.client as gc; i = gc.ClientInterface('', 0, 0).bfrt_info_get();"
    "t = i.table_get('exact_t'); k = t.make_key([gc.KeyTuple('hdr.probe.mac', 5)])"
)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("bfrt.x.pipe.Ingress.nothing.clear()", "pipe.Ingress.nothing: no such table; tables: "),
        ("bfrt.x.pipe.Ingress.exact_t.add_with_fly(1, 2)", "no action 'fly'; expected one of Ing"),
        (f"{GRPC}; t.entry_add(gc.Target(), [k], [t.make_data([], 'send')])", "send needs port"),
        (f"{GRPC}; t.entry_del(gc.Target(), [t.make_key([])])", "no value for the key hdr.probe."),
        (f"{GRPC}; i.table_get('$PORT_STAT')", "$PORT_STAT: only a Tofino has this table"),
        (f"{GRPC}; list(t.entry_get(gc.Target(), [k]))", "exact_t: no entry with these keys"),
        ("bfrt.port.port_stat.get(1)", "port.port_stat: only a Tofino has this table"),
        ("bfrt.port.port_hdl_info.add(1, 0, 5)", "$PORT_HDL_INFO: this table cannot be changed"),
        ("import port_mgr_pd_rpc; port_mgr_pd_rpc.connect()", "connect: only Tofino's SDE has"),
        ("bfrt.x.pipe.Ingress.exact_t.get(regex=True, mac='^1')", "get() cannot search keys"),
        ("bfrt.x.pipe.Ingress.exact_t.add_with_send(1, 2, 3)", "3 values; expected mac, port"),
        ("bfrt.x.pipe.Ingress.exact_t.add_with_send(1, mac=2)", "mac is given twice"),
        ("bfrt.x.pipe.Ingress.exact_t.add_with_send(mac=1, prot=2)", "prot is unknown"),
        ("bfrt.x.pipe.Ingress.exact_t.add_with_send(1, 512)", "port: value '512': expected 0 to"),
        ("bfrt.x.pipe.Ingress.exact_t.delete(99)", "rejected by the switch"),
        ("bfrt.x.pipe.Ingress.plain.delete(1)", "its entries cannot be deleted; use clear()"),
        ("bfrt.x.pipe.Ingress.plain.set_default_with_send(1)", "no action 'send'"),
        ("bfrt.tf1.tm.port.cfg.clear()", "bfrt.tf1: only a Tofino has these tables"),
        ("bfrt.pre.mgid.add(MGID=1, MULTICAST_NODE_ID=[7])", "no $MULTICAST_NODE_ID 7"),
        ("bfrt.pre.node.add(1, 1, [], DEV_PORT=5)", "$DEV_PORT: 5: expected a list"),
        ("bfrt.x.pipe.Ingress.plain.mod(1, [])", "plain.f1: []: expected one value"),
        ("bfrt.x.pipe.Ingress.exact_t.add_with_send(1, [2])", "port: [2]: expected one value"),
        ("bfrt.x.pipe.Ingress.exact_t.add(1)", "no action; expected one of Ingress.send"),
        (f"{GRPC}; t.make_data([gc.DataTuple('port', 1)])", "no action; expected one of Ingress."),
        (f"{GRPC}; t.entry_add(gc.Target(), [k], [])", "exact_t: 1 keys, but 0 data"),
        (f"{GRPC}; t.make_key([gc.KeyTuple('hdr.probe.mac', float('nan'))])", "cannot convert flo"),
        (f"{GRPC}; t.make_key([gc.KeyTuple('hdr.probe.mac', float('inf'))])", "cannot convert flo"),
        (f"{GRPC}; i.table_get('prefix_t').make_key([gc.KeyTuple('hdr.probe.address', 1,"
         " prefix_len=-1)])", "hdr.probe.address: value '-1': expected 0 to 0x3f"),
        (f"{GRPC}; gc.port_hdl_info", "bfrt_grpc.client: port_hdl_info is not supported"),
        (f"{GRPC}; t.attribute_get(gc.Target(), '')", "Table.attribute_get is not supported"),
        ("mac(5)", "AttributeError: 'int' object has no attribute 'replace'"),
        ("ip('ten')", "ValueError: 'ten' does not appear to be an IPv4 or IPv6 address"),
        (f"{GRPC}; t.entry_add()", "TypeError: Table.entry_add() missing 1 required positional"),
        (f"{GRPC}; t.make_key(['mac'])", "AttributeError: 'str' object has no attribute 'name'"),
        (f"{GRPC}; t.entry_del(gc.Target(), [5])", "AttributeError: 'int' object has no attribute"),
        ("bfrt.x.pipe.Ingress.exact_t.push(1)", "no method 'push'"),
        ("bfrt.x.pipe.Ingress.exact_t.symmetric_mode_set()", "TypeError: Node.symmetric_mode_set"),
        ("bfrt.x.pipe.Ingress.indirect_t.add(1)", "0 data fields; expected $ACTION_MEMBER_ID"),
        ("bfrt.x.pipe.Ingress.selected_t.add(1, 2, 3)", "$ACTION_MEMBER_ID or $SELECTOR_GROUP_ID"),
        ("bfrt.x.pipe.Ingress.selector.add(1, [1, 2], [True])", "2 members, but 1 statuses"),
        ("bfrt.x.pipe.Ingress.selector.add(1, [77])", "there is no member 77"),
    ],
)  # fmt: skip
def test_wrong_calls_end_the_script_with_one_line(
    bfrt: Callable[[str], int], capsys: pytest.CaptureFixture[str], line: str, why: str
) -> None:
    assert bfrt(f"\n{line}\nprint('reached')\n") == 1
    output, error = capsys.readouterr()
    assert output == ""
    assert "setup.py:2: " in error
    assert why in error
    assert error.count("\n") == 1


def test_an_exception_of_the_script_in_a_callback_is_no_wrong_call() -> None:
    assert not cli._is_wrong_call(TypeError("add() takes 1 positional argument"))
    assert cli._is_wrong_call(TypeError("Node.delete() takes 1 positional argument"))


PROFILES = """
p4 = bfrt.x.pipe.Ingress
p4.members.add_with_send(1, port=5)
p4.members.entry_with_send(2, 6).push()
p4.members.add_with_send(3, 7)
p4.members.mod_with_send(3, 8)
p4.selector.add(SELECTOR_GROUP_ID=4, MAX_GROUP_SIZE=8, ACTION_MEMBER_ID=[1, 2, 3],
                ACTION_MEMBER_STATUS=[True, False, True])
p4.selected_t.add(mac=9, SELECTOR_GROUP_ID=4)
p4.selected_t.add(mac=10, ACTION_MEMBER_ID=2)
"""


def test_action_profiles_and_selectors(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]
) -> None:
    script = (
        PROFILES
        + """
p4.selector.mod(SELECTOR_GROUP_ID=4, ACTION_MEMBER_ID=[3, 2, 1])
assert p4.members.get(0) == p4.selector.get(0) == -1  # P4Runtime's 0 means all
print(p4.selector.get(4).data, p4.members.get(3), p4.selected_t.get(10).data)
"""
    )
    assert bfrt(script) == 0
    (group,) = read(fy.P4ActionProfileGroup("Ingress.members"))
    assert ([m.member_id for m in group.members], group.max_size) == ([3, 2, 1], 8)
    members = read(fy.P4ActionProfileMember("Ingress.members"))
    assert {m.member_id: m.action.args["port"] for m in members} == {1: 5, 2: 6, 3: 8}
    entries = read(fy.P4TableEntry("Ingress.selected_t"))
    assert {e.action.group_id for e in entries} == {4, None}
    assert (
        bfrt("import bfrt_grpc.client as gc; gc.ClientInterface('', 0, 0).clear_all_tables()") == 0
    )
    assert not read(fy.P4ActionProfileMember("Ingress.members"))


def test_a_member_whose_status_is_false_is_not_in_its_group(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]
) -> None:
    assert bfrt(PROFILES) == 0
    (group,) = read(fy.P4ActionProfileGroup("Ingress.members"))
    assert [m.member_id for m in group.members] == [1, 3]
    assert (
        bfrt("p = bfrt.x.pipe.Ingress; p.selected_t.clear(); p.selector.clear(); p.members.clear()")
        == 0
    )


def test_members_of_bfrt_grpc(
    bfrt: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    script = """
import bfrt_grpc.client as gc
info = gc.ClientInterface("", 0, 0).bfrt_info_get()
members, table = info.table_get("Ingress.single"), info.table_get("Ingress.indirect_t")
number, target = gc.DataTuple("$ACTION_MEMBER_ID", 1), gc.Target()
members.entry_add(target, [members.make_key([gc.KeyTuple("$ACTION_MEMBER_ID", 1)])],
                  [members.make_data([gc.DataTuple("port", 3)], "Ingress.send")])
key = table.make_key([gc.KeyTuple("hdr.probe.mac", 5)])
table.entry_add(target, [key], [table.make_data([number])])
print([data.to_dict() for data, _ in table.entry_get(target, [key])])
table.entry_del(target)
members.entry_del(target)
"""
    assert bfrt(script) == 0
    assert "{'$ACTION_MEMBER_ID': 1, 'action_name': None" in capsys.readouterr().out


def test_ports_of_the_front_panel(
    bfrt: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    """A network has no board: channel 0 of connector 5 is port 5."""
    script = """
import bfrt_grpc.client as gc
print(bfrt.port.port_hdl_info.get(CONN_ID=5, CHNL_ID=0, print_ents=False).data[b"$DEV_PORT"])
t = gc.ClientInterface("", 0, 0).bfrt_info_get().table_get("$PORT_HDL_INFO")
keys = t.make_key([gc.KeyTuple("$CONN_ID", 3), gc.KeyTuple("$CHNL_ID", 2)])
print(next(t.entry_get(gc.Target(), [keys]))[0].to_dict()["$DEV_PORT"])
print(bfrt.port.port_hdl_info.get(64, 0))
"""
    assert bfrt(script) == 0
    assert capsys.readouterr().out == ("5\n259\n$PORT_HDL_INFO: no entry with these keys\n-1\n")


def test_scripts_get_their_arguments_and_set_the_exit_status(
    bfrt: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bfrt("import sys\nprint(sys.argv[1:])\nsys.exit(3)") == 3
    assert capsys.readouterr().out == "['an argument']\n"


def test_a_switch_or_a_script_that_does_not_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "setup.py"
    assert telemark(script) == 2
    assert "No such file or directory" in capsys.readouterr().err
    script.write_text("pass")
    assert telemark("--switch", "127.0.0.1:1", script) == 2
    error = capsys.readouterr().err
    assert error.startswith("telemark: error: 127.0.0.1:1: ")
    assert error.endswith("; expected the P4Runtime address of a running switch\n")


def test_push_changes_an_entry_that_exists(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]
) -> None:
    script = (
        "t = bfrt.x.pipe.Ingress.exact_t\nt.add_with_send(1, 7)\n"
        "item = t.get(1)\nitem.data[b'port'] = 9\nitem.push()\n"
    )
    assert bfrt(script) == 0
    (entry,) = read(fy.P4TableEntry("Ingress.exact_t"))
    assert entry.action.args == {"port": 9}


def test_missing_parameters_are_0(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]
) -> None:
    """As in bfrt_python, only a ternary key without value and mask matches everything."""
    script = "p4 = bfrt.x.pipe.Ingress\np4.exact_t.add_with_send()\np4.masked_t.add_with_send()\n"
    assert bfrt(script) == 0
    (exact,) = read(fy.P4TableEntry("Ingress.exact_t"))
    assert (exact["mac"], exact.action.args) == (0, {"port": 0})
    (masked,) = read(fy.P4TableEntry("Ingress.masked_t"))
    assert (masked.match, masked.priority) == ({"number": (0, 0)}, HIGHEST)


def test_a_range_that_starts_at_0(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]
) -> None:
    assert bfrt("bfrt.x.pipe.Ingress.masked_t.add_with_drop(number_end=9)") == 0
    (entry,) = read(fy.P4TableEntry("Ingress.masked_t"))
    assert entry.match == {"number": (0, 9)}


@pytest.mark.parametrize(
    ("keys", "data", "expected"),
    [
        (["hdr.ip.src", "$MATCH_PRIORITY"], ["port"], ["src", "MATCH_PRIORITY", "port"]),
        (["hdr.a.src", "hdr.b.src", "x.y"], [], ["a_src", "b_src", "x_y"]),
        (["meta.port"], ["port"], ["meta_port", "port"]),
        (["port"], ["port"], ["port_key", "port_data"]),
        (["hdr.path[0].id", "hdr.ip.$valid"], [], ["id", "valid"]),
    ],
)
def test_names_of_parameters(keys: list[str], data: list[str], expected: list[str]) -> None:
    found = shell._parameters([Field(name) for name in keys], [Field(name) for name in data])
    assert [*found[0], *found[1]] == expected


def test_values_per_pipe_have_any_index_but_count_once() -> None:
    values = PerPipe([7])
    assert (values[0], values[1], values[3], sum(values), len(values)) == (7, 7, 7, 7, 1)


def test_objects_for_addresses(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]
) -> None:
    script = (
        "from ipaddress import ip_address\n"
        "bfrt.x.pipe.Ingress.prefix_t.add_with_send(ip_address('10.0.0.0'), 8, 9.0)\n"
        "import bfrt_grpc.client as gc\n"
        "t = gc.ClientInterface('', 0, 0).bfrt_info_get().table_get('exact_t')\n"
        "key = gc.KeyTuple('hdr.probe.mac', gc.mac_to_bytes('02:00:00:00:00:01'))\n"
        "data = [gc.DataTuple('port', gc.ipv4_to_bytes('0.0.0.7'))]\n"
        "t.entry_add(gc.Target(), [t.make_key([key])], [t.make_data(data, 'send')])\n"
    )
    assert bfrt(script) == 0
    (prefix,) = read(fy.P4TableEntry("Ingress.prefix_t"))
    assert (prefix.match, prefix.action.args) == ({"address": (TEN, 8)}, {"port": 9})
    (exact,) = read(fy.P4TableEntry("Ingress.exact_t"))
    assert (exact.match, exact.action.args) == ({"mac": MAC}, {"port": 7})


def test_a_batch_continues_after_an_entry_that_exists(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    line = (
        "keys = [t.make_key([gc.KeyTuple('hdr.probe.mac', n)]) for n in (5, 5, 6)]\n"
        "t.entry_add(gc.Target(), keys, [t.make_data([gc.DataTuple('port', 1)], 'send')] * 3)"
    )
    assert bfrt(f"{GRPC}\n{line}") == 1
    assert "setup.py:3: Ingress.exact_t: rejected by the switch: ALREADY" in capsys.readouterr().err
    assert {e["mac"] for e in read(fy.P4TableEntry("Ingress.exact_t"))} == {5, 6}


def test_what_scripts_print_of_tables(
    bfrt: Callable[[str], int], capsys: pytest.CaptureFixture[str], read: Callable[[Any], list[Any]]
) -> None:
    script = (
        "import json\nt = bfrt.x.pipe.Ingress.exact_t\nprint(t.get(1))\nt.add_with_send(1, 7)\n"
        "print(t.info(return_info=True, print_info=False)['usage'], t.get_default().action)\n"
        "print(json.loads(t.dump(json=True)))\nt.dump(table=True, from_hw=True)\n"
    )
    assert bfrt(script) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Ingress.exact_t: no entry with these keys", "-1", "1 Ingress.drop",
        "[{'table_name': 'pipe.Ingress.exact_t', 'action': 'Ingress.send', "
        "'key': {'hdr.probe.mac': 1}, 'data': {'port': 7}}]",
        "----- Ingress.exact_t Dump Start -----", "hdr.probe.mac=0x1 -> Ingress.send(port=7)",
        "----- Dump End -----",
    ]  # fmt: skip


def test_groups_and_sessions_of_an_earlier_script(bfrt: Callable[[str], int]) -> None:
    """A script that clears them can run again."""
    script = """
bfrt.pre.mgid.clear()
bfrt.mirror.cfg.clear()
bfrt.pre.node.add(1, 5, [], [1])
bfrt.pre.mgid.add(70, [1])
bfrt.mirror.cfg.add_with_normal(sid=70, ucast_egress_port=3)
"""
    assert bfrt(script) == 0
    assert bfrt(script) == 0
    assert bfrt("assert bfrt.mirror.cfg.get(70).data[b'$ucast_egress_port'] == 3") == 0


def test_one_of_several_pipelines() -> None:
    tables = FakeTables()
    tables.digests = [Digest("a.Deparser.flow")]
    assert shell.Shell(tables).x.a.Deparser.flow.name == "a.Deparser.flow"


def test_copies_to_one_port(bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]) -> None:
    script = (
        "for node in (81, 82, 83): bfrt.pre.node.add(node, 4, DEV_PORT=[7])\n"
        "bfrt.pre.mgid.add(80, [81, 82, 83])\n"
    )
    assert bfrt(script) == 0
    (group,) = read(fy.P4MulticastGroupEntry(80))
    assert [(int(r.port), r.instance) for r in group.replicas] == [(7, 4), (7, 5), (7, 6)]


def test_mod_keeps_fields_that_are_not_given(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """mod() keeps fields that are not given, and add() sets them to 0."""
    script = """
p4 = bfrt.x.pipe.Ingress
p4.counts.mod(1, counter_spec_pkts=5, counter_spec_bytes=9)
p4.counts.mod(1, counter_spec_pkts=6)
p4.pairs.mod(1, low=3, high=4)
p4.pairs.mod(1, low=5)
print(p4.counts.get(1).data, p4.pairs.get(1).data)
p4.counts.add(1, counter_spec_pkts=7)
p4.pairs.add(1, low=7)
print(p4.counts.get(1).data, p4.pairs.get(1).data)
bfrt.mirror.cfg.add_with_normal(sid=90, ucast_egress_port=3, max_pkt_len=100)
bfrt.mirror.cfg.mod_with_normal(sid=90, session_enable=False)
bfrt.mirror.cfg.mod_with_normal(sid=90, session_enable=True)
"""
    assert bfrt(script) == 0
    assert capsys.readouterr().out.splitlines() == [
        "{b'$COUNTER_SPEC_PKTS': 6, b'$COUNTER_SPEC_BYTES': 9} "
        "{b'Ingress.pairs.low': [5], b'Ingress.pairs.high': [4]}",
        "{b'$COUNTER_SPEC_PKTS': 7, b'$COUNTER_SPEC_BYTES': 0} "
        "{b'Ingress.pairs.low': [7], b'Ingress.pairs.high': [0]}",
    ]
    (session,) = read(fy.P4CloneSessionEntry(90))
    assert (session.replicas, session.packet_length_bytes) == ((3,), 100)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("mod(MULTICAST_NODE_ID=91, DEV_PORT=[3])", [(3, 4), (2, 6)]),
        ("delete(91)", [(2, 6)]),
        ("clear()", []),
    ],
)
def test_a_changed_node_changes_its_groups(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]], change: str,
    expected: list[tuple[int, int]],
) -> None:  # fmt: skip
    script = (
        "bfrt.pre.mgid.clear()\n"
        "bfrt.pre.node.add(91, 4, DEV_PORT=[1])\nbfrt.pre.node.add(92, 6, DEV_PORT=[2])\n"
        "bfrt.pre.mgid.add(90, [91, 92])\n"
    )
    assert bfrt(f"{script}bfrt.pre.node.{change}") == 0
    (group,) = read(fy.P4MulticastGroupEntry(90))
    assert [(int(r.port), r.instance) for r in group.replicas] == expected


def test_clear_restores_the_default_action(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]
) -> None:
    script = "t = bfrt.x.pipe.Ingress.exact_t\nt.set_default_with_send(port=3)\nt.clear()\n"
    assert bfrt(script) == 0
    default = fy.P4TableEntry("Ingress.exact_t", is_default_action=True)
    assert read(default)[0].action.name == "drop"


def test_keys_that_are_not_given_are_not_in_to_dict(
    bfrt: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    line = "k = i.table_get('masked_t').make_key([gc.KeyTuple('hdr.probe.address', 1, 2)])"
    assert bfrt(f"{GRPC}\n{line}\nprint(k.to_dict())") == 0
    assert capsys.readouterr().out == "{'hdr.probe.address': {'value': 1, 'mask': 2}}\n"


def test_a_program_whose_name_begins_with_tf(bfrt: Callable[[str], int]) -> None:
    assert bfrt("bfrt.tfprog.pipe.Ingress.exact_t.clear()") == 0


def test_each_name_is_the_name_of_the_program(bfrt: Callable[[str], int]) -> None:
    script = "assert i.p4_name == 'x'\nif i.p4_name_get() != 'y': raise SystemExit(1)\n"
    script += "gc.ClientInterface().__del__()"
    assert bfrt(f"{GRPC}\n{script}") == 0


def test_imports_of_the_sdk(bfrt: Callable[[str], int]) -> None:
    script = (
        "import os, sys\nsys.path.append(os.environ['SDE_INSTALL'] + os.environ['SDE'])\n"
        "import bfrt_grpc.bfruntime_pb2 as pb2\nimport bfrt_grpc.bfruntime_pb2_grpc as grpc\n"
        "from bfrtcli import *\nbfrt.x.pipe.Ingress.exact_t.symmetric_mode_set(False)\n"
    )
    assert bfrt(script) == 0


def test_a_text_as_exit_status(
    bfrt: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bfrt("import sys\nsys.exit('no port')") == 1
    assert capsys.readouterr().err == "no port\n"


def test_an_exception_ends_the_script_with_its_traceback(
    bfrt: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bfrt("\nprint(1 / 0)") == 1
    first, frame, *_, last = capsys.readouterr().err.splitlines()
    assert (first, last) == ("Traceback (most recent call last):",
                             "ZeroDivisionError: division by zero")  # fmt: skip
    assert 'setup.py", line 2, in <module>' in frame


def test_tasks_that_still_run_at_the_end_cause_no_warning(
    bfrt: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        "import asyncio, gc\n"
        "found = [it for it in gc.get_objects() if type(it).__name__ == 'Connection']\n"
        "asyncio.run_coroutine_threadsafe(asyncio.sleep(3600), found[0]._loop)\n"
    )
    assert bfrt(script) == 0
    assert capsys.readouterr().err == ""


def test_ctrl_c_ends_the_script_and_the_connection(bfrt: Callable[[str], int]) -> None:
    assert bfrt("raise KeyboardInterrupt") == 130


def test_a_script_becomes_primary(bfrt: Callable[[str], int], address: str) -> None:
    async def script_beside_a_controller() -> int:
        async with connected(address):
            return await asyncio.to_thread(bfrt, "bfrt.x.pipe.Ingress.plain.mod(1, 5)")

    assert asyncio.run(script_beside_a_controller()) == 0


def test_threads_of_the_script_end_before_the_connection(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]
) -> None:
    script = (
        "import threading\n"
        "add = lambda: bfrt.x.pipe.Ingress.exact_t.add_with_send(1, 7)\n"
        "threading.Timer(0.1, lambda: threading.Timer(0.1, add).start()).start()\n"
    )
    assert bfrt(script) == 0
    assert len(read(fy.P4TableEntry("Ingress.exact_t"))) == 1


def test_threads_end_before_the_connection_also_after_exit(
    bfrt: Callable[[str], int], read: Callable[[Any], list[Any]]
) -> None:
    script = (
        "import sys, threading\n"
        "add = lambda: bfrt.x.pipe.Ingress.exact_t.add_with_send(1, 7)\n"
        "threading.Timer(0.1, add).start()\nsys.exit()\n"
    )
    assert bfrt(script) == 0
    assert len(read(fy.P4TableEntry("Ingress.exact_t"))) == 1


def test_an_error_in_a_thread_of_the_script(
    bfrt: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        "import threading\ndef wrong():\n    bfrt.x.pipe.Ingress.nothing.clear()\n"
        "threading.Thread(target=wrong).start()\n"
    )
    assert bfrt(script) == 1
    error = capsys.readouterr().err
    assert "setup.py:3: bfrt: pipe.Ingress.nothing: no such table" in error
    assert error.count("\n") == 1


def test_exit_in_a_thread_is_no_error(bfrt: Callable[[str], int]) -> None:
    assert bfrt("import sys, threading\nthreading.Thread(target=sys.exit, args=[3]).start()") == 0


def test_a_script_with_a_nul_byte(
    bfrt: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bfrt("print(1)\0") == 2
    output, error = capsys.readouterr()
    assert (output, error.count("\n")) == ("", 1)
    assert "expected a Python script" in error


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Return a listener that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_a_listener_that_never_answers(silent: socket.socket, tmp_path: Path) -> None:
    script = tmp_path / "setup.py"
    script.write_text("")
    address = f"127.0.0.1:{silent.getsockname()[1]}"
    code = (
        "import sys; from importers.bfrt import connection; connection.CONNECT_S = 0.5\n"
        f"from telemark.cli import main; sys.exit(main(['bfrt', '--switch', '{address}', "
        f"'{script}']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{address}: no P4Runtime answer within 0.5 s" in done.stderr
    assert done.stderr.count("\n") == 1


def test_ctrl_c_while_connecting(silent: socket.socket, tmp_path: Path) -> None:
    script = tmp_path / "setup.py"
    script.write_text("")
    address = f"127.0.0.1:{silent.getsockname()[1]}"
    with subprocess.Popen(
        [sys.executable, "-m", "telemark.cli", "bfrt", "--switch", address, str(script)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        silent.accept()[0].close()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate()
    assert (process.returncode, output) == (130, "")


@pytest.mark.parametrize(
    "wait",
    [
        "bfrt.x.pipe.ID.flow.callback_register(print)\nEND",
        "interface.bfrt_info_get().learn_get('flow')\nEND\nwhile True:\n    try:\n"
        "        interface.digest_get(0.1)\n    except RuntimeError:\n        pass\n",
    ],
    ids=["callback", "digest_get"],
)
def test_a_switch_that_ends_while_the_script_waits_for_digests(
    switch: Callable[[], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], wait: str
) -> None:
    with switch() as (process, address):
        script = tmp_path / "setup.py"
        end = f"import os, signal; os.kill({process.pid}, signal.SIGKILL)"
        script.write_text(
            "import bfrt_grpc.client as gc\ninterface = gc.ClientInterface('', 0, 0)\n"
            + wait.replace("END", end)
        )
        assert telemark("--switch", address, script) == 1
    error = capsys.readouterr().err
    assert "digests: the connection to the switch has ended" in error
    assert error.count("\n") == 1


def test_a_later_script_subscribes_to_the_same_digest(bfrt: Callable[[str], int]) -> None:
    script = "flow = bfrt.x.pipe.ID.flow\nflow.callback_register(print)\n"
    script += "flow.callback_deregister()"
    assert bfrt(script) == 0
    assert bfrt(script) == 0


def test_a_switch_that_ends_during_the_script(
    switch: Callable[[], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with switch() as (process, address):
        script = tmp_path / "setup.py"
        script.write_text(
            f"import os, signal\nos.kill({process.pid}, signal.SIGKILL)\n"
            "for _ in range(200):\n    try:\n        bfrt.x.pipe.Ingress.exact_t.clear()\n"
            "    except Exception as error:\n        last = error\nraise last\n"
        )
        assert telemark("--switch", address, script) == 1
    error = capsys.readouterr().err
    assert "Ingress.exact_t: the connection to the switch has ended" in error
    assert error.count("\n") == 1


def test_digests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A callback gets messages after the end of the script, until Ctrl-C."""
    tables = FakeTables()
    script = """
import bfrt_grpc.client as gc
interface = gc.ClientInterface("", 0, 0)
info = interface.bfrt_info_get()
learn = info.learn_get("flow")
print(*[data.to_dict()["port"] for data in learn.make_data_list(interface.digest_get())])
try:
    interface.digest_get(timeout=0)
except RuntimeError:
    print("none")
def callback(dev_id, pipe_id, direction, parser_id, session, messages):
    print(messages)
    raise KeyboardInterrupt
flow = bfrt.x.pipe.Deparser.flow
try:
    flow.callback_deregister()
except Exception:  # no callback is registered
    flow.callback_register(print)
    flow.callback_deregister()
    flow.callback_register(callback)
print("end")
"""
    tables.received.put(("Deparser.flow", [{"port": 1}, {"port": 2}]))
    with pytest.raises(KeyboardInterrupt):
        run_script(compile(script, "x.py", "exec"), tmp_path / "x.py", [], tables)
    assert capsys.readouterr().out == "1 2\nnone\nend\n[{'port': 3}]\n"


def test_callbacks_are_called_while_a_thread_runs(tmp_path: Path) -> None:
    script = """
import sys, threading
done = threading.Event()
threading.Thread(target=done.wait).start()
def callback(*_):
    done.set()
    sys.exit()
flow = bfrt.x.pipe.Deparser.flow
flow.callback_register(callback)
flow.callback_register(callback)
"""
    path = tmp_path / "x.py"
    assert run_script(compile(script, str(path), "exec"), path, [], FakeTables()) == 0


class FakeTables(Tables):
    """A switch with a digest, which sends a message when the second subscription is made."""

    def __init__(self) -> None:
        self.digests = [Digest("Deparser.flow")]
        self.of_program, self.of_device = [], []
        self.received = Queue()
        self._subscriptions = 0

    def require_up(self) -> None:
        pass

    def subscribe(self, digest: Digest) -> None:
        self._subscriptions += 1
        if self._subscriptions == 2:
            self.received.put((digest.name, [{"port": 3}]))
