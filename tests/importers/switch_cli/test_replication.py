"""Multicast groups and mirroring sessions by simple_switch_CLI commands."""

from pathlib import Path

import pytest
from switch_console import TO_A, Console, on_a_switch

from importers.switch_cli.commands import CommandError


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
        with pytest.raises(CommandError, match="node 1 is already associated with group 5"):
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
        with pytest.raises(CommandError, match="no mirroring session 7; existing: none"):
            await console("mirroring_delete 7")

    assert on_a_switch(tmp_path, body) == [[21], [0, 0, 0], [0]]
