"""docs/how-to/tofino-programs.md: its program, script and network work."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "how-to" / "tofino-programs.md").read_text()
FILE = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_page(tmp_path: Path) -> None:
    folder = tmp_path / "forward"
    folder.mkdir()
    telemark = [sys.executable, "-m", "telemark.cli"]
    for name, text in FILE.findall(PAGE):
        (folder / name).write_text(text.replace("../.venv/bin/telemark", shlex.join(telemark)))
    done = subprocess.run(
        [*telemark, "run", "forward/p4app.json", "--yes", "--commands", "forward/commands"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hdr.ethernet.dst=0xa000002 -> Ingress.send(port=136)" in done.stdout
    assert "3 packets transmitted, 3 received" in done.stdout
    expected = re.search(r"^    port 128 3\n    port 136 3$", PAGE, re.MULTILINE)
    assert expected is not None
    assert expected[0].replace("    ", "") in done.stdout
