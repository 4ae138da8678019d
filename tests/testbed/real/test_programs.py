"""An experiment that compiles its program shows what the compiler warns of."""

from collections.abc import Callable
from pathlib import Path

import pytest
from virtual_networks import WIRE, Pair, virtually

from testbed.network import Network
from testbed.real.targets.minip4 import Program
from testbed.run import Run


def in_real_time(program: Path, folder: Path) -> None:
    Program.build(program, folder)


def in_virtual_time(program: Path, folder: Path) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(), run, program=program):
            pass

    virtually(folder, main)


@pytest.mark.parametrize("build", [in_real_time, in_virtual_time])
def test_warnings_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], build: Callable[[Path, Path], None]
) -> None:
    program = tmp_path / "wire.p4"
    program.write_text(WIRE.read_text() + "const bit<8> wide = 8w256;\n")
    line = program.read_text().count("\n")
    build(program, tmp_path)
    assert capsys.readouterr().err.startswith(f"{program}:{line}:21: warning: 8w256 does not fit")
