"""Experiments on several threads: equal results, and additional output about the threads."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from loaded import StartExperiment
from virtual_networks import WIRE, Pair, virtually

from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic

DELAYS = {"delay_us": 100, "loss_probability": 0.05}


def crossed(folder: Path, threads: int, *options: str, **link: float) -> tuple[Any, ...]:
    """Return the records of a flow through a pair of switches, and the output of the run."""
    told: list[str] = []

    async def main(run: Run) -> tuple[Any, ...]:
        run.threads = threads
        run.progress.say = told.append  # type: ignore[method-assign]
        of_switches = dict.fromkeys(("s1", "s2"), options)
        with Network(Pair(**link), run, program=WIRE, switch_options=of_switches) as net:
            async with Traffic(net, [Flow(1, "h1", "h2", 10_000, 2000)]) as traffic:
                records = await traffic.finish()
            partitions = len(net.backend._virtual.partitions)
        captured = [path.read_bytes() for path in sorted(net.folder.glob("*.pcap"))]
        return records[1].received.tobytes(), net.counters, captured, partitions, told

    return virtually(folder, main)  # type: ignore[no-any-return]


def test_a_network_of_two_threads_is_that_of_one(tmp_path: Path) -> None:
    *one, _, _ = crossed(tmp_path / "1", 1, **DELAYS)
    *two, partitions, told = crossed(tmp_path / "2", 2, **DELAYS)
    assert two == one
    assert (partitions, told) == (2, [])


@pytest.mark.parametrize(
    ("options", "link", "why"),
    [
        ((), {}, "its links have no delay_us"),
        (("--cpu-port", "510"), DELAYS,
         "digests, CPU ports or applications connect all partitions"),
    ],
    ids=["no delay", "CPU ports"],
)  # fmt: skip
def test_a_network_that_cannot_be_cut_says_so(
    options: tuple[str, ...], link: dict[str, float], why: str, tmp_path: Path
) -> None:
    *_, partitions, told = crossed(tmp_path / "2", 2, *options, **link)
    assert (partitions, told) == (1, [f"network: used 1 of 2 threads: {why}"])


def test_a_trace_takes_one_thread(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        run.threads = 2
        options = {"s1": ["--trace", str(tmp_path / "trace")]}
        with Network(Pair(), run, program=WIRE, switch_options=options):
            await asyncio.sleep(0)

    with pytest.raises(
        TestbedError, match="--trace: not available with --threads; use --threads 1"
    ):
        virtually(tmp_path / "run", main)


HEAD = f"""
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import Line
WIRE = {str(WIRE)!r}
"""
ENDLESS = """
with Network(Line(switches=2, delay_us=100), run, program=WIRE, capture=False) as net:
    async with Traffic(net, [Flow(1, "h1", "h2", 1_000_000, 100_000_000)]) as traffic:
        await run.clock.sleep_until(run.clock.now_ns() + 10**7)
        print(run.folder, len(net.backend.partitions), flush=True)
        await traffic.finish()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_on_two_threads_ends_when_it_is_asked_to(
    start_experiment: StartExperiment, number: signal.Signals
) -> None:
    """A signal ends a run on two threads while both of them are working.

    After SIGKILL, the next run removes the folder of the killed run.
    """
    process = start_experiment(ENDLESS, "--time", "virtual", "--threads", "2", head=HEAD)
    line = ""
    while "example-" not in line:
        line = process.stdout.readline()
        assert line, process.communicate()
    folder, partitions = line.split()
    assert partitions == "2"
    process.send_signal(number)
    output, errors = process.communicate()
    status = {signal.SIGINT: 130, signal.SIGKILL: -9}[number]
    assert process.wait() == status, output + errors
    assert errors == ("" if number == signal.SIGKILL else "\nexample: interrupted\n")
    if number == signal.SIGKILL:
        assert Path(folder).exists()
        process = start_experiment("return Report([], [Check('one', 1, 1)])", "--time", "virtual")
        process.communicate()
    assert not Path(folder).exists()
