"""Options of INT experiments that make a measurement impossible are reported in one line."""

from argparse import Namespace
from pathlib import Path

import pytest
from scripts import module
from virtual_networks import virtually

from telemark.errors import TestbedError

PROGRAM = "p4src/int/int.p4"


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("microburst", {"before": 1e6, "bursting": "red"}, "GiB of memory, this machine has"),
        ("microburst", {"before": 0.09, "bursting": "red"}, "--before 0.09: .* at least 0.1"),
        ("modes", {"rate": 7, "blocks": 1}, r"--rate 7: .* block of 0\.26 s; use at least 8"),
        ("loss", {"rate": 7, "blocks": 1}, r"--rate 7: .* block of 0\.26 s; use at least 8"),
        ("overhead", {"hops": [1, 16], "seconds": 1}, "--hops 16: expected 1 to 15"),
    ],
)
def test_it_is_refused(name: str, options: dict[str, object], words: str, tmp_path: Path) -> None:
    usual = {"quick": True, "time": "virtual", "target": "minip4", "program": PROGRAM, "loss": None}
    experiment = module(f"int_{name}").experiment
    with pytest.raises(TestbedError, match=words):
        virtually(tmp_path, lambda run: experiment(Namespace(**usual, **options), run))
