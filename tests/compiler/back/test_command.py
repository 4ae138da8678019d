"""`minip4 compile`: what it writes, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from back_programs import DEFAULTS, FRAME
from finsy.proto import p4i

from minip4.cli import main


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.p4"
    path.write_text(FRAME.format(**{**DEFAULTS, "ingress": "h.d.a = VALUE;"}))
    return path


def test_writes_json_and_p4info(program: Path, tmp_path: Path) -> None:
    output, text, binary = (tmp_path / n for n in ("out.json", "info.txtpb", "info.bin"))
    files = f"{text},{binary}"
    arguments = [
        "compile",
        str(program),
        "-DVALUE=5",
        "-o",
        str(output),
        "--p4runtime-files",
        files,
    ]
    assert main(arguments) == 0
    assert json.loads(output.read_text())["program"] == str(program)
    assert 'arch: "v1model"' in text.read_text()
    assert p4i.P4Info.FromString(binary.read_bytes()).pkg_info.arch == "v1model"


def test_default_output(program: Path) -> None:
    assert main(["compile", str(program), "-D", "VALUE=5"]) == 0
    assert program.with_suffix(".json").exists()


def test_warnings_are_printed(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(program), "-D", "VALUE=8w256"]) == 0
    assert "warning: 8w256 does not fit bit<8>" in capsys.readouterr().err


def test_an_unknown_table_property_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.p4"
    table = "table t { actions = { NoAction; } conters = 3; }"
    path.write_text(FRAME.format(**{**DEFAULTS, "locals": table, "ingress": "t.apply();"}))
    assert main(["compile", str(path)]) == 0
    warning = capsys.readouterr().err
    assert "warning: table property 'conters' is unknown here, and ignored" in warning
    assert "did you mean 'counters'?" in warning


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{program}"], "error: "),  # VALUE is not defined
        (["{program}", "-DVALUE=1", "--p4runtime-files", "x.pb"], "unknown kind of P4Info file"),
        (["{program}", "-DVALUE=1", "-o", "/nowhere/x.json"], "/nowhere/x.json: cannot be written"),
        (["missing.p4"], "missing.p4"),
    ],
)
def test_bad_input_ends_with_status_2(
    program: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["compile", *(a.format(program=program) for a in arguments)]) == 2
    assert message in capsys.readouterr().err


def test_bad_command() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["compil"])
    assert caught.value.code == 2
