"""docs/how-to/p4-course.md: the commands of its workflow work."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from small_programs import DEFAULTS, TEMPLATE

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "p4-course.md").read_text()
RUN = re.compile(r"- name: Test\n +run: \|\n((?: {10}.*\n)+)")


@pytest.mark.parametrize(
    ("parts", "status"), [({}, 0), ({"ingress": "hdr.h.b = 1;"}, 1), ({"ingress": "?"}, 1)]
)
def test_commands_of_the_workflow(tmp_path: Path, parts: dict[str, str], status: int) -> None:
    """The step fails if a test fails or a program does not compile. It writes both reports."""
    [script] = RUN.findall(PAGE)
    (tmp_path / "small.p4").write_text(TEMPLATE.format(**{**DEFAULTS, **parts}))
    (tmp_path / "small.stf").write_text("packet 1 01000000\nexpect 0 01000000$")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-e", "-c", textwrap.dedent(script)], cwd=tmp_path, check=False,
        env={**os.environ, "PATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == status, run.stdout + run.stderr
    assert (tmp_path / "sarif" / "small.sarif").exists()
    assert (tmp_path / "traces" / "small.html").exists() is (parts.get("ingress") != "?")
