"""The responder at a host: its responses to requests that cross two switches."""

from pathlib import Path

import numpy as np
from requester import Answer, Session, add, write
from virtual_networks import WIRE, Pair, virtually

from collectors.roce.application import Outcome, Responder, Writer
from collectors.roce.endpoint import Completion, Peer, Transport
from telemark.accounting import pcap
from telemark.network import Network
from telemark.session.run import Run

MS = 1_000_000
RECORD = np.dtype("<u8")


def test_writers_reach_their_own_regions_and_are_answered(tmp_path: Path) -> None:
    peers = [Peer("10.0.0.1", qpn, psn=0xFFFFFF) for qpn in (7, 8)]
    responder = Responder(
        "10.0.0.2",
        [
            Writer(peers[0], RECORD, 4, tmp_path / "records"),
            Writer(peers[1], RECORD, 2, transport=Transport.UC),
        ],
    )
    mac = ("00:00:00:00:00:02", "00:00:00:00:00:01")
    rc, uc = (
        Session("v2" if number else "v1", mac[0], peers[number], mac[1], target)
        for number, target in enumerate(responder.targets)
    )
    requests = [
        write(0, b"firstone", 8)(rc),
        write(0, b"secondon", 0, immediate=77)(uc),
        add(1, 0, 5)(rc),
        write(3, b"tooearly", 16)(rc),
        write(5, b"toofar!!", 8, key=0x1000 ^ 0x1001)(uc),  # key of the other region
    ]

    async def main(run: Run) -> Network:
        with Network(Pair(), run, program=WIRE) as net:
            net.run_application("h2", responder)
            start_ns = run.clock.now_ns() + MS
            net.send_frames("h1", [start_ns + MS * i for i in range(len(requests))], requests)
            await run.clock.sleep_until(start_ns + 100 * MS)
        return net

    net = virtually(tmp_path / "run", main)
    outcome: Outcome = net.applications[0].result
    first = int.from_bytes(b"firstone", "little")
    assert outcome.records[0].tolist() == [5, first, 0, 0]
    assert outcome.records[1].tobytes() == b"secondon" + bytes(8)
    assert (tmp_path / "records").read_bytes() == outcome.records[0].tobytes()
    assert [each for _, each in outcome.completions] == [Completion(uc.target.qpn, 77, 8)]
    assert outcome.counts.accepted == {"WRITE_ONLY": 1, "WRITE_ONLY_IMMEDIATE": 1, "FETCH_ADD": 1}
    assert outcome.counts.refused == {"GAP": 1, "KEY": 1}
    gap, key = outcome.refusals
    assert gap.endswith("PSN 2: expected 1; a packet was lost, and a NAK requests it")
    assert key.endswith("R_Key 0x00001000: the region of the queue pair has a different R_Key")
    answers = pcap.read_frames(net.capture("s1", "h1", "out"))[1]
    assert [Answer.read(rc, frame) for frame in answers] == [
        Answer(0, msn=1), Answer(1, msn=2, before=0), Answer(2, 0x60, msn=2),
    ]  # fmt: skip
