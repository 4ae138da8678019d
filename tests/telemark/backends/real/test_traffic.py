"""The sender follows its schedule and never sends bursts.

The receiver records the actual arrivals.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from minip4.native.build import ToolchainError
from minip4.native.layouts import Shared
from telemark.backends.real import flow_processes
from telemark.backends.real.flow_processes import build_program
from telemark.backends.real.traffic import RATE_NOT_KEPT
from telemark.errors import TestbedError
from telemark.traffic.flows import RECEIVED, SENT, Flow
from telemark.watch import flow_counts

ADDRESS, PORT, SOURCE_PORT = "127.0.0.1", 5001, 49153


def exchange(
    folder: Path, *, rate_pps: float, count: int, payload: int = 22, tos: int = 0,
    received_flow: int = 1, received_tos: int | None = None, meanwhile: str = "",
    max_lag_ns: int = 10**10, due: str = "-", counts: int = -1,
) -> tuple[int, dict[str, int], dict[str, int]]:  # fmt: skip
    """Send one flow over the loopback of a network namespace.

    Return the sender's status and the totals of both ends. The flow starts at the time in the file
    "start", a tenth of a second after the receiver is ready. `meanwhile` is a shell command that
    runs in parallel with the sender. In this command, $sender is the PID of the sender.
    """
    received_tos = tos if received_tos is None else received_tos
    send, receive = build_program("send"), build_program("receive")
    script = f"""
ip link set lo up
{receive} {PORT} {received_flow} {payload} {received_tos} {folder}/received {counts} 3 \
    >{folder}/r.json &
until grep -q ready {folder}/r.json; do :; done
{sys.executable} -S -c 'import time; print(time.monotonic_ns() + 100_000_000)' >{folder}/start
{send} {ADDRESS} {PORT} {SOURCE_PORT} 1 {rate_pps} {count} {payload} {tos} 64 32 \
    {max_lag_ns} {folder}/sent {due} {counts} 2 <{folder}/start >{folder}/s.json &
sender=$!
{meanwhile}
wait $sender
status=$?
kill -TERM %1
wait %1
exit $status
"""
    command = ["unshare", "--net", "bash", "-c", script]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300,
        pass_fds=() if counts < 0 else (counts,),
    )  # fmt: skip
    assert done.returncode in (0, RATE_NOT_KEPT), done.stderr
    sent, received = (
        json.loads((folder / name).read_text().removeprefix("ready\n"))
        for name in ("s.json", "r.json")
    )
    return done.returncode, sent, received


def test_every_datagram_is_recorded_at_both_ends(tmp_path: Path) -> None:
    status, sent, received = exchange(tmp_path, rate_pps=20_000, count=5000, tos=40)
    assert status == 0
    assert sent["sent"] == 5000
    assert received == {"received": 5000, "foreign": 0, "dscp_changed": 0, "kernel_drops": 0}
    records = np.fromfile(tmp_path / "sent", SENT), np.fromfile(tmp_path / "received", RECEIVED)
    for record in records:
        assert np.array_equal(record["sequence"], np.arange(5000))
    assert np.array_equal(records[0]["sent_ns"], records[1]["sent_ns"])
    delay_ns = records[1]["received_ns"].astype(np.int64) - records[1]["sent_ns"].astype(np.int64)
    assert delay_ns.min() > -5000  # the two clocks are read sequentially
    assert np.median(delay_ns) < 5_000_000


@pytest.fixture
def counts() -> Iterator[int]:
    """Memory in which the first three flows have sent 8 packets and received 7."""
    with flow_counts.create() as file:
        os.pwrite(file.fileno(), flow_counts.PAIR.pack(8, 7) * 3, 0)
        yield file.fileno()


def test_counts_are_in_shared_memory(counts: int, tmp_path: Path) -> None:
    exchange(tmp_path, rate_pps=20_000, count=500, counts=counts)
    reader = flow_counts.FlowCountReader(counts)
    assert [reader.read(flow) for flow in range(3)] == [(8, 7), (500, 500), (8, 7)]


def test_a_program_removes_the_count_of_an_earlier_flow(counts: int, tmp_path: Path) -> None:
    command = ["unshare", "--net", build_program("receive"), PORT, 1, 22, 0, tmp_path / "received",
               counts, 2 * 1 + flow_counts.RECEIVED]  # fmt: skip
    with subprocess.Popen(
        [*map(str, command)], stdout=subprocess.PIPE, pass_fds=[counts]
    ) as receiver:
        assert receiver.stdout is not None
        receiver.stdout.readline()  # it is ready
        found = flow_counts.FlowCountReader(counts).read(1)
        receiver.terminate()
    assert found == (8, 0)


def test_the_schedule_is_kept(tmp_path: Path) -> None:
    medians_ns = []
    for _ in range(5):  # a loaded machine may delay some datagrams; the sender reports these
        _status, sent, _received = exchange(tmp_path, rate_pps=2000, count=1000)
        times = np.fromfile(tmp_path / "sent", SENT)["sent_ns"].astype(np.int64)
        late_ns = times - int((tmp_path / "start").read_text()) - np.arange(1000) * 500_000
        assert late_ns.min() >= 0
        assert late_ns.max() <= sent["largest_lag_ns"]
        medians_ns.append(np.median(late_ns))
        if medians_ns[-1] < 20_000_000:
            return
    raise AssertionError(f"median lags of {medians_ns} ns")


def test_a_sender_that_fell_behind_does_not_flood(tmp_path: Path) -> None:
    # The sender is stopped for a fifth of its two seconds, so it is 800 datagrams late. It may
    # catch up at twice the rate, in batches of 32.
    pause = "sleep 0.3; kill -STOP $sender; sleep 0.2; kill -CONT $sender"
    status, sent, _received = exchange(tmp_path, rate_pps=4000, count=8000, meanwhile=pause)
    assert status == 0
    assert sent["sent"] == 8000
    assert sent["largest_lag_ns"] > 150_000_000
    times = np.fromfile(tmp_path / "sent", SENT)["sent_ns"].astype(np.int64)
    in_ten_ms = np.searchsorted(times, times + 10_000_000) - np.arange(len(times))
    assert in_ten_ms.max() <= 2 * 40 + 32 + 1


def test_a_rate_that_cannot_be_kept_is_given_up(tmp_path: Path) -> None:
    status, sent, _received = exchange(
        tmp_path, rate_pps=50_000_000, count=10**9, max_lag_ns=200_000_000
    )
    assert status == RATE_NOT_KEPT
    assert 0 < sent["sent"] < 10**8
    assert sent["last_lag_ns"] > 200_000_000


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"received_flow": 2}, "foreign"), ({"tos": 8, "received_tos": 12}, "dscp_changed")],
)
def test_what_is_odd_is_counted(arguments: dict[str, int], field: str, tmp_path: Path) -> None:
    _status, _sent, received = exchange(tmp_path, rate_pps=10_000, count=100, **arguments)  # type: ignore[arg-type]
    assert received[field] == 100


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": 59}, "size 59: expected 60 to 9216"),
        ({"size": 9217}, "size 9217"),
        ({"id": 65536}, "id 65536"),
        ({"rate_pps": 0}, "rate_pps 0"),
        ({"count": 0}, "count 0"),
        ({"dscp": 64}, "dscp 64"),
        ({"port": 70000}, "port 70000"),
        ({"source_port": -1}, "source_port -1: expected 1 to 65535"),
    ],
)
def test_flows_that_cannot_be_sent_are_refused(change: dict[str, int], words: str) -> None:
    values = {"id": 1, "source": "h1", "destination": "h2", "rate_pps": 1000, "count": 10}
    with pytest.raises(TestbedError, match=words):
        Flow(**(values | change))  # type: ignore[arg-type]


def test_a_schedule_of_its_own_is_kept(tmp_path: Path) -> None:
    due_ns = np.array([0, 0, 20_000_000, 20_500_000, 100_000_000], np.uint64)
    due_ns.tofile(tmp_path / "due")
    status, sent, _ = exchange(tmp_path, rate_pps=1000, count=5, due=str(tmp_path / "due"))
    assert status == 0
    assert sent["sent"] == 5
    sent_ns = np.fromfile(tmp_path / "sent", SENT)["sent_ns"]
    late_ns = (sent_ns - sent_ns[0]).astype(np.int64) - due_ns.astype(np.int64)
    assert late_ns.min() > -sent["largest_lag_ns"] - 1


def test_datagrams_close_together_are_not_drawn_apart(tmp_path: Path) -> None:
    """The sender does not enlarge gaps that are much shorter than the mean gap.

    Poisson traffic has such gaps. An earlier version of the sender enlarged each gap to half the
    mean gap, so its rate was too low.
    """
    due_ns = np.array([0, 5_000_000, 100_000_000, 101_000_000], np.uint64)
    due_ns.tofile(tmp_path / "due")
    lasted_ns = []
    for _ in range(5):  # a loaded machine may delay some datagrams
        exchange(tmp_path, rate_pps=1, count=4, due=str(tmp_path / "due"))
        sent_ns = np.fromfile(tmp_path / "sent", SENT)["sent_ns"]
        lasted_ns.append(int(sent_ns[3] - sent_ns[0]))
        if lasted_ns[-1] < 400_000_000:
            return
    raise AssertionError(f"of 0.1 s they made {lasted_ns} ns")


def test_programs_whose_records_lie_otherwise_are_not_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = Shared("records.h", "struct flow_sent", RECEIVED)
    monkeypatch.setattr(flow_processes, "RECORDS", [other])
    with pytest.raises(ToolchainError, match=r"flow_sent.* has no member named .received_ns"):
        build_program("send")
