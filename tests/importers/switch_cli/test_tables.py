"""Table entries and action profiles by simple_switch_CLI commands."""

from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from switch_console import TO_A, TO_B, Console, on_a_switch

from importers.switch_cli.commands import CommandError


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


def test_the_entry_of_a_table_without_keys_is_its_default_action(tmp_path: Path) -> None:
    """An entry that is added to a table without keys becomes the default action of the table.

    bmv2 behaves like this. In P4Runtime, such a table has no entry except its default action.
    """

    async def body(console: Console) -> None:
        await console(f"table_add addresses forward {TO_A} => 1")
        await console.send(TO_A)
        await console("table_add tagging retag => 9")
        await console.send(TO_A)
        with pytest.raises(CommandError, match=r"1 keys: table CommandsEgress.tagging expects"):
            await console("table_add tagging retag 5 => 9")

    assert on_a_switch(tmp_path, body) == [[0, 9], [], []]


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
        # The index is free again. The upper bits of the handle distinguish the new entry from the
        # old one.
        answer = await console(f"table_add addresses forward {TO_A} => 3")
        assert answer == [f"Entry has been added with handle {1 << 24}"]
        await console.send(TO_A)
        with pytest.raises(CommandError, match=r"no entry of table .*addresses 0; existing"):
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


def test_members_and_groups_of_a_profile(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        assert await console("act_prof_create_member paths forward 1") == [
            "Member has been created with handle 0"
        ]
        await console("act_prof_create_member paths forward 2")
        found: Any = console.switch.read(fy.P4ActionProfileMember("paths"))
        assert [member.member_id async for member in found] == [1, 2]  # 0 would select all members
        assert await console("act_prof_create_group paths") == [
            "Group has been created with handle 0"
        ]
        await console("""
            act_prof_add_member_to_group paths 1 0
        """)
        with pytest.raises(CommandError, match="member 1 is already in group 0"):
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
        with pytest.raises(CommandError, match=r"rejected by the switch: .*use"):
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
