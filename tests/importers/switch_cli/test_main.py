"""simple_switch_CLI commands on a running switch process."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from importers.switch_cli.__main__ import main

PROGRAM = Path(__file__).parents[2] / "telemark" / "programs" / "registers.p4"


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Return the arguments NAME HOST:PORT DEVICE_ID CONTROL for a switch without interfaces."""
    folder = tmp_path_factory.mktemp("switch")
    json_file, p4info, control = (folder / name for name in ("x.json", "x.txtpb", "control"))
    command = [sys.executable, "-m", "minip4.cli"]
    subprocess.run([*command, "compile", str(PROGRAM), "-o", str(json_file), "--p4runtime-files",
                    str(p4info)], check=True)  # fmt: skip
    with subprocess.Popen(
        [*command, "switch", str(json_file), "--p4info", str(p4info), "--device-id", "3",
         "--grpc-server-addr", "127.0.0.1:0", "--control", str(control)],
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        address = process.stdout.readline().split(",")[1].strip()
        yield ["s1", address, "3", str(control)]
        process.terminate()


def test_commands_are_carried_out_and_reported(
    switch: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "s1-commands.txt"
    script.write_text("register_write packets 2 77\nregister_read packets 2\n")
    assert main([*switch, str(script)]) == 0
    assert "77" in capsys.readouterr().out
    script.write_text("table_add none do 1 =>\nregister_read packets 2\n")
    assert main([*switch, str(script)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert "s1-commands.txt:1: table_add" in first
    assert "77" in second


def test_what_cannot_be_carried_out_at_all(
    switch: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*switch, str(tmp_path / "none.txt")]) == 2
    assert (
        capsys.readouterr().err
        == f"s1: {tmp_path}/none.txt: cannot be read: No such file or directory\n"
    )
