"""Scripts of simple_switch_CLI's commands, carried out on a switch in virtual time."""

import struct
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import finsy as fy
import pytest
from mininet.topo import Topo
from scapy.utils import rdpcap
from virtual_networks import virtually

from controllers.connection import connection
from described.switch_cli.commands import Answer
from described.switch_cli.script import CommandError, Line, read_script
from described.switch_cli.session import Session
from testbed.network import Network

PROGRAM = Path(__file__).parents[1] / "programs" / "commands.p4"
PORTS = (1, 2, 3)
TO_A, TO_B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"


class Star(Topo):
    def build(self) -> None:
        switch = self.addSwitch("s1")
        for number in PORTS:
            self.addLink(self.addHost(f"h{number}"), switch)


class Console:
    """Types commands, one after the other, and sends frames in between."""

    def __init__(self, net: Network, switch: fy.Switch, clock: Any) -> None:
        self.net, self.switch, self.clock = net, switch, clock
        self.told: list[str] = []
        self.session = Session(switch, net.switch("s1"), PORTS, self.told.append)

    async def __call__(self, text: str) -> Answer:
        """The answer to the last of these commands."""
        answer: Answer = []
        for number, line in enumerate(text.strip().splitlines(), start=1):
            answer = await self.session.execute(Line(f"typed:{number}", tuple(line.split())))
        return answer

    async def send(self, to: str, *, number: int = 0, tag: int = 0, count: int = 1) -> None:
        """Frames from h1, after each other; return when they are where they go."""
        addresses = bytes.fromhex(to.replace(":", "")) + bytes(6)
        frame = addresses + struct.pack("!HIHB", 0x1234, 0, number, tag)
        now_ns = self.clock.now_ns()
        times = [now_ns + 1000 * i for i in range(count)]
        self.net.send_frames("h1", times, [frame + bytes(43)] * count)
        await self.clock.sleep_until(now_ns + 10_000_000)

    async def entries(self, table: str) -> list[fy.P4TableEntry]:
        found: Any = self.switch.read(fy.P4TableEntry(table))
        return [entry async for entry in found]


Body = Callable[[Console], Awaitable[Any]]


def on_a_switch(folder: Path, body: Body) -> list[list[int]]:
    """Have it done; return the tags of the frames that left by each of the ports."""

    async def main(run: Any) -> list[Path]:
        with Network(Star(), run, program=str(PROGRAM)) as net:
            async with connection(net, "s1") as switch:
                await body(Console(net, switch, run.clock))
        return [net.capture("s1", f"h{port}", "out") for port in PORTS]

    captures = virtually(folder, main)
    return [[bytes(packet)[20] for packet in rdpcap(str(path))] for path in captures]


def test_the_smallest_priority_wins(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console("""
            table_add choices forward 0x0000&&&0x0000 0->65535 0&&&0 => 2 20
            table_add choices forward 0x1234&&&0xffff 0->65535 0&&&0 => 3 10
        """)
        await console.send(TO_A)
        assert [e.priority for e in await console.entries("choices")] == [
            2**31 - 1 - 20, 2**31 - 1 - 10,
        ]  # fmt: skip

    assert on_a_switch(tmp_path, body) == [[], [], [0]]


def test_keys_are_those_that_the_line_says(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console(f"""
            table_add addresses forward {TO_A} => 2
            table_add CommandsIngress.addresses forward 0x02000000000b => 0b11
            table_add prefixes metered 10.1.2.3/8 =>
            table_add prefixes metered 0x00000000/0 =>
            table_add choices NoAction 0x1299&&&0xff00 7->9 5&&&0xff => 0
        """)
        matches = [e.match for table in ("addresses", "prefixes", "choices")
                   for e in await console.entries(table)]  # fmt: skip
        assert matches == [
            {"dst_addr": 0x02000000000A},
            {"dst_addr": 0x02000000000B},
            {"address": (10 << 24, 8)},
            None,
            {"ether_type": (0x1200, 0xFF00), "number": (7, 9), "tag": 5},
        ]  # fmt: skip
        await console.send(TO_A)
        await console.send(TO_B)
        await console("table_set_default addresses forward 1")
        await console.send("02:00:00:00:00:0c")
        await console("table_reset_default addresses")
        await console.send("02:00:00:00:00:0c")

    assert on_a_switch(tmp_path, body) == [[0], [0], [0]]


def test_entries_are_changed_by_their_handles(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console(f"table_add addresses forward {TO_A} => 1")
        assert await console(f"table_add addresses forward {TO_B} => 1") == [
            "Entry has been added with handle 1"
        ]
        await console("table_modify addresses forward 1 3\ntable_modify addresses forward 1 => 2")
        await console.send(TO_B)
        await console("table_delete addresses 0")
        await console.send(TO_A)
        # The index is free again; the handle's upper bits say that it is not the same entry.
        answer = await console(f"table_add addresses forward {TO_A} => 3")
        assert answer == [f"Entry has been added with handle {1 << 24}"]
        await console.send(TO_A)
        with pytest.raises(CommandError, match=r"no entry of table .*addresses 0: there"):
            await console("table_delete addresses 0")
        await console("table_clear addresses")
        await console.send(TO_A)
        answer = await console(f"table_add addresses forward {TO_A} => 3")
        assert answer == ["Entry has been added with handle 0"]
        assert await console("table_num_entries addresses") == ["1"]

    assert on_a_switch(tmp_path, body) == [[], [0], [0]]


def test_entries_that_were_there_have_handles(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console(f"table_add addresses forward {TO_A} => 1")
        other = Console(console.net, console.switch, console.clock)
        await other("table_modify addresses forward 0 2")
        dump = await other("table_dump addresses")
        assert "Dumping entry 0x0" in dump
        assert "Action entry: CommandsIngress.forward - 0002" in dump
        await other.send(TO_A)

    assert on_a_switch(tmp_path, body) == [[], [0], []]


def test_a_dump_has_keys_priority_and_action(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console("table_add choices NoAction 0x0834&&&0x00ff 0->65535 3&&&0xff => 5")
        assert (await console("table_dump choices"))[4:] == [
            "Match key:", "* hdr.ethernet.ether_type: 0x34/&0xff", "* hdr.probe.number    : *",
            "* hdr.probe.tag       : 0x3", "Priority: 5", "Action entry: NoAction - ", "==========",
        ]  # fmt: skip

    on_a_switch(tmp_path, body)


def test_multicast_copies_to_the_nodes_of_a_group(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console(f"""
            mc_mgrp_create 5
            mc_node_create 11 2 3
            mc_node_create 12 3
            mc_node_associate 5 0
            table_add addresses copy {TO_A} => 5
        """)
        await console.send(TO_A)
        await console("mc_node_associate 5 1")
        with pytest.raises(CommandError, match="node 1 is associated with group 5 already"):
            await console("mc_node_associate 5 1")
        await console.send(TO_A)
        await console("mc_node_dissociate 5 0")
        await console("mc_node_update 1 1")
        await console.send(TO_A)
        await console("mc_node_destroy 1")
        await console.send(TO_A)
        assert await console("mc_node_create 13 2") == ["node was created with handle 1"]

    assert on_a_switch(tmp_path, body) == [[12], [11, 11], [11, 11, 12]]


def test_mirroring_sessions_copy_to_a_port_or_to_a_group(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console(f"""
            mirroring_add 7 3
            table_add addresses mirror {TO_A} => 2 7
        """)
        await console.send(TO_A)
        await console("""
            mc_mgrp_create 1
            mc_node_create 21 1
            mirroring_add_mc 7 1
            mc_node_associate 1 0
        """)
        await console.send(TO_A)
        await console("mirroring_delete 7")
        await console.send(TO_A)
        with pytest.raises(CommandError, match="no mirroring session 7: there are none"):
            await console("mirroring_delete 7")

    assert on_a_switch(tmp_path, body) == [[21], [0, 0, 0], [0]]


def test_counters_and_registers_are_read_written_and_reset(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console(f"table_add addresses forward {TO_A} => 2")
        await console.send(TO_A, number=500, count=3)
        assert await console("counter_read arrivals 1") == ["arrivals[1]= (192 bytes, 3 packets)"]
        assert await console("counter_read by_address 0") == [
            "this is the direct counter for table CommandsIngress.addresses",
            "by_address[0]= (192 bytes, 3 packets)",
        ]
        assert await console("register_read seen 1") == ["seen[1]= 500"]
        await console("""
            counter_write arrivals 3 10 1000
            register_write CommandsIngress.seen 7 4000000000
            counter_write by_address 0 5 50
        """)
        assert await console("counter_read arrivals 3") == ["arrivals[3]= (1000 bytes, 10 packets)"]
        assert (await console("counter_read by_address 0"))[1].endswith("(50 bytes, 5 packets)")
        assert await console("register_read seen") == ["seen= 0, 500, 0, 0, 0, 0, 0, 4000000000"]
        await console("counter_reset arrivals\ncounter_reset by_address\nregister_reset seen")
        assert await console("counter_read arrivals 3") == ["arrivals[3]= (0 bytes, 0 packets)"]
        assert (await console("counter_read by_address 0"))[1].endswith("(0 bytes, 0 packets)")
        assert await console("register_read seen 7") == ["seen[7]= 0"]

    on_a_switch(tmp_path, body)


def test_rates_of_meters_are_units_of_a_microsecond(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console("meter_set_rates pace 2 0.0015:3 0.002:4")
        entry = fy.P4MeterEntry("pace", index=2)
        found: Any = console.switch.read(entry)
        assert [cell.config async for cell in found] == [
            fy.P4MeterConfig(cir=1500, cburst=3, pir=2000, pburst=4)
        ]
        assert await console("meter_get_rates pace 2") == [
            "0: info rate = 0.0015, burst size = 3", "1: info rate = 0.002, burst size = 4",
        ]  # fmt: skip
        await console("meter_array_set_rates pace 0.001:1 0.001:1")
        assert "info rate = 0.001, burst size = 1" in (await console("meter_get_rates pace 3"))[0]
        await console("table_add prefixes metered 10.0.0.0/8 =>")
        await console("meter_set_rates by_prefix 0 1:2000 2:3000")
        assert (await console("meter_get_rates by_prefix 0"))[1] == (
            "1: info rate = 2.0, burst size = 3000"
        )
        await console("meter_array_set_rates by_prefix 3:1 3:1")
        assert (await console("meter_get_rates by_prefix 0"))[0].startswith("0: info rate = 3.0")
        assert console.told == []
        await console("meter_set_rates pace 0 0.0000005:1 0.00001:1")
        assert console.told == [
            "typed:1: rate 0.0000005:1: 0.5 a second became 1: P4Runtime has whole numbers"
        ]

    on_a_switch(tmp_path, body)


def test_members_and_groups_of_a_profile(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        assert await console("act_prof_create_member paths forward 1") == [
            "Member has been created with handle 0"
        ]
        await console("act_prof_create_member paths forward 2")
        found: Any = console.switch.read(fy.P4ActionProfileMember("paths"))
        assert [member.member_id async for member in found] == [1, 2]  # 0 would stand for all
        assert await console("act_prof_create_group paths") == [
            "Group has been created with handle 0"
        ]
        await console("""
            act_prof_add_member_to_group paths 1 0
        """)
        with pytest.raises(CommandError, match="member 1 is in group 0 already"):
            await console("act_prof_add_member_to_group paths 1 0")
        await console("""
            table_indirect_add spread 1 => 0
            table_indirect_add_with_group spread 2 => 0
        """)
        await console.send(TO_A, tag=1)
        await console.send(TO_A, tag=2)
        await console("act_prof_modify_member paths forward 0 3")
        await console.send(TO_A, tag=1)
        await console("""
            act_prof_add_member_to_group paths 0 0
            act_prof_remove_member_from_group paths 1 0
        """)
        await console.send(TO_A, tag=2)
        with pytest.raises(CommandError, match=r"the switch refuses: .*use"):
            await console("act_prof_delete_group paths 0")
        await console("""
            table_indirect_delete spread 1
            act_prof_delete_group paths 0
            table_indirect_delete spread 0
            act_prof_delete_member paths 0
        """)
        assert await console("act_prof_create_member paths forward 1") == [
            "Member has been created with handle 0"
        ]

    assert on_a_switch(tmp_path, body) == [[1], [2], [1, 2]]


def test_queues_are_set_on_one_port_or_on_all(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        set_queue: list[tuple[int, dict[str, int]]] = []
        node = SimpleNamespace(set_queue=lambda port, **given: set_queue.append((port, given)))
        console.session = Session(console.switch, node, PORTS, console.told.append)
        await console("set_queue_rate 1000 3\nset_queue_depth 10\nset_queue_depth 20 2 7")
        assert set_queue == [
            (3, {"rate_pps": 1000}), (1, {"depth": 10}), (2, {"depth": 10}), (3, {"depth": 10}),
            (2, {"depth": 20, "priority": 7}),
        ]  # fmt: skip

    on_a_switch(tmp_path, body)


def test_a_slow_queue_lets_so_many_packets_out_a_second(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console(f"table_add addresses forward {TO_A} => 2")
        await console("set_queue_rate 100 2")
        await console.send(TO_A, count=4)

    on_a_switch(tmp_path, body)
    times_s = [float(packet.time) for packet in rdpcap(str(tmp_path / "network/s1-eth2_out.pcap"))]
    assert [after - before for before, after in pairwise(times_s)] == pytest.approx([0.01] * 3)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("tabel_add x", "typed:1: tabel_add: expected one of act_prof_add_member_to_group, "),
        ("table_add nowhere forward 1 => 1", "table 'nowhere': there is none of this name: "),
        ("table_add addresses metered 1 => 1", "action 'metered': there is none of this name"),
        ("table_add addresses forward 1 2 => 1", "2 keys: table CommandsIngress.addresses expects"),
        ("table_add addresses forward 1 => 1 2", "2 parameters: action forward expects port"),
        ("table_add addresses forward 1 1", "no =>: expected one between keys and the action's"),
        ("table_add addresses forward 1 => 600", "value '600': expected 0 to 0x1ff, of 9 bits"),
        ("table_add addresses forward 02:00:1 => 1", "value '02:00:1': expected a number, as in 10 "
         "or 0x0a, or a MAC address"),
        ("table_add prefixes metered 10.0.0.0 =>", "key hdr.probe.address: value '10.0.0.0': "
         "expected two, as in 10.0.0.0/8"),
        ("table_add prefixes metered 10.0.0.0/33 =>", "expected a length of 0 to 32"),
        ("table_add prefixes metered 10.0.0.256/8 =>", "expected a number, as in 10 or 0x0a, or an "
         "IPv4 address"),
        ("table_add choices NoAction 0&&&0 0->1 0&&&0 =>", "priority '=>': table "),
        ("table_add choices NoAction 0&&&0 2->1 0&&&0 => 1", "range '2->1': it ends before"),
        ("table_add choices NoAction 0&&&0 0->1 1&&&1 => 1", "expected a mask of all bits, or of"),
        ("table_delete addresses x", "handle 'x': expected a number, 0 or more"),
        ("table_delete addresses", "1 arguments: expected table_delete TABLE HANDLE"),
        ("mc_node_create 1 2 | 3", "P4Runtime has no such groups of ports"),
        ("mc_node_create 1 2 2", "ports 2 2: one is given twice"),
        ("mc_node_associate 1 0", "there is no multicast group 1: there are none"),
        ("mirroring_add_mc 1 9", "there is no multicast group 9"),
        ("mirroring_add 1 600", "the switch refuses: "),
        ("register_read seen 8", "the switch refuses: "),
        (f"mc_mgrp_create {10**50}", "typed:1: mc_mgrp_create: Value out of range"),
        (f"table_delete addresses {'9' * 5000}", "typed:1: table_delete: "),
        ("meter_set_rates pace 0 1:1", "1 rates: expected 2, as in 0.001:10"),
        ("meter_set_rates pace 0 nan:1 1:1", "rate 'nan:1': expected units of a microsecond"),
        ("meter_set_rates pace 0 2:1 1:1", "the switch refuses: .*above pir"),
        ("set_queue_rate 10 9", "the switch has no port 9"),
        ("set_crc32_parameters calc 1 1 1 0 0", "hash functions are set over Thrift alone"),
        ("table_indirect_add addresses 1 => 0", "has no action profile: expected table_add"),
        ("act_prof_add_member_to_group paths 0 0", "there is no member of CommandsIngress.paths 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, line: str, why: str) -> None:
    async def body(console: Console) -> None:
        with pytest.raises(CommandError, match=why.replace("|", r"\|")) as raised:
            await console(line)
        assert "\n" not in str(raised.value)

    on_a_switch(tmp_path, body)


def test_a_script_goes_on_behind_what_failed(tmp_path: Path) -> None:
    script = tmp_path / "s1-commands.txt"
    script.write_text(
        "// entries\n# and more\n\n"
        f"table_add addresses forward {TO_A} => 2\n"
        "  table_add addresses forward 02:00:00:00:00:0b 2\n"
        "register_write seen 3 33\nregister_read seen 3\n"
    )

    async def body(console: Console) -> None:
        assert await console.session.run(script) == 1
        assert console.told == [
            "s1-commands.txt:5: table_add: no =>: expected one between keys and the action's "
            "parameters",
            "seen[3]= 33",
        ]
        await console.send(TO_A)

    assert on_a_switch(tmp_path / "run", body) == [[], [0], []]


def test_a_script_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"s9-commands.txt: cannot be read: No such file"):
        read_script(tmp_path / "s9-commands.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="binary: cannot be read: it is no text"):
        read_script(tmp_path / "binary")
