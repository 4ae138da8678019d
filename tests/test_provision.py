"""provision.sh and the Vagrantfile: what they install, what they omit, and their errors."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from telemark.backends.real.p4utils.environment import PLACES

ROOT = Path(__file__).parents[1]
DEBIAN = "debian 12"
UBUNTU = "ubuntu 24.04"

# These programs replace the installing programs, and record their arguments.
STAND_IN = """#!/bin/bash
echo "${0##*/} $*" >>ASKED
case "${0##*/} $*" in
"dpkg --print-architecture") echo amd64 ;;
"env "*) shift; exec "$@" ;;
"tee "*) cat >>ASKED ;;
BROKEN) printf 'said\\n  fatal: the reason\\nnote\\n' >&2; exit 1 ;;
"python3 -m venv "*) mkdir -p UTILS/bin && cp "$0" UTILS/bin/pip ;;
esac
"""
PROGRAMS = ("apt-get", "curl", "dpkg", "env", "git", "gpg", "python3", "sudo", "tee")


def provision(folder: Path, system: str, broken: str = "nothing") -> tuple[list[str], str]:
    """Run provision.sh as on the given system. Return the recorded commands, and the output.

    The command `broken` fails.
    """
    asked, utils = folder / "asked", folder / "p4utils"
    (folder / "bin").mkdir(exist_ok=True)
    for name in (*PROGRAMS, "setup.sh", "run_tests.sh"):
        script = folder / name if name.endswith(".sh") else folder / "bin" / name
        text = STAND_IN.replace("ASKED", str(asked)).replace("UTILS", str(utils))
        script.write_text(text.replace("BROKEN", broken))
        script.chmod(0o755)
    name, version = system.split()
    (folder / "os-release").write_text(f"ID={name}\nVERSION_ID={version}\n")
    text = (ROOT / "provision.sh").read_text()
    text = text.replace("/etc/os-release", str(folder / "os-release"))
    script = folder / "provision.sh"
    script.write_text(text.replace("P4UTILS=/opt/p4utils", f"P4UTILS={utils}"))
    path = f"{folder / 'bin'}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", script], capture_output=True, text=True, check=False, timeout=300,
        env={"PATH": path, "HOME": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("== ") == 5
    assert "Telemark is ready" in done.stdout
    return asked.read_text().splitlines(), done.stdout


def test_ubuntu_gets_everything(tmp_path: Path) -> None:
    asked, said = provision(tmp_path, UBUNTU)
    packages = "http://download.opensuse.org/repositories/home:/p4lang/xUbuntu_24.04/"
    assert any(line.startswith("deb [") and line.endswith(f" {packages} /") for line in asked)
    assert any(line.startswith("apt-get") and line.endswith(" p4lang-p4c") for line in asked)
    assert any(line.startswith("pip install") for line in asked)
    assert "left out" not in said


def test_debian_has_no_packages_of_bmv2_and_the_rest_stands(tmp_path: Path) -> None:
    asked, said = provision(tmp_path, DEBIAN)
    assert "left out: p4c and bmv2: p4lang has no packages for debian 12 amd64" in said
    assert not any("p4lang" in line for line in asked)
    assert any(line.startswith("pip install") for line in asked)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (
            '"curl "*',
            "left out: p4c and bmv2: could not download http://download.opensuse.org/repositories/home:/p4lang/",
        ),
        (
            '*"install -y curl gnupg"',
            "left out: p4c and bmv2: could not download http://download.opensuse.org/repositories/",
        ),
        ('"apt-get update"*', "left out: p4c and bmv2: could not install p4lang-p4c of http://"),
        ("*p4lang-p4c", "left out: p4c and bmv2: could not install p4lang-p4c of http://"),
        (
            "*python3-venv",
            "left out: p4-utils: could not install git+https://github.com/nsg-ethz/p4-utils@",
        ),
        (
            '"pip install"*',
            "left out: p4-utils: could not install git+https://github.com/nsg-ethz/p4-utils@",
        ),
    ],
)
def test_a_failed_installation_is_one_line_and_the_rest_continues(
    tmp_path: Path, broken: str, words: str
) -> None:
    _, said = provision(tmp_path, UBUNTU, broken)
    assert said.count("left out") == 1
    assert words in said
    assert ("fatal: the reason\nleft out" in said) == (broken != '"curl "*')
    assert "note" not in said
    # the folder of a failed installation is removed
    assert (tmp_path / "p4utils").exists() == ("p4-utils" not in words)


def test_installed_parts_are_not_installed_again(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "simple_switch_grpc").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "simple_switch_grpc").chmod(0o755)
    (tmp_path / "p4utils" / "bin").mkdir(parents=True)
    (tmp_path / "p4utils" / "bin" / "python").symlink_to("/bin/true")
    asked, _ = provision(tmp_path, UBUNTU)
    assert not any(line.startswith(("apt-get", "pip")) for line in asked)


def test_p4_utils_is_put_where_it_is_looked_for_and_is_one_commit() -> None:
    words = (ROOT / "provision.sh").read_text().split()
    assert f"P4UTILS={Path(PLACES[0]).parents[1]}" in words
    (source,) = [word for word in words if word.startswith("P4UTILS_SOURCE=")]
    assert len(bytes.fromhex(source.partition("p4-utils@")[2])) == 20


@pytest.mark.parametrize("command", [["ruby", "-c"], ["vagrant", "validate", "-p"]])
def test_the_vagrantfile_is_valid(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    file = ["Vagrantfile"] if command[0] == "ruby" else []
    done = subprocess.run(
        [*command, *file], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_vm_gets_the_project_without_generated_files(tmp_path: Path) -> None:
    """The VM gets the files of the project, but no generated files.

    The test calls rsync with the arguments that Vagrant uses. In rsync, a pattern without a leading
    slash matches at any depth.
    """
    if shutil.which("rsync") is None:
        pytest.skip("rsync is not installed")
    for made in (".venv/x", ".vm/x", "results/ampm_loss/x", "a.egg-info/x", ".vagrant/x"):
        (tmp_path / made).parent.mkdir(parents=True)
        (tmp_path / made).touch()
    wanted = ("Vagrantfile", "telemark/results/page/x", "results/reference/a/x", "tests/results/x")
    for kept in wanted:
        (tmp_path / kept).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / kept).touch()
    text = (ROOT / "Vagrantfile").read_text()
    lists = {
        name: re.findall(r'"([^"]*)"', words)
        for name, words in re.findall(r"rsync__(\w+): \[(.*)\]", text)
    }
    assert set(lists) == {"args", "exclude"}
    excludes = [f"--exclude={pattern}" for pattern in lists["exclude"]]
    there = tmp_path / "there"
    subprocess.run(["rsync", *lists["args"], *excludes, "--exclude=/there", f"{tmp_path}/", there],
                   check=True)  # fmt: skip
    copied = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}
    assert copied == set(wanted)
