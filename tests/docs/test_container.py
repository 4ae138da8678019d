"""The Dockerfile, held against setup.sh, which it is made of: it cannot be built here."""

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SETUP = (ROOT / "setup.sh").read_text()
IGNORED = [line for line in (ROOT / ".dockerignore").read_text().splitlines()
           if line and not line.startswith("#")]  # fmt: skip


def lines(instruction: str) -> list[str]:
    """What stands behind an instruction, each time it is given."""
    return re.findall(rf"^{instruction} +(.*)$", DOCKERFILE, re.MULTILINE)


def is_ignored(path: str) -> bool:
    """As Docker reads .dockerignore: of a file or a folder above it, the last pattern decides."""
    parts = path.split("/")
    above = ["/".join(parts[: number + 1]) for number in range(len(parts))]
    found = False
    for pattern in IGNORED:
        plain = pattern.removeprefix("!").removeprefix("**/")
        names = parts if "**/" in pattern else above
        if any(fnmatch(name, plain) and name.count("/") == plain.count("/") for name in names):
            found = not pattern.startswith("!")
    return found


def test_it_is_the_system_that_setup_knows_and_lists_no_package_again() -> None:
    (system,) = lines("FROM")
    assert system == "debian:12"
    assert "Debian 12" in SETUP
    packages = re.search(r"PACKAGES=\((.*?)\)", SETUP, re.DOTALL)
    assert packages is not None
    run = " ".join(lines("RUN"))
    assert run.startswith("./setup.sh ")
    assert not {*packages[1].split()} & {*re.findall(r"[\w.-]+", run)}
    assert "install" not in run


def test_what_it_copies_is_there_and_where_it_works() -> None:
    ((source, target),) = [line.split() for line in lines("COPY")]
    assert (ROOT / source / "setup.sh").is_file()
    assert lines("WORKDIR") == [target]
    assert DOCKERFILE.index("COPY") < DOCKERFILE.index("RUN")


def test_all_that_belongs_to_the_project_goes_in() -> None:
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files"]
    files = subprocess.run(git, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "setup.sh" in files
    assert [path for path in files if is_ignored(path)] == []


@pytest.mark.parametrize("entry", (ROOT / ".gitignore").read_text().split())
def test_what_git_leaves_out_stays_out(entry: str) -> None:
    path = entry.removeprefix("!").rstrip("/").replace("*", "x")
    assert is_ignored(path) is not entry.startswith("!")
    if not entry.startswith("!"):
        assert is_ignored(f"{path}/file")


def test_neither_does_the_history_go_in() -> None:
    assert is_ignored(".git/config")
    assert not is_ignored(".gitignore")


def test_the_documentation_says_how() -> None:
    text = (ROOT / "docs" / "running.md").read_text()
    assert "docker build -t telemark ." in text
    assert "docker run --rm -it --privileged" in text
