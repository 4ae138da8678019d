"""The distributions minip4 and telemark: built, checked, and installed from their wheels.

These tests need a package index. They build from a copy of the tracked files, which is tagged like
a release.
"""

import doctest
import email
import os
import re
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "distributions" / "minip4" / "README.md"
VERSION = "9.8.7"
WHEELS = {name: f"{name}-{VERSION}-py3-none-any.whl" for name in ("minip4", "telemark")}
LIBRARY = ("telemark", "topologies", "controllers", "collectors", "importers", "ebpf", "p4src")
PTF = ("ptf>=0.12,<0.13", "scapy>=2.5,<2.9")  # as in the README
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BUILD_REQUIREMENTS = re.findall(r'"([^"]+)"', re.findall(
    r"^requires = (.*)$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0])  # fmt: skip
NAMESPACES = ("unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")
NO_INDEX = (
    "Temporary failure in name resolution",
    "NewConnectionError",
    "Could not find a version",
)


def tracked(*folders: str) -> set[str]:
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files", *folders]
    return {*subprocess.run(git, capture_output=True, text=True, check=True).stdout.split()}


def install(environment: Path, *arguments: str | Path) -> None:
    """Install packages into a new or existing virtual environment; skip without an index."""
    if not environment.exists():
        venv.create(environment, with_pip=True)
    pip = [environment / "bin/python", "-m", "pip", "install", "-q", *arguments]
    done = subprocess.run(pip, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode and any(sign in done.stderr for sign in NO_INDEX):
        pytest.skip("no package index")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual environment with everything that a build needs."""
    folder = tmp_path_factory.mktemp("tools") / "venv"
    install(folder, "build", "twine", *BUILD_REQUIREMENTS)
    return folder


@pytest.fixture(scope="module")
def wheels(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the wheels and source distributions of Telemark and minip4."""
    copy = tmp_path_factory.mktemp("copy")
    files = sorted(tracked(*LIBRARY, "minip4", "distributions", "*.*", "LICENSE"))
    for file in files:
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        if not file.startswith(("tests/", "results/", "docs/", "experiments/", "benchmarks/")):
            # symbolic links stay links
            subprocess.run(["cp", "-P", ROOT / file, copy / file], check=True)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@localhost"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", f"v{VERSION}"]):
        subprocess.run([*git, *command], cwd=copy, check=True)
    for project in (copy / "distributions/minip4", copy):
        build = [
            tools / "bin/python",
            "-m",
            "build",
            "--no-isolation",
            "-o",
            copy / "dist",
            project,
        ]
        subprocess.run(build, check=True, capture_output=True, cwd=copy)
    check = [tools / "bin/twine", "check", "--strict", *(copy / "dist").iterdir()]
    done = subprocess.run(check, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return copy / "dist"


@pytest.fixture(scope="module")
def environment(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clean virtual environment with minip4 and PTF."""
    folder = tmp_path_factory.mktemp("minip4") / "venv"
    install(folder, wheels / WHEELS["minip4"])
    install(folder, "--no-deps", *PTF)
    return folder


def test_wheels_have_the_version_of_the_tag(wheels: Path) -> None:
    assert {path.name for path in wheels.iterdir()} == {
        *WHEELS.values(), *(f"{name}-{VERSION}.tar.gz" for name in WHEELS)
    }  # fmt: skip


def test_telemark_requires_minip4_of_the_same_version(wheels: Path) -> None:
    with zipfile.ZipFile(wheels / WHEELS["telemark"]) as wheel:
        metadata = email.message_from_bytes(
            wheel.read(f"telemark-{VERSION}.dist-info/METADATA")
        )  # fmt: skip
    assert f"minip4=={VERSION}" in metadata.get_all("Requires-Dist", [])


@pytest.mark.parametrize(("name", "folders"), [("minip4", ("minip4",)), ("telemark", LIBRARY)])
def test_wheel_has_all_files_and_no_others(
    wheels: Path, name: str, folders: tuple[str, ...]
) -> None:
    with zipfile.ZipFile(wheels / WHEELS[name]) as wheel:
        found = {file for file in wheel.namelist() if ".dist-info/" not in file}
    assert {file for file in found if ".data/" not in file} == tracked(*folders)


def test_readme_of_minip4(environment: Path, tmp_path: Path) -> None:
    """Create the files of the README, run its commands away from the checkout, compare output.

    The last command is a PTF test of a running switch.
    """
    commands: list[list[str]] = []
    for language, name, text in BLOCK.findall(README.read_text()):
        if name:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        elif language == "sh":
            for line in text.splitlines(keepends=True):
                if line.startswith("$ "):
                    commands.append([line[2:], ""])
                else:
                    commands[-1][1] += line
    mark = "next command of the README"
    script = "".join(f"{command}echo '{mark}'\n" for command, _ in commands)
    variables = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [*NAMESPACES, "bash"], input=script, cwd=tmp_path, timeout=300, check=False,
        env={**variables, "PATH": f"{environment}/bin:{os.environ['PATH']}"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    printed = run.stdout.split(mark + "\n")
    assert len(printed) == len(commands) + 1, run.stdout
    check = doctest.OutputChecker().check_output
    for (command, expected), got in zip(commands, printed, strict=False):
        assert check(expected, got, doctest.ELLIPSIS), f"$ {command}{got}"


def python(environment: Path, code: str, folder: Path) -> str:
    """Run code in an environment, away from the checkout. Return its output."""
    variables = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [environment / "bin/python", "-c", code], cwd=folder, env=variables, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_minip4_needs_neither_telemark_nor_numpy(environment: Path, tmp_path: Path) -> None:
    code = """
import importlib.util, pkgutil, importlib, minip4
for module in pkgutil.walk_packages(minip4.__path__, "minip4."):
    if not module.name.startswith(("minip4.simulator", "minip4.runtime.virtual")):
        importlib.import_module(module.name)
print(importlib.util.find_spec("telemark"), importlib.util.find_spec("numpy"))
print(importlib.util.find_spec("minip4").origin)
"""
    missing, origin = python(environment, code, tmp_path).splitlines()
    assert missing == "None None"
    assert origin.startswith(str(environment))


def test_telemark_runs_in_virtual_time(wheels: Path, tmp_path: Path) -> None:
    """Run the script of the tutorial with telemark from its wheel."""
    environment = tmp_path / "venv"
    install(environment, wheels / WHEELS["telemark"], "--find-links", wheels)
    site = python(environment, "import sysconfig; print(sysconfig.get_path('purelib'))", tmp_path)
    Path(site.strip(), "mininet").symlink_to("/usr/lib/python3/dist-packages/mininet")
    text = (ROOT / "docs" / "tutorials" / "own-program.md").read_text()
    scripts = tmp_path / "experiments"
    scripts.mkdir()
    for _, name, block in BLOCK.findall(text):
        if name:
            lines = [line for line in block.splitlines() if not line.startswith("import _venv")]
            (scripts / name).write_text("\n".join(lines) + "\n")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [environment / "bin/python", "experiments/mine.py", "--time", "virtual"], cwd=tmp_path,
        env=variables, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "results" / "mine" / "summary.json").exists()


def test_editable_install_contains_minip4(tools: Path, wheels: Path, tmp_path: Path) -> None:
    """`pip install -e .` works as in setup.sh, also in a checkout of another user."""
    copy = wheels.parent
    subprocess.run(["chown", "-R", "1000:1000", copy], check=True)
    install(tools, "--no-deps", "--no-build-isolation", "-e", copy)
    code = "import minip4, telemark; print(minip4.__file__); print(telemark.__file__)"
    for path in python(tools, code, tmp_path).splitlines():
        assert path.startswith(f"{copy}/")
    assert (tools / "bin" / "minip4").exists()


def test_wheel_has_no_file_of_an_earlier_build(tools: Path, wheels: Path, tmp_path: Path) -> None:
    project = wheels.parent / "distributions" / "minip4"
    deleted = project / "build" / "lib" / "minip4" / "engine" / "c" / "deleted.c"
    deleted.parent.mkdir(parents=True)
    deleted.touch()
    pip = [tools / "bin/python", "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", tmp_path, project], check=True)
    with zipfile.ZipFile(tmp_path / WHEELS["minip4"]) as wheel:
        assert "minip4/engine/c/deleted.c" not in wheel.namelist()
