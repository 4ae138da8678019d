"""Several threads give exactly the same results as one thread, for any partitions."""

import os
from ctypes import c_bool, c_double, c_uint64, create_string_buffer
from pathlib import Path

import pytest
from lines import Line, wire
from meshes import LASTS_NS, PORT, START_NS, Mesh, address, mac

from minip4.engine.errors import InvalidArgument
from minip4.runtime.switch.options import LinkOptions
from minip4.runtime.switch.port_settings import set_link
from minip4.simulator.shared import MAX_THREADS, Stop
from minip4.simulator.virtual import FlowSpec, Partition, Virtual, _loaded


def outcome(mesh: Mesh) -> tuple[dict[str, str], list[Partition]]:
    *_, partitions = mesh.run()
    assert mesh.threads == 1 or mesh.virtual.events_at_once > mesh.virtual.events / 10
    return mesh.digest(), partitions


@pytest.mark.parametrize("is_stopped", [True, False], ids=["with controllers", "undisturbed"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_results_do_not_depend_on_threads(seed: int, is_stopped: bool, tmp_path: Path) -> None:
    def folder(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    expected, _ = outcome(Mesh(seed, is_stopped=is_stopped, captures=folder("1")))
    for threads, placing in ((2, None), (4, None), (3, 7)):
        name = f"{threads}-{placing}"
        mesh = Mesh(seed, threads, placing, is_stopped, folder(name))
        found, partitions = outcome(mesh)
        assert found == expected, name
        assert len(partitions) > 1, name
        assert any(partition.sent for partition in partitions)


def test_results_do_not_depend_on_cores() -> None:
    """Two threads that share one core give the same results as one thread.

    The threads wait for each other, so that their parallel runs end early.
    """
    expected, _ = outcome(Mesh(1, is_stopped=False))
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        mesh = Mesh(1, 2, is_stopped=False, is_parallel=False)
        for _ in mesh.run():
            pass
    finally:
        os.sched_setaffinity(0, cores)
    assert mesh.digest() == expected


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_applications_get_simultaneous_frames_in_sending_order(threads: int) -> None:
    """Frames that arrive at the same time in different partitions are reported in sending order.

    The hosts were in different partitions before they had inboxes.
    """
    senders = [7, 2, 9, 0, 5]
    mesh = Mesh(3, threads, placing=1, is_stopped=False)
    next(mesh.run())
    for host in senders:  # each of these hosts sends to itself, over its router
        to = (mac(host), address(host), PORT)
        mesh.virtual.inboxes.send_datagram(mesh.hosts[host], PORT, to, b"x")
    hosts = {mesh.virtual.inboxes.open_udp(mesh.hosts[host], PORT): host for host in range(10)}
    sent_ns = mesh.virtual.now_ns
    assert mesh.virtual.run(START_NS + LASTS_NS) is Stop.INBOX
    assert [hosts[inbox] for inbox in mesh.virtual.inboxes.filled()] == senders
    assert mesh.virtual.now_ns == sent_ns
    mesh.virtual.close()


def test_a_link_that_becomes_shorter_holds_its_partition_back() -> None:
    """When the delay of a link between partitions shrinks, its frames still arrive in time.

    With the longer delay, each partition could run further ahead of the other one.
    """

    def received(threads: int) -> bytes:
        delay = {"delay_us": 100}
        line = Line(delay, delay, {}, back=delay, threads=threads)
        flow = line.flow(20_000, 1e6)
        line.run(0.01)
        line.change(0, 2, delay_us=3)
        line.change(1, 2, delay_us=4)
        line.run(0.03)
        lookaheads = {partition.lookahead_ns for partition in line.virtual.partitions}
        assert threads == 1 or lookaheads in ({100_000, 3000}, {100_000, 4000})
        result = line.virtual.flow_result(flow).received.tobytes()
        line.virtual.close()
        return result

    assert received(2) == received(1)


@pytest.mark.parametrize("threads", [0, -1, MAX_THREADS + 1])
def test_so_many_threads_are_refused(threads: int) -> None:
    with pytest.raises(InvalidArgument, match=f"{threads} threads; expected 1 to {MAX_THREADS}"):
        Virtual(0, threads=threads)


def test_a_network_without_delay_is_not_cut() -> None:
    line = Line({}, {"rate_bps": 10**9}, {}, threads=2)
    flow = line.flow(1000)
    line.run()
    assert [partition.nodes for partition in line.virtual.partitions] == [5]
    assert len(line.virtual.flow_result(flow).received) == 1000
    line.virtual.close()


def test_a_network_is_cut_anew_within_a_run_once_its_load_is_known() -> None:
    """If only four of eight pairs of hosts send, the network finds partitions with similar load."""
    virtual = Virtual(START_NS, threads=2, sanitize="SANITIZE" in os.environ)
    for i in range(8):
        hosts = [virtual.add_host(mac(2 * i + j), address(2 * i + j), 1500) for j in range(2)]
        switches = [virtual.add_switch() for _ in hosts]
        virtual.connect(hosts[0], 0, switches[0], 1)
        virtual.connect(switches[0], 2, switches[1], 1)
        virtual.connect(switches[1], 2, hosts[1], 0)
        for switch in switches:
            engine = virtual.prepare(wire().another())
            set_link(engine, LinkOptions(2, delay_us=10))
            set_link(engine, LinkOptions(1, delay_us=10))
            virtual.install(switch, engine)
        if i < 4:
            virtual.add_flow(
                FlowSpec(*hosts, i, 1000, 5007, 0, 22, 40_000, START_NS, 1e6)  # type: ignore[arg-type]
            )
    assert virtual.run(START_NS + 10**9) is Stop.REACHED
    events = [partition.events for partition in virtual.partitions]
    assert min(events) > sum(events) / 5
    virtual.close()


@pytest.mark.parametrize("payload", [22, 1000], ids=["copied", "in their packets"])
def test_packets_go_back_to_where_they_came_from(payload: int) -> None:
    """A one-way flow of 30,000 packets needs at most 8,192 packets of memory in all partitions.

    Otherwise, all packets would end up in the last partition.
    """
    line = Line({"delay_us": 10}, {}, back={"delay_us": 10}, threads=2)
    line.limit_packets(8192)
    flow = line.flow(30_000, 1e6, payload)
    line.run()
    assert len(line.virtual.partitions) == 2
    assert len(line.virtual.flow_result(flow).received) == 30_000
    line.virtual.close()


class Pace:
    """The choice of a network between parallel and sequential runs.

    Each run has 10,000 events, which take 1,000 us in a sequential run.
    """

    def __init__(self) -> None:
        self.library = _loaded(sanitize="SANITIZE" in os.environ)
        self.library.pace_wants_turns.restype = c_bool
        self.pace = create_string_buffer(256)  # a struct pace with all bytes zero
        self.before = False

    def turns(self, runs: int, waited: float, at_once_us: int) -> int:
        """Return how many of these runs are sequential.

        A parallel run takes `at_once_us`, and the first one after a sequential run 500 us more.
        """
        taken = 0
        for _ in range(runs):
            in_turn = self.library.pace_wants_turns(self.pace)
            took_ns = 1000 * (1000 if in_turn else at_once_us + 500 * self.before)
            self.before = in_turn
            self.note(took_ns, waited)
            taken += in_turn
        return taken

    def note(
        self, took_ns: int, waited: float, events: int = 10_000, was_slow: bool = False
    ) -> None:
        self.library.pace_note(self.pace, c_uint64(took_ns), c_double(waited),
                               c_uint64(events), c_bool(was_slow))  # fmt: skip


def test_turns_are_tried_where_threads_waited_and_kept_while_faster() -> None:
    pace = Pace()
    assert pace.turns(100, waited=0.2, at_once_us=2000) == 0
    # sometimes the other mode is tried
    assert 85 < pace.turns(100, waited=0.6, at_once_us=2000) < 99
    assert pace.turns(100, waited=0.2, at_once_us=600) < 100  # parallel runs are tried again
    assert pace.turns(100, waited=0.2, at_once_us=600) == 0


def test_at_once_is_taken_up_again_soon_however_long_it_was_best() -> None:
    pace = Pace()
    # the number of times that sequential runs are tried
    assert pace.turns(50_000, waited=0.6, at_once_us=600) < 2000
    assert pace.turns(1000, waited=0.6, at_once_us=2000) > 900
    assert pace.turns(100, waited=0.6, at_once_us=600) < 100
    assert pace.turns(1000, waited=0.2, at_once_us=600) == 0


def test_a_core_that_others_use_half_the_time_leads_to_turns() -> None:
    """If three of four parallel runs are slow, the network prefers sequential runs.

    The time of the fastest parallel run would mislead it.
    """
    pace, cost_us, in_turn_us = Pace(), 0, 0
    for run in range(1000):
        at_once_us = 600 if run % 4 == 0 else 3000
        in_turn = pace.turns(1, waited=0.1 if run % 4 == 0 else 0.7, at_once_us=at_once_us)
        cost_us += 1000 if in_turn else at_once_us
        in_turn_us += 1000
    assert cost_us < 1.1 * in_turn_us


def test_one_run_that_was_held_up_is_no_reason_for_turns() -> None:
    pace = Pace()
    for _ in range(100):
        assert pace.turns(10, waited=0.2, at_once_us=600) == 0
        assert pace.turns(1, waited=0.9, at_once_us=9000) == 0


def test_a_first_run_that_ended_early_leads_to_turns_at_once() -> None:
    """A parallel run ends early if threads wait, here after 300 events in 5 ms."""
    pace = Pace()
    pace.note(5_000_000, waited=0.4, events=300, was_slow=True)
    assert pace.turns(16, waited=0, at_once_us=600) == 16
    assert pace.turns(1, waited=0, at_once_us=600) == 0  # trial of a parallel run
    pace = Pace()
    assert pace.turns(10, waited=0.2, at_once_us=600) == 0
    pace.note(5_000_000, waited=0.4, events=300, was_slow=True)
    assert pace.turns(10, waited=0.2, at_once_us=600) == 0  # one slow run after ten fast ones
