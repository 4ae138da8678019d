"""Programs that contain a copy of tna.p4 or t2na.p4."""

from __future__ import annotations

from pathlib import Path

import pytest
from tna_programs import data, write

from minip4.compiler import compile_p4
from minip4.compiler.preprocess.preprocessor import preprocess
from minip4.engine.engine import Engine
from minip4.errors import Minip4Error

PARTS = {
    "locals": """
        Register<bit<16>, bit<8>>(4, 7) reg;
        RegisterAction<bit<16>, bit<8>, bit<16>>(reg) add = {
            void apply(inout bit<16> value, out bit<16> rv) { value = value + 1; rv = value; }
        };""",
    "ingress": "hdr.d.b = add.execute(2);",
    "port_metadata": "bit<64> p = port_metadata_unpack<bit<64>>(pkt);",
}


def with_copy(folder: Path, architecture: str, old: str = "", new: str = "") -> Path:
    """Write a program after preprocessing, with `new` instead of `old`."""
    path = write(folder, architecture=architecture, **PARTS)
    tokens, _ = preprocess(path, (), ())
    text = " ".join(token.text for token in tokens)
    assert old in text
    path.write_text(text.replace(old, new) if old else text)
    return path


@pytest.mark.parametrize("architecture", ["tna.p4", "t2na.p4"])
def test_program_with_a_copy(tmp_path: Path, architecture: str) -> None:
    program = compile_p4(with_copy(tmp_path, architecture))
    assert program.p4info.pkg_info.arch == architecture[:-3]
    switch = Engine(program.bmv2_json)
    assert switch.process(1, data(), 0) == [(2, data(b=8))]


def test_copy_with_a_wred(tmp_path: Path) -> None:
    """P4Info contains a register with the settings of the Wred."""
    parts = {
        "locals": "Wred<bit<16>, bit<8>>(4, 9, 6) wred;",
        "ingress": "hdr.d.a = wred.execute(1, 0);",
    }
    path = write(tmp_path, **parts)
    tokens, _ = preprocess(path, (), ())
    path.write_text(" ".join(token.text for token in tokens))
    program = compile_p4(path)
    assert [each.preamble.name for each in program.p4info.registers] == ["IC.wred"]
    assert Engine(program.bmv2_json).process(1, data(), 0) == [(2, data(a=6))]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "Random ( ) ; W get ( ) ;",
            "Random ( ) ; W get ( in W x ) ;",
            "Random.get() differs from its declaration in tna.p4",
        ),
        (
            "extern bit < 32 > sizeInBits < H > ( in H h ) ;",
            "extern bit < 32 > sizeInBits < H > ( inout H h ) ;",
            "sizeInBits() differs from its declaration in tna.p4",
        ),
        (
            "bit < 1 > bypass_egress ;",
            "bit < 1 > skip_egress ;",
            "ingress_intrinsic_metadata_for_tm_t differs from its declaration in tna.p4",
        ),
        (
            "in M metadata , @ optional in ingress_intrinsic_metadata_for_deparser_t",
            "in M metadata , in ingress_intrinsic_metadata_for_deparser_t",
            "IngressDeparserT differs from its declaration in tna.p4",
        ),
        (
            "EgressT < EH , EM > egress ,",
            "EgressT < EH , EM > eg ,",
            "Pipeline differs from its declaration in tna.p4",
        ),
        (
            "const bit < 32 > PORT_METADATA_SIZE = 64 ;",
            "const bit < 32 > SIZE = 64 ;",
            "the program has no constant PORT_METADATA_SIZE",
        ),
        ('@ pkginfo ( arch = "TNA" ,', '@ pkginfo ( arch = "PNA" ,', "package Switch"),
    ],
    ids=["method", "function", "metadata", "block", "package", "constant", "architecture"],
)
def test_copies_that_differ_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(Minip4Error) as error:
        compile_p4(with_copy(tmp_path, "tna.p4", old, new))
    assert message in str(error.value)
    assert "program.p4:" in str(error.value)
