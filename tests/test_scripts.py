"""The shell scripts and the first import of experiments clearly report which parts are missing."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["setup.sh", "--colour"], "setup.sh: error: unknown argument: --colour"),
        (["run_all.sh", "--only", "ampm_los"], "run_all.sh: error: argument --only"),
        (["run_all.sh", "--out=x"], "run_all.sh: error: unrecognized arguments: --out=x"),
    ],
)
def test_mistakes_get_one_line(command: list[str], words: str) -> None:
    done = run(ROOT / command[0], *command[1:])
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_any_python_goes_on_in_the_projects_own(tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'experiments')!r})\n"
        "import _venv\nprint(sys.prefix, sys.argv[1:])\n"
    )
    done = run("/usr/bin/python3", script, "a b")
    assert done.stdout == f"{ROOT / '.venv'} ['a b']\n", done.stderr


IMPORTING = "import time\nprint('importing', flush=True)\ntime.sleep(60)\n"


@pytest.mark.parametrize("is_relative", [False, True])
def test_an_interrupt_during_the_imports_gives_one_line(is_relative: bool, tmp_path: Path) -> None:
    script = importing(tmp_path)
    if is_relative:
        script = Path(os.path.relpath(script, ROOT))
    assert interrupted([sys.executable, script]) == (130, "\nexample: interrupted\n")


def test_an_interrupt_of_a_child_process_prints_nothing(tmp_path: Path) -> None:
    script = str(importing(tmp_path))
    load = f"from multiprocessing import spawn; spawn.import_main_path({script!r})"
    assert interrupted([sys.executable, "-c", load]) == (-signal.SIGINT, "")


def importing(folder: Path) -> Path:
    script = folder / "example.py"
    path = f"import sys\nsys.path.insert(0, {str(ROOT / 'experiments')!r})\n"
    script.write_text(f"{path}import _venv\n{IMPORTING}")
    return script


def test_an_interrupt_during_the_imports_of_run_all_gives_one_line(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text(IMPORTING)  # replaces the module of this name
    command = ["env", f"PYTHONPATH={tmp_path}", sys.executable, "-m", "telemark.run_all"]
    assert interrupted(command) == (130, "\nrun_all.sh: interrupted\n")


def interrupted(command: list[object]) -> tuple[int, str]:
    """Interrupt a script during its imports. Return its exit status, and its error output."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


def test_without_setup_the_error_of_an_experiment_has_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    shutil.copy(ROOT / "experiments" / "_venv.py", tmp_path / "experiments")
    script = tmp_path / "experiments" / "example.py"
    script.write_text("import _venv\n")
    for python in ("/usr/bin/python3", sys.executable):
        done = run(python, script)
        assert done.returncode == 2
        assert done.stderr.startswith("example.py: error: ")
        assert f"run {tmp_path}/setup.sh first" in done.stderr
        assert done.stderr.count("\n") == 1


STAND_IN = r"""#!/bin/bash
# In place of Python, for setup.sh: notes what it is asked for, and installs two packages.
site=.venv/lib/python3/site-packages
echo "$*" >>asked
case "$*" in
-V) echo Python 3 ;;
"-m venv --clear .venv")
    rm -rf .venv
    mkdir -p .venv/bin $site
    cp "$0" .venv/bin/python
    ;;
"-m pip install"*) mkdir -p $site/finsy $site/finsy-1.dist-info && touch .venv/bin/tool ;;
*get_path*) echo $site ;;
esac
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Write setup.sh, which calls the stand-in for Python, into a checkout of one module."""
    python = tmp_path / "python"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "setup.py").touch()
    script = tmp_path / "setup.sh"
    script.write_text((ROOT / "setup.sh").read_text().replace("/usr/bin/python3", str(python)))
    script.chmod(0o755)
    (tmp_path / "package").mkdir()
    (tmp_path / "package/module.py").touch()
    (tmp_path / "telemark.egg-info").mkdir()
    return script


def test_with_sudo_caches_belong_to_the_user(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SUDO_UID", "SUDO_GID"):
        monkeypatch.setenv(name, "12345")
    done = run(script)
    assert done.returncode == 0, done.stderr
    for name in (".venv", "package/__pycache__"):
        found = (tmp_path / name).stat()
        assert (found.st_uid, found.st_gid) == (12345, 12345), name


def test_setup_replaces_missing_parts(tmp_path: Path, script: Path) -> None:
    def made_anew() -> bool:
        (tmp_path / "asked").write_text("")
        done = run(script)
        assert done.returncode == 0, done.stderr
        asked = (tmp_path / "asked").read_text().splitlines()
        assert len(asked) > 1 or asked == ["-V"]  # if nothing is missing, Python starts once
        return "-m venv --clear .venv" in asked

    assert made_anew()
    assert " -e .[store]\n" in (tmp_path / "asked").read_text()  # int_collector.py needs this extra
    assert not made_anew()
    for name in (
        "lib/python3/site-packages/finsy",
        "lib/python3/site-packages/mininet",
        "bin/tool",
    ):
        path = tmp_path / ".venv" / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        assert made_anew(), name
        assert not made_anew()
