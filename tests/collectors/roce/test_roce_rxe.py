"""rdma_rxe, the RoCE stack of Linux, exchanges packets with this project as endpoint or peer."""

import dataclasses
import errno
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import roce_path
from arriving import frames
from dta_gathering import Gatherer
from dta_path import ours
from int_path import TO_COLLECTOR, udp
from judge import ADDRESSES, OWN_MAC, PEER_MAC, Judge, Outcome, Rxe, answering
from numpy.typing import NDArray
from path_sink import ALL, SLOTS, Sink, path, pushed
from requester import Session, add, write
from roce_path import SWITCH_ADDR, SWITCH_QPN
from scapy.layers.inet import ICMP
from scapy.layers.l2 import Ether
from sketch_reporters import Reporters, some
from verdicts import Case, alike
from verdicts_bad import BAD
from verdicts_good import GOOD
from wire import end, namespace, veth

from collectors.dta.append import BATCHES
from collectors.dta.packets import Append
from collectors.roce.connection_manager import Attribute, ConnectionManager
from collectors.roce.device import call_verbs
from collectors.roce.endpoint import Completion, Peer
from collectors.roce.packets import BTH, DETH, RETH, Nak
from collectors.roce.region import PATH, TCP, Region
from collectors.roce.softnic import Limits, SoftNic
from collectors.roce.verbs import Verbs
from collectors.roce.verbs_peer import CmPeer
from experiments.shared.roce.real_session import (
    IMMEDIATE,
    KINDS,
    RECORD,
    TRANSPORTS,
    RealSession,
    captured,
    fields,
)
from telemark.backends.real.vm import machine
from telemark.backends.real.vm.machine import Machine, Socket
from telemark.errors import TestbedError

pytestmark = pytest.mark.skipif(machine.missing() is not None, reason=str(machine.missing()))
PyverbsRDMAError: Any = pytest.importorskip("pyverbs.pyverbs_error").PyverbsRDMAError
CM_PORT = 7000
OWN = {"IP id", "IP chksum", "UDP sport", "BTH icrc"}  # fields specific to one session
CASES = [(version, case) for case in (*GOOD, *BAD) for version in case.versions if version != "v1"]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with namespace():
        veth("here", "card")
        folder = tmp_path_factory.mktemp("rxe")
        with end("here") as packets, Machine(folder, Socket("card", OWN_MAC)) as started:
            yield Judge(started, packets)


def wrong(case: Case, outcome: Outcome) -> list[object]:
    """Return the differences between the expected and the actual result of a case."""
    found: list[object] = [
        f"packet {number}: {answers}, expected {step.answer}"
        for number, (step, answers) in enumerate(zip(case.steps, outcome.answers, strict=True))
        if not alike(answers, step.answer)
    ]
    pairs = zip(outcome.memory, case.after(), strict=True)
    found += [f"byte {at}: {is_}" for at, (is_, expected) in enumerate(pairs) if is_ != expected]
    if outcome.completions != case.completed(outcome.qpn):
        found.append(outcome.completions)
    return found


def test_rxe_gives_the_same_verdicts_but_where_the_list_says_so(judge: Judge) -> None:
    """rdma_rxe reacts to each packet as the list of verdicts says, with the listed exceptions.

    All cases are in one test, because booting a VM takes longer than all packets.
    """
    outcomes = judge.try_out(CASES)
    differs = {}
    for (version, case), outcome in zip(CASES, outcomes, strict=True):
        if bool(what := wrong(case, outcome)) != bool(case.rxe):
            differs[f"{version}: {case.name}"] = what or f"it does not: {case.rxe}"
    assert differs == {}
    assert len(CASES) >= 500


def test_the_endpoint_takes_what_peers_write(judge: Judge) -> None:
    """The endpoint on rdma_rxe writes the data of peers into its region.

    The test uses the whole interface: a region in a file, completions, counts, closing.
    """
    own, address = ADDRESSES["v2"]
    call, make = judge.machine.call, judge.machine.make
    endpoint, region = make(Verbs, own), make(Region, TCP, 4, Path("/tmp/records"))
    domain = endpoint.register(region)
    peer = Peer(address, qpn=0x123, psn=77)
    target = endpoint.connect(domain, peer)
    assert (target.address, target.psn, target.path_mtu) == (own, 77, 1024)
    assert (target.rkey, target.base, target.length) == domain
    assert domain.length == 4 * 44
    session = Session("v2", OWN_MAC, peer, PEER_MAC, target)
    frames = [write(0, b"record", 44, immediate=0x01020304), add(1, 88, 5),
              write(3, b"too soon"), write(0, b"again")]  # fmt: skip
    answers = [judge.ask(session, frame(session))[0] for frame in frames]
    assert [answer.syndrome for answer in answers] == [0x1F, 0x1F, Nak.SEQUENCE, 0x1F]
    written = call(Path.read_bytes, Path("/tmp/records"))
    assert written == bytes(44) + b"record".ljust(44, b"\0") + b"\5".ljust(88, b"\0")
    records = call(getattr, region, "records")
    assert np.array_equal(records, np.frombuffer(written, TCP))
    assert endpoint.completions() == [Completion(target.qpn, 0x01020304, 6)]
    assert endpoint.completions() == []
    refused = endpoint.counts().refused
    assert (refused["out_of_seq_request"], refused["duplicate_request"]) == (1, 1)
    endpoint.disconnect(target.qpn)
    with pytest.raises(TestbedError, match=f"there is no queue pair {target.qpn:#x}"):
        endpoint.disconnect(target.qpn)
    assert judge.ask(session, write(2, b"late")(session)) == []
    endpoint.close()
    assert call(Path.read_bytes, Path("/tmp/records")) == written


def test_an_address_without_device_is_reported(judge: Judge) -> None:
    with pytest.raises(TestbedError, match=r"no RDMA device has the address 10\.9\.0\.77"):
        judge.machine.make(Verbs, "10.9.0.77")


@pytest.mark.parametrize(
    ("code", "told"),
    [(errno.ETIMEDOUT, "peer: no route or no MAC"), (errno.ENOMEM, "peer: Cannot allocate mem")],
)
def test_verbs_errors_are_one_line(code: int, told: str) -> None:
    def refuse() -> None:
        raise PyverbsRDMAError("Failed to modify QP state to RTR", code)

    with pytest.raises(TestbedError, match=told):
        call_verbs("peer", refuse)


def test_rxe_as_a_peer_is_content_with_our_responder_and_sends_what_was_captured(
    judge: Judge,
) -> None:
    """As a peer, rdma_rxe accepts our responses, and sends the same packets as in a capture.

    Each call returns after rdma_rxe has received the response. Fields that are specific to a
    session may differ.
    """
    own, address = ADDRESSES["v2"]
    nic, region = SoftNic(address, mac=PEER_MAC), Region(np.dtype("u1"), 96)
    domain = nic.register(region, rkey=0x1000)
    session = RealSession(judge.machine, own)
    targets = [nic.connect(domain, peer, transport=transport)
               for peer, transport in zip(session.peers, TRANSPORTS, strict=True)]  # fmt: skip
    with answering(nic, judge.packets) as came:
        session.carry_out(targets)
        deadline_s = time.monotonic() + 60
        while nic.counts().accepted.total() < len(KINDS):  # UC does not wait for answers
            assert time.monotonic() < deadline_s
    assert region.bytes.tobytes() == RECORD + RECORD + (1).to_bytes(8, "little")
    assert nic.counts().accepted == {"WRITE_ONLY": 2, "WRITE_ONLY_IMMEDIATE": 2, "FETCH_ADD": 1}
    sent: dict[tuple[int, int], dict[str, Any]] = {}
    for frame in came:
        packet = Ether(frame)
        if BTH in packet and ICMP not in packet:  # ICMP errors quote frames that arrived late
            # repeated requests are equal
            sent.setdefault((packet[BTH].dqpn, packet[BTH].psn), fields(frame))
    known = captured()
    for kind, found in zip(KINDS, sent.values(), strict=True):
        assert {name for name in found if found[name] != known[kind][name]} <= OWN, kind
        assert found.keys() == known[kind].keys()


def append(translator: Gatherer, size: int) -> NDArray[np.void]:
    """Append entries to a ring for one and a half laps; a batch has `size` entries."""
    memory = translator.lists(size, batches=4, count=1)
    for number in range(6 * size):
        translator.report(ours(Append(list=0, data=number + 1)))
    return memory


def merge(translator: Gatherer) -> NDArray[np.void]:
    """Merge the sketches of two reporters."""
    memory = translator.sketches(2)
    reporters = Reporters(translator, 2)
    for sketch in range(2):
        reporters.send_all(some(reporters=2, seed=sketch), sketch)
    return memory


@pytest.mark.parametrize(
    ("gather", "lengths"),
    [*((partial(append, size=size), {4 * size + 4}) for size in BATCHES), (merge, {128})],
    ids=[*(f"append {size}" for size in BATCHES), "sketches"],
)
def test_rxe_has_what_our_responder_has_of_a_translator_that_gathers(
    judge: Judge, gather: Callable[[Gatherer], NDArray[np.void]], lengths: set[int]
) -> None:
    here, there, rxe = Gatherer(), Gatherer(), Rxe(judge)
    there.nic = rxe  # type: ignore[assignment]
    expected = gather(here).tobytes()
    gather(there)
    assert {int(Ether(frame)[RETH].length) for frame in there.sent} == lengths
    assert there.answers == []
    [memory] = rxe.memory()
    # the translator does not write beyond the configured region
    assert memory == expected + bytes(len(expected))
    assert any(expected)


def test_rxe_takes_the_paths_of_packets(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """rdma_rxe writes the path records of a sink into a ring of six records.

    The paths have one to eight hops.
    """
    rxe = Rxe(judge)
    domain = rxe.register(Region(PATH, SLOTS))
    target = rxe.connect(domain, Peer(SWITCH_ADDR, SWITCH_QPN, 0))
    monkeypatch.setattr(roce_path, "RKEY", target.rkey)
    monkeypatch.setattr(roce_path, "BASE", target.base)
    sink = Sink(dataclasses.replace(ALL, qpn=target.qpn))
    ring, answers = [b""] * SLOTS, []
    for number in range(8):
        packet = pushed(udp(), *range(1, number + 2))
        [record] = [out for port, out in sink.send(packet) if port == TO_COLLECTOR]
        assert Ether(record)[RETH].length == PATH.itemsize
        ring[number % SLOTS] = path(Ether(record)).tobytes()
        answers += rxe.receive(frames([record]))
    assert rxe.memory() == [b"".join(ring)]
    assert answers == []


def attribute(frame: bytes) -> int:
    """Return the attribute of a connection management message; 0 for other frames."""
    packet = Ether(frame)
    return (
        int(struct.unpack_from("!H", bytes(packet[DETH].payload), 16)[0]) if DETH in packet else 0
    )


def test_peers_of_librdmacm_connect_write_and_leave(judge: Judge) -> None:
    own, address = ADDRESSES["v2"]
    nic, region = SoftNic(address, mac=PEER_MAC, limits=Limits(receives=1)), Region(TCP, 2)
    domain = nic.register(region)
    manager = ConnectionManager(nic, domain, CM_PORT)
    lost: list[bytes] = []

    def lose(frame: bytes) -> bool:
        """Return whether the frame is the first REP."""
        if attribute(frame) == Attribute.REP and not lost:
            lost.append(frame)
        return frame in lost

    def make_room() -> None:
        """Remove completions from the full queue after the peer has received an RNR NAK."""
        deadline_s = time.monotonic() + 60
        while not nic.counts().refused["NO_RECEIVE"] and time.monotonic() < deadline_s:
            time.sleep(0.001)
        nic.completions()

    late, peer = (judge.machine.make(CmPeer, own) for _ in range(2))
    with answering(nic, judge.packets, manager, lose) as came:
        # the client retries after some seconds, while the other client continues
        late.call(address, CM_PORT)
        peer.call(address, CM_PORT)
        target = peer.join()
        assert (target.rkey, target.base, target.length, target.path_mtu) == (*domain, 1024)
        assert nic.expected_psn(target.qpn) == target.psn
        peer.write(RECORD, 44, IMMEDIATE)
        assert region.bytes.tobytes() == bytes(44) + RECORD
        assert peer.add(3, 0) == 0
        assert region.bytes[:8].tobytes() == (3).to_bytes(8, "little")
        threading.Thread(target=make_room).start()
        peer.write(RECORD, 0, IMMEDIATE)
        assert nic.counts().refused["NO_RECEIVE"] > 0
        peer.leave()
        assert nic.expected_psn(target.qpn) is None
        other = late.join()
        assert nic.expected_psn(other.qpn) == other.psn
        assert [attribute(frame) for frame in came].count(Attribute.REQ) == 3
        late.leave()


@pytest.mark.skipif(shutil.which("ucmatose") is None, reason="there are no rdmacm-utils")
def test_a_program_of_librdmacm_is_refused_or_left_by_us(judge: Judge) -> None:
    address = ADDRESSES["v2"][1]
    nic = SoftNic(address, mac=PEER_MAC)
    manager = ConnectionManager(nic, nic.register(Region(TCP, 2)), CM_PORT)

    def start(port: int, connections: int) -> Any:
        command = "ucmatose", "-s", address, "-p", str(port), "-c", str(connections), "-C", "0"
        return judge.machine.make(subprocess.Popen, command, stdout=subprocess.PIPE)

    with answering(nic, judge.packets, manager) as came:
        refused, connected = start(CM_PORT + 1, 1), start(CM_PORT, 3)
        deadline_s = time.monotonic() + 60
        while [attribute(frame) for frame in came].count(Attribute.RTU) < 3:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        for frame in manager.end():
            judge.packets.send(frame)
        said, _ = connected.communicate(timeout=60)
        assert connected.wait() == 0, said
        assert [attribute(frame) for frame in came].count(Attribute.DREP) == 3
        said, _ = refused.communicate(timeout=60)
        assert b"RDMA_CM_EVENT_REJECTED, error: 8" in said
    assert [nic.expected_psn(qpn) for qpn in (0x100, 0x101, 0x102)] == [None] * 3
