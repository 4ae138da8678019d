"""Commands and helper processes of scripts."""

import os

import pytest

from telemark.errors import TestbedError
from telemark.processes import LineProcess, run_command


def test_the_error_of_a_command_is_reported() -> None:
    assert run_command("echo two words") == "two words\n"
    with pytest.raises(TestbedError, match=r"^ls /nowhere: .*No such file"):
        run_command("ls /nowhere")


def test_a_process_answers_until_the_block_ends() -> None:
    with LineProcess("cat", "cat") as process:
        assert [process.ask("first"), process.ask("second")] == ["first", "second"]
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_the_end_of_a_process_is_reported() -> None:
    with LineProcess("helper", "sh", "-c", "exit 4") as process:
        process._process.wait()
        with pytest.raises(TestbedError, match=r"^helper: ended with status 4$"):
            process.ask("a line")
