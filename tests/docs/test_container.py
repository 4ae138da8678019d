"""The Dockerfile, compared with setup.sh, because tests cannot build an image."""

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
    """Return the arguments of each occurrence of an instruction."""
    return re.findall(rf"^{instruction} +(.*)$", DOCKERFILE, re.MULTILINE)


def is_ignored(path: str) -> bool:
    """Return whether .dockerignore excludes a path.

    The last pattern that matches the path, or a parent folder of it, decides.
    """
    parts = path.split("/")
    above = ["/".join(parts[: number + 1]) for number in range(len(parts))]
    found = False
    for pattern in IGNORED:
        plain = pattern.removeprefix("!").removeprefix("**/")
        names = parts if "**/" in pattern else above
        if any(fnmatch(name, plain) and name.count("/") == plain.count("/") for name in names):
            found = not pattern.startswith("!")
    return found


def test_base_system_is_supported_and_no_package_is_repeated() -> None:
    (system,) = lines("FROM")
    assert system == "debian:12"
    assert "Debian 12" in SETUP
    packages = re.search(r"PACKAGES=\((.*?)\)", SETUP, re.DOTALL)
    assert packages is not None
    run = " ".join(lines("RUN"))
    assert run.startswith("./setup.sh ")
    assert not {*packages[1].split()} & {*re.findall(r"[\w.-]+", run)}
    assert "install" not in run


def test_copied_folder_exists_and_is_the_work_folder() -> None:
    ((source, target),) = [line.split() for line in lines("COPY")]
    assert (ROOT / source / "setup.sh").is_file()
    assert lines("WORKDIR") == [target]
    assert DOCKERFILE.index("COPY") < DOCKERFILE.index("RUN")


def test_all_tracked_files_are_copied() -> None:
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files"]
    files = subprocess.run(git, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "setup.sh" in files
    assert [path for path in files if is_ignored(path)] == []


@pytest.mark.parametrize("entry", (ROOT / ".gitignore").read_text().split())
def test_files_ignored_by_git_are_not_copied(entry: str) -> None:
    path = entry.removeprefix("!").rstrip("/").replace("*", "x")
    assert is_ignored(path) is not entry.startswith("!")
    if not entry.startswith("!"):
        assert is_ignored(f"{path}/file")


def test_history_is_not_copied() -> None:
    assert is_ignored(".git/config")
    assert not is_ignored(".gitignore")


def test_documentation_has_the_commands() -> None:
    text = (ROOT / "docs" / "how-to" / "run-experiments.md").read_text()
    assert "docker build -t telemark ." in text
    assert "docker run --rm -it --privileged" in text
