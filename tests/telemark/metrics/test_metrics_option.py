"""--metrics: a run in real time serves metrics outside of its namespaces."""

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loaded import Started

from telemark.backends.real.isolation import can_isolate

SCRIPT = """'''An example.'''
import asyncio
import subprocess
import sys
from pathlib import Path
from telemark.metrics.prometheus import counter
from telemark.results.report import Check, Report
from telemark.session import cli

OTHER = '''
import sys
from pathlib import Path
from telemark.metrics.folder import MetricsFolder
from telemark.metrics.prometheus import counter
MetricsFolder(Path(sys.argv[1])).publish("b", [counter("b", "B.", ["x"], [("y", 2)])])
'''

async def experiment(options, run):
    run.metrics.publish("a", [counter("a", "A.", [], [((), 1)])])
    run.metrics.publish("a", [counter("a", "A.", [], [((), 3)])])
    subprocess.run([sys.executable, "-c", OTHER, run.metrics.path], check=True)
    print("published", flush=True)
    while not Path("scraped").exists():
        await asyncio.sleep(0.01)
    return Report([{"x": 1}], [Check("x", 1, 1)])

if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, cli.add_metrics_option)
"""


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[Started]:
    script = folder / "example.py"
    script.write_text(SCRIPT)
    process = Started(script, "--out", str(folder / "out"), *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(not can_isolate(), reason="needs root: run sudo ./run_tests.sh")
def test_metrics_of_all_processes_of_a_run_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with started(tmp_path, "--metrics", "0") as process:
        address = process.stdout.readline().removeprefix("Metrics: ").strip()
        while process.stdout.readline() != "published\n":
            assert process.poll() is None
        with urllib.request.urlopen(address, timeout=60) as response:
            lines = response.read().decode().splitlines()
        assert [line for line in lines if line[0] != "#"] == ["a_total 3.0", 'b_total{x="y"} 2.0']
        (tmp_path / "scraped").touch()
        assert process.communicate()[1] == ""
        assert process.returncode == 0
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(address, timeout=60)


@pytest.mark.skipif(not can_isolate(), reason="needs root: run sudo ./run_tests.sh")
def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with started(tmp_path, "--metrics", str(port)) as process:
            errors = process.communicate()[1]
    assert process.returncode == 2
    assert errors == (f"example: error: TCP port {port} at 127.0.0.1 for Prometheus: Address "
                      "already in use\n")  # fmt: skip


def test_virtual_time_is_refused_in_one_line(tmp_path: Path) -> None:
    with started(tmp_path, "--metrics", "0", "--time", "virtual") as process:
        errors = process.communicate()[1]
    assert process.returncode == 2
    assert errors == "example: error: --metrics: no effect in virtual time; use --time real\n"
