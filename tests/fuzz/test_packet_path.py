"""A short run of the fuzzer for the packet path. Use packet_path.py for longer runs."""

import tempfile
import warnings
from pathlib import Path

import packet_path
import pytest

PROGRAMS = (
    packet_path.REPOSITORY / "p4src" / "ampm" / "ampm.p4",
    packet_path.HERE / "programs" / "mixture.p4",
    packet_path.HERE / "programs" / "tofino.p4",
    packet_path.HERE / "programs" / "tofino2.p4",
)
SECONDS = 3


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_no_frame_breaks_a_program(program: Path) -> None:
    try:
        packet_path.fuzz(program, SECONDS)
    except packet_path.NoFuzzer as missing:
        warnings.warn(f"own mutations instead of libFuzzer: {missing}", stacklevel=1)
        packet_path.fuzz(program, SECONDS, feedback=False)


def test_a_fault_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the folder in which the fuzzer saves failing inputs
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(packet_path.Finding, match="planted_fault"):
        packet_path.fuzz(PROGRAMS[0], SECONDS, feedback=False, defines=["-DPLANTED_FAULT"])
