"""Scripts of simple_switch_CLI commands: errors, and the commands after an error."""

from pathlib import Path

import pytest
from switch_console import TO_A, Console, on_a_switch

from importers.switch_cli.commands import CommandError, read_script


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("tabel_add x", "typed:1: tabel_add: expected one of act_prof_add_member_to_group, "),
        ("table_add nowhere forward 1 => 1", "table 'nowhere': there is no such name: "),
        ("table_add addresses metered 1 => 1", "action 'metered': there is no such name"),
        ("table_add addresses forward 1 2 => 1", "2 keys: table CommandsIngress.addresses expects"),
        ("table_add addresses forward 1 => 1 2", "2 parameters: action forward expects port"),
        ("table_add addresses forward 1 1", "no => between the keys and the action's"),
        ("table_add addresses forward 1 => 600", "value '600': expected 0 to 0x1ff .9 bits."),
        ("table_add addresses forward 02:00:1 => 1", "value '02:00:1': expected a number such as 10"
         " or 0x0a, or a MAC address"),
        ("table_add prefixes metered 10.0.0.0 =>", "key hdr.probe.address: value '10.0.0.0': "
         "expected two values, such as 10.0.0.0/8"),
        ("table_add prefixes metered 10.0.0.0/33 =>", "expected a length of 0 to 32"),
        ("table_add prefixes metered 10.0.0.256/8 =>", "expected a number such as 10 or 0x0a, or "
         "an IPv4 address"),
        ("table_add choices NoAction 0&&&0 0->1 0&&&0 =>", "priority '=>': table "),
        ("table_add choices NoAction 0&&&0 2->1 0&&&0 => 1", "range '2->1': the end is less"),
        ("table_add choices NoAction 0&&&0 0->1 1&&&1 => 1", "expected a mask with all bits or"),
        ("table_delete addresses x", "handle 'x': expected a number of at least 0"),
        ("table_delete addresses", "1 arguments: expected table_delete TABLE HANDLE"),
        ("mc_node_create 1 2 | 3", "P4Runtime has no link aggregation groups"),
        ("mc_node_create 1 2 2", "ports 2 2: duplicate port"),
        ("mc_node_associate 1 0", "no multicast group 1; existing: none"),
        ("mirroring_add_mc 1 9", "no multicast group 9"),
        ("mirroring_add 1 600", "rejected by the switch: "),
        ("register_read seen 8", "rejected by the switch: "),
        (f"mc_mgrp_create {10**50}", "typed:1: mc_mgrp_create: Value out of range"),
        (f"table_delete addresses {'9' * 5000}", "typed:1: table_delete: "),
        ("meter_set_rates pace 0 1:1", "1 rates: expected 2, such as 0.001:10"),
        ("meter_set_rates pace 0 nan:1 1:1", "rate 'nan:1': expected RATE:BURST"),
        ("meter_set_rates pace 0 2:1 1:1", "rejected by the switch: .*above pir"),
        ("set_queue_rate 10 9", "the switch has no port 9"),
        ("set_crc32_parameters calc 1 1 1 0 0", "only Thrift can set hash functions"),
        ("table_indirect_add addresses 1 => 0", "has no action profile; use table_add"),
        ("act_prof_add_member_to_group paths 0 0", "no member of CommandsIngress.paths 0"),
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
        assert console.messages == [
            "s1-commands.txt:5: table_add: no => between the keys and the action's parameters",
            "seen[3]= 33",
        ]
        await console.send(TO_A)

    assert on_a_switch(tmp_path / "run", body) == [[], [0], []]


def test_a_script_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"s9-commands.txt: cannot be read: No such file"):
        read_script(tmp_path / "s9-commands.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="binary: cannot be read: it is not text"):
        read_script(tmp_path / "binary")
