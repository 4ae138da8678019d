"""A short run of the compiler's fuzzer. Use front_end.py for longer runs."""

import tempfile
from pathlib import Path
from typing import Any

import front_end
import pytest

import minip4.compiler


def test_no_text_breaks_the_compiler() -> None:
    assert " texts, " in front_end.fuzz(3, seed=2)


def test_a_fault_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: Any, **_options: Any) -> None:
        raise KeyError("planted")

    # the folder in which the fuzzer saves failing inputs
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(minip4.compiler, "compile_p4", fail)
    with pytest.raises(front_end.Finding, match="KeyError: 'planted'"):
        front_end.fuzz(3, seed=1)
