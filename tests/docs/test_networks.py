"""docs/how-to/networks.md: its example runs, and it lists every topology."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "how-to" / "networks.md").read_text()
EXAMPLE = re.compile(r"^```python (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("time", ["real", "virtual"])
def test_example(time: str, tmp_path: Path) -> None:
    ((name, text),) = EXAMPLE.findall(PAGE)
    (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["/usr/bin/python3", tmp_path / name, "--time", time, "--out", tmp_path / "out"],
        capture_output=True, text=True, check=False, timeout=300,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY / "experiments")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    samples = (tmp_path / "out" / "samples.csv").read_text().split()
    assert samples[0] == "switch,packets"
    if time == "virtual":
        assert samples[1:] == ["s1,500", "s2,0", "s3,500"]


def test_every_topology_is_listed(scripts_of: Callable[[str], set[str]]) -> None:
    listed = set(re.findall(r"^\| `(\w+)\.\w+`", PAGE, re.MULTILINE))
    assert listed == scripts_of("topologies")
