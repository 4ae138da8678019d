"""Transactions under a flood: verdicts use ratios of values of the same round.

Disturbed rounds are rejected.
"""

import os
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from scripts import module

from ebpf.loader import load, run
from experiments.shared.xdp import emulated_nic, flooded_server, transactions
from experiments.shared.xdp.flooded_server import (
    FILTERED,
    SERVERS,
    UNFILTERED,
    UNREAD,
    FloodedServer,
    FloodResult,
    Plan,
)
from experiments.shared.xdp.frames import flows
from telemark.errors import TestbedError
from telemark.results.report import Report

experiment = module("xdp_ddos")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
FLOODS_PPS = (0, 1000, 2000, 4000)
DROPPED, PASSED, REDIRECTED, UNDECIDED = 1, 2, 7, 2**32 - 1  # verdicts of XDP and of tc
PLAN = Plan(FLOODS_PPS, 0.1, 3, [0, 1])
KEPT = {UNFILTERED: (1, 0.5, 0.04, 0), FILTERED: (1, 1, 0.9, 0.85),
        UNREAD: (1, 1, 1, 1)}  # fmt: skip


def made(**changed: tuple[float, ...]) -> list[FloodResult]:
    """Return rounds of a machine that is sometimes faster and sometimes slower."""
    return [
        FloodResult(number, server, pps, 9000 * noise * kept, pps, pps // 10, 0, dropped, seen)
        for number, noise in enumerate((1, 1.5, 0.5), start=1)
        for server, parts in {**KEPT, **changed}.items()
        for pps, kept in zip(FLOODS_PPS, parts, strict=True)
        for dropped, seen in [(0, pps) if server == UNFILTERED else (pps, 0)]
    ]


def report(measured: list[FloodResult]) -> Report:
    found = experiment.report(measured, PLAN)
    assert isinstance(found, Report)
    return found


@pytest.mark.parametrize(("kept", "passed"), [(0.81, True), (0.79, False), (1.2, True)])
def test_the_check_uses_twice_the_flood_that_stops_the_unfiltered_host(
    kept: float, passed: bool
) -> None:
    found = report(made(**{FILTERED: (1, 1, 0.2, kept)}))
    assert found.metrics["stopping_flood_packets_per_s"] == {
        UNFILTERED: 2000, FILTERED: None, UNREAD: None
    }  # fmt: skip
    assert found.metrics["kept_at_twice_stopping_flood"] == {
        UNFILTERED: 0, FILTERED: pytest.approx(kept), UNREAD: 1
    }  # fmt: skip
    assert found.checks[0].measured == pytest.approx(min(kept, 1))
    assert [check.passed for check in found.checks] == [passed, True]


def test_the_host_behind_the_filter_sees_nothing_of_the_flood() -> None:
    *others, last = sorted(made(), key=lambda each: each.server == FILTERED)
    leaking = last._replace(dropped_at_xdp=last.dropped_at_xdp - 1, seen_by_host=1)
    assert [check.passed for check in report([*others, leaking]).checks] == [True, False]


@pytest.mark.parametrize("parts", [(1, 1, 1, 0), (1, 1, 1, 1)])
def test_where_no_such_flood_is_found_the_run_is_invalid(parts: tuple[float, ...]) -> None:
    with pytest.raises(TestbedError, match=r"^run invalid: no flood of up to 2,000 .*; reduce"):
        report(made(**{UNFILTERED: parts}))


@pytest.mark.parametrize("more", [1, -1])
def test_books_must_balance(more: int) -> None:
    *others, last = made()
    with pytest.raises(TestbedError, match=r"^run invalid: .*; reduce the load on the machine$"):
        report([*others, last._replace(arrived=last.arrived + more)])


def test_where_rounds_differ_the_run_is_invalid() -> None:
    measured = [
        each._replace(transactions_per_s=each.transactions_per_s * (0.7 if each.round < 3 else 1))
        if (each.server, each.offered_pps) == (FILTERED, 4000) else each
        for each in made()
    ]  # fmt: skip
    with pytest.raises(TestbedError, match=r"^run invalid: rounds differ: .* 60% to 85% of its "):
        report(measured)


@needs_root
def test_a_full_ring_drops_frames_of_the_flood_and_other_frames() -> None:
    ring, second_ns, second_ps = 10, 10**9, 10**12
    with load(emulated_nic.SOURCE, {"ring": ring}) as whole:
        state = whole.maps[".bss"].mapped()[0]
        state["interval_ps"] = state["due_ps"] = 10 * second_ps
        state["length_ns"] = 2000 * second_ns
        state["began_ns"] = (time.monotonic_ns() - 1005 * second_ns) % 2**64
        found = []
        for name in ("is_sent", "arrives", "is_sent"):  # 99 more frames are due, then 10
            verdict = run(whole.programs[name], flows(1)).verdict
            found.append((verdict, *(int(state[each]) for each in emulated_nic.Flood._fields)))
        assert found == [(REDIRECTED, 0, 0, 1), (PASSED, 1, 89, 1), (UNDECIDED, 1, 89, 1)]
        state["due_ps"] = 1006 * second_ps
        assert run(whole.programs["arrives"], flows(1)).verdict == DROPPED, "not due"
        state["due_ps"], state["length_ns"] = 10 * second_ps, second_ns
        assert run(whole.programs["arrives"], flows(1)).verdict == DROPPED, "it has ended"
        assert run(whole.programs["is_sent"], flows(1)).verdict == UNDECIDED, "so none waits"
        assert (state["arrived"], state["has_ended"]) == (1, 1)


@pytest.mark.parametrize(("core", "mask"), [(1, "2"), (31, "80000000"), (32, "1,00000000")])
def test_one_core_receives(core: int, mask: str) -> None:
    """One core receives the packets: its number becomes a mask in the kernel's format.

    A mask is a list of 32-bit words, as the kernel's cpumask_parse() reads it.
    """
    said: list[str] = []
    flooded_server._receive_on(core, SimpleNamespace(run=said.append))
    assert f"echo {mask} > /sys/class/net/{flooded_server.SERVER}/queues/rx-0/rps_cpus'" in said[0]


@needs_root
@pytest.mark.parametrize("server", SERVERS)
def test_each_frame_of_a_flood_is_in_one_book(server: str) -> None:
    """Each frame of a flood is counted as arrived or as lost, and only once.

    This also holds on a loaded machine. Without a flood, some transactions are completed.
    """
    cores = sorted(os.sched_getaffinity(0))
    plan = Plan((0, 50_000), 0.05, 1, [cores[0], cores[-1]])
    with flooded_server.ExitStack() as stack:
        ready = FloodedServer(stack, plan.cores, server)
        # a thread, because its priority and namespace change
        with flooded_server.ThreadPoolExecutor(1) as thread:
            for _ in range(5):  # repeat, because a loaded machine may stall for a whole measurement
                alone, flooded = thread.submit(
                    flooded_server.measure_server, plan, 1, server, ready
                ).result()
                if alone.transactions_per_s and flooded.arrived:
                    break
        mask = ready.veth.run(f"""unshare --mount sh -ec 'mount -t sysfs sysfs /sys
            cat /sys/class/net/{flooded_server.SERVER}/queues/rx-0/rps_cpus'""")
    assert int(mask.replace(",", ""), 16) == 1 << cores[-1]
    assert (alone.arrived, alone.transactions_per_s > 0) == (0, True)
    offered = 50_000 * (0.05 + 2 * flooded_server.EARLY_S)
    assert flooded.arrived + flooded.lost_at_nic == pytest.approx(
        offered, abs=1 + emulated_nic.RING
    )
    assert flooded.missing == 0
    assert (flooded.dropped_at_xdp > 0, flooded.seen_by_host > 0) == (
        (False, True) if server == UNFILTERED else (True, False)
    )


def test_without_real_time_priority_the_error_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refused)
    with pytest.raises(
        TestbedError, match=r"^cannot set real-time priority \(Operation .* --privileged$"
    ):
        flooded_server.set_realtime_priority(0, 1)


def test_a_server_sleeps_where_its_connection_has_ended() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(b"?")
        assert transactions._answer(theirs)
        assert ours.recv(1) == b"?"
        ours.shutdown(socket.SHUT_WR)
        assert not transactions._answer(theirs), "it asks no more"
        ours.close()
        assert not transactions._answer(theirs), "nor takes an answer"


def test_an_end_without_another_ends_in_a_line() -> None:
    command = [sys.executable, transactions.__file__, "ask", "127.0.0.9", "0"]
    done = subprocess.run(command, input="\nconnect\n", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "ask: [Errno 111] Connection refused\n")
