"""Lookup of names as in simple_switch_CLI, and handles as in simple_switch."""

from types import SimpleNamespace

import pytest

from importers.switch_cli.commands import CommandError, find
from importers.switch_cli.handles import Handles


def test_a_name_may_be_cut_short_where_that_says_enough() -> None:
    tables = [SimpleNamespace(name=name) for name in ("A.x.t", "A.y.t", "A.y.other_t", "u")]
    assert find("table", "x.t", tables).name == "A.x.t"
    assert find("table", "other_t", tables).name == "A.y.other_t"
    assert find("table", "u", tables).name == "u"
    with pytest.raises(CommandError, match=r"table 't': 2 have this name: expected one of A.x.t"):
        find("table", "t", tables)
    with pytest.raises(CommandError, match=r"table 'r_t': there is no such name"):
        find("table", "r_t", tables)


def test_the_lowest_free_handle_is_given() -> None:
    nodes: Handles[str] = Handles("node")
    assert [nodes.add(each) for each in "abcd"] == [0, 1, 2, 3]
    nodes.remove(2)
    nodes.remove(0)
    assert [nodes.add(each) for each in "efg"] == [0, 2, 4]
    assert list(nodes.items()) == [(0, "e"), (1, "b"), (2, "f"), (3, "d"), (4, "g")]


def test_entries_count_how_often_their_index_was_used() -> None:
    entries: Handles[str] = Handles("entry", versioned=True)
    assert entries.add("a") == 0
    for version in range(1, 256):
        entries.remove((version - 1) << 24)
        assert entries.add("a") == version << 24
    entries.remove(255 << 24)
    assert entries.add("a") == 0
    entries.remove(0)
    entries.clear()
    assert entries.add("b") == 0
    assert entries[0] == "b"
