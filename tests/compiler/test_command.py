"""`minip4 compile`: output files, messages and exit status."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from finsy.proto import p4i
from programs_to_run import DEFAULTS, FRAME

from minip4.cli import main
from minip4.compiler import compile_p4


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.p4"
    path.write_text(FRAME.format(**{**DEFAULTS, "ingress": "h.d.a = VALUE;"}))
    return path


def test_writes_json_and_p4info(program: Path, tmp_path: Path) -> None:
    names = ("out.json", "info.txtpb", "info.txt", "info.bin")
    output, text, older, binary = (tmp_path / name for name in names)
    files = f"{text},{older},{binary}"
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
    assert 'arch: "v1model"' in text.read_text() == older.read_text()
    assert p4i.P4Info.FromString(binary.read_bytes()).pkg_info.arch == "v1model"


def test_default_output(program: Path) -> None:
    assert main(["compile", str(program), "-D", "VALUE=5"]) == 0
    assert program.with_suffix(".json").exists()


def test_long_expressions_are_written(program: Path) -> None:
    """An expression with 390 operators is written, although JSON nests several levels per operator.

    By default, Python's json module fails beyond 1,000 levels.
    """
    assert main(["compile", str(program), "-D", "VALUE=h.d.b" + " + h.d.c" * 390]) == 0
    assert program.with_suffix(".json").read_text().count('"+"') == 390


def test_warnings_are_printed(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(program), "-D", "VALUE=8w256"]) == 0
    assert "warning: 8w256 does not fit in bit<8>" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "is_shown"),
    [
        (["--Wdisable"], False),  # the word after this option is the program, not a kind of warning
        (["--Wdisable=overflow"], False),
        (["--Wdisable=cpp", "--Wdisable=overflow"], False),
        (["--Wdisable=cpp"], True),
    ],
)
@pytest.mark.parametrize("command", ["compile", "test"])
def test_warnings_can_be_turned_off(
    program: Path, capsys: pytest.CaptureFixture[str], command: str, option: list[str],
    is_shown: bool,
) -> None:  # fmt: skip
    script = program.with_suffix(".stf")
    script.write_text("")
    scripts = [str(script)] if command == "test" else []
    assert main([command, *option, str(program), *scripts, "-DVALUE=8w256"]) == 0
    assert ("[--Wdisable=overflow]" in capsys.readouterr().err) is is_shown


def test_an_unknown_kind_of_warning_is_refused(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["compile", str(program), "--Wdisable=overflo"])
    assert caught.value.code == 2
    assert (
        "'overflo' is not a kind of warning; available: cpp, deprecated" in capsys.readouterr().err
    )


def test_the_interface_returns_warnings_in_the_order_of_places(program: Path) -> None:
    text = program.read_text().replace("VALUE;", "8w257; h.d.a = 8w256;\n#warning here\n")
    program.write_text(text)
    warnings = compile_p4(program).warnings
    assert [(w.kind, w.source.line) for w in warnings] == [
        ("overflow", line := 1 + text[: text.index("8w256")].count("\n")),
        ("overflow", line),
        ("cpp", line + 1),
    ]
    assert "8w257 does not fit" in warnings[0].message


def test_an_unknown_table_property_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.p4"
    table = "table t { actions = { NoAction; } conters = 3; }"
    path.write_text(FRAME.format(**{**DEFAULTS, "locals": table, "ingress": "t.apply();"}))
    assert main(["compile", str(path)]) == 0
    warning = capsys.readouterr().err
    assert "warning: table property 'conters' is unknown and ignored" in warning
    assert "did you mean 'counters'?" in warning


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{program}"], "error: "),  # the program needs -D VALUE=...
        (["{program}", "-DVALUE=1", "--p4runtime-files", "x.pb"], "unknown type of P4Info file"),
        (["{program}", "-DVALUE=1", "-o", "/nowhere/x.json"], "/nowhere/x.json: cannot write"),
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


def test_preprocessed_source_is_printed(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "-E", str(program), "-DVALUE=h.d.b + 8w7"]) == 0
    text = capsys.readouterr().out
    assert "h.d.a = h.d.b + 8w7;" in text
    assert "#include" not in text
    assert f' "{program}"\n' in text
    assert not program.with_suffix(".json").exists()


def test_output_folder_and_options_of_p4c(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "build"
    folder.mkdir()
    options = ["--p4v", "16", "--std", "p4-16", "--target", "bmv2", "--arch", "v1model"]
    assert main(["compile", *options, "-o", str(folder), str(program), "-DVALUE=5"]) == 0
    assert (folder / "tiny.json").exists()


def test_p4_14_is_refused(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["compile", "--p4v", "14", str(program)])
    assert exit_.value.code == 2
    assert "--std/--p4v: invalid choice: '14'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "status", "rule"), [("8w256", 0, "overflow"), ("nothing", 2, "error")]
)
def test_errors_and_warnings_as_sarif(
    program: Path, tmp_path: Path, value: str, status: int, rule: str
) -> None:
    log = tmp_path / "log.sarif"
    assert main(["compile", f"-DVALUE={value}", "--sarif", str(log), str(program)]) == status
    [result] = json.loads(log.read_text())["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    line = program.read_text().splitlines()[place["region"]["startLine"] - 1]
    assert result["ruleId"] == rule
    assert result["level"] == ("error" if rule == "error" else "warning")
    assert place["artifactLocation"]["uri"] == str(program)
    assert line[place["region"]["startColumn"] - 1 :].startswith("VALUE")


def test_sarif_omits_disabled_warnings(program: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.sarif"
    options = ["-DVALUE=8w256", "--Wdisable=overflow", "--sarif", str(log)]
    assert main(["compile", *options, str(program)]) == 0
    assert json.loads(log.read_text())["runs"][0]["results"] == []


def test_sarif_encodes_file_names(program: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.sarif"
    spaced = program.rename(tmp_path / "a b%20.p4")
    assert main(["compile", "-DVALUE=nothing", "--sarif", str(log), str(spaced)]) == 2
    assert f'"uri": "{tmp_path}/a%20b%2520.p4"' in log.read_text()


def test_completion_lists_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    ask = """
COMP_WORDS=(minip4 {}); COMP_CWORD={}; _minip4; echo "${{COMPREPLY[@]}}"
"""
    script = capsys.readouterr().out + ask.format("sw", 1) + ask.format("compile --p4r", 2)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "switch\n--p4runtime-files\n"
