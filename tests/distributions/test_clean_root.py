"""minip4 in a system with Python only: pip install, programs of p4lang/tutorials, STF and PTF.

The test needs two folders, and a package index:

    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm ROOT
    git clone https://github.com/p4lang/tutorials TUTORIALS
    CLEAN_ROOT=ROOT TUTORIALS=TUTORIALS ./run_tests.sh tests/distributions/test_clean_root.py
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MINIP4 = HERE.parents[1] / "distributions" / "minip4"
ROOT, TUTORIALS = (Path(os.environ.get(name, "")) for name in ("CLEAN_ROOT", "TUTORIALS"))
BLOCK = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INTERFACES = """
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
ip link set lo up
for i in 1 2; do
    ip link add h$i type veth peer name s1-eth$i
    ip link set h$i up
    ip link set s1-eth$i up
done
"""

pytestmark = pytest.mark.skipif(
    "CLEAN_ROOT" not in os.environ or "TUTORIALS" not in os.environ,
    reason="CLEAN_ROOT or TUTORIALS is not set",
)


@pytest.fixture
def folder() -> Path:
    """Return a folder in the clean system, with everything that the script needs."""
    folder = ROOT / "root" / "minip4-test"
    for old in (folder, ROOT / "root" / ".cache"):  # of pip and minip4
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(TUTORIALS / "exercises", folder / "tutorials" / "exercises")
    for script in (HERE / "clean_root.sh", *(HERE / "tutorials").iterdir()):
        shutil.copy(script, folder)
    for name, text in BLOCK.findall((MINIP4 / "README.md").read_text()):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for file in ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt"):
        if Path(file).exists():
            shutil.copy(file, ROOT / file[1:])
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, MINIP4]
    subprocess.run(build, check=True)
    return folder


def run(folder: Path, step: str, before: str = "", *namespaces: str) -> str:
    """Run a step of the script in the clean system. Return its output."""
    mounts = f"mount -t proc proc {ROOT}/proc\nmount --bind /dev {ROOT}/dev\n"
    script = f"/{folder.relative_to(ROOT)}/clean_root.sh"
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", *namespaces, "bash", "-c",
         f"set -e\n{mounts}{before}exec chroot {ROOT} {script} {step}"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_clean_system(folder: Path) -> None:
    is_idle = os.getloadavg()[0] < (os.cpu_count() or 1)
    output = run(folder, "install")
    assert output.count("1 of 1 scripts passed") == 4
    if is_idle:
        assert int(re.findall(r"first packet: (\d+) ms", output)[0]) < 60_000
    switched = run(folder, "run", INTERFACES, "--net")
    assert "OK\n" in switched
    assert "0x020000000003 -> MyIngress.forward(port=0x2)" in switched
