"""`minip4 run`: errors of programs; the switch has its own tests."""

from pathlib import Path

import pytest
from programs_to_run import DEFAULTS, FRAME

from minip4.cli import main


def test_an_expression_too_deep_for_the_engine_is_an_error_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "deep.p4"
    value = "h.d.b" + " + h.d.c" * 390
    path.write_text(FRAME.format(**{**DEFAULTS, "ingress": f"h.d.a = {value};"}))
    assert main(["run", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("minip4 run: error: ")
    assert error.count("\n") == 1
