"""The Wireshark dissector of Telemetry Reports finds the content of IOAM reports."""

import random
import shutil
from pathlib import Path

import made_ioam
import pytest
from test_int_dissector import dissected, octets, of_reports, shown
from test_ioam_decoder import MALFORMED, mutated, trace, traced

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def test_the_dissector_agrees_with_what_was_made(tmp_path: Path) -> None:
    rng = random.Random(1)
    made = [made_ioam.report(rng, 7, number)[0] for number in range(60)]
    trees = dissected(tmp_path, of_reports([each.encode() for each in made]))
    for tree, each in zip(trees, made, strict=True):
        assert shown(tree, "treport.type") == ["2"]
        assert shown(tree, "treport.ioam.namespace") == [str(each.namespace)]
        assert shown(tree, "treport.ioam.type") == [str(each.option_type.value)]
        assert [int(text, 16) for text in shown(tree, "treport.ioam.trace_type")] == [
            each.trace_type
        ]
        assert octets(tree, "treport.ioam.data") == each.data.encode(each.trace_type)
        assert shown(tree, "treport.packet.src6") == ["fd00::1"]
        assert shown(tree, "treport.packet.dport") == ["80"]
        assert not shown(tree, "treport.malformed")


def test_malformed_reports_say_so(tmp_path: Path) -> None:
    no_ipv6 = bytearray(traced(trace(1)).encode())
    no_ipv6[8] = 0x24
    payloads = [*(bytes.fromhex(text) for text in MALFORMED.values()), bytes(no_ipv6)]
    for tree in dissected(tmp_path, of_reports(payloads)):
        assert "treport.malformed" in [each.get("name") for each in tree.iter("field")]


def test_hostile_reports_cause_no_lua_error(tmp_path: Path) -> None:
    rng = random.Random(2)
    assert len(dissected(tmp_path, of_reports([mutated(rng) for _ in range(100)]))) == 100
