"""Connections to switches: duplicate keys, which finsy does not detect, are reported first."""

from pathlib import Path

import pytest

from controllers.connection import _p4info
from telemark.errors import TestbedError


def test_keys_that_end_in_the_same_word(tmp_path: Path) -> None:
    path = tmp_path / "program.txtpb"
    fields = 'match_fields { id: 1 name: "outer.addr" } match_fields { id: 2 name: "inner.%s" }'
    path.write_text('tables { preamble { name: "c.t" } ' + fields % "addr" + " }")
    with pytest.raises(
        TestbedError, match=r"table c\.t: keys outer\.addr and inner\.addr have the same"
    ):
        _p4info(path)
    other = tmp_path / "other.txtpb"
    other.write_text('tables { preamble { name: "c.t" } ' + fields % "other" + " }")
    assert len(_p4info(other).tables[0].match_fields) == 2
