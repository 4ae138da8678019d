"""Hostile input: damaged frames, and invalid messages of connection management."""

import contextlib
import random
import struct
from collections.abc import Iterator

import numpy as np
import pytest
from arriving import frames
from requester import Session, add, write
from scapy.packet import Raw

from collectors.roce.connection_manager import QKEY, Attribute, ConnectionManager
from collectors.roce.endpoint import Peer, Target, Transport
from collectors.roce.packets import BTH, DETH, UD, Op, icrc
from collectors.roce.region import Region
from collectors.roce.softnic import Limits, SoftNic

OWN, PEER = "10.0.0.2", "10.0.0.1"
MACS = ("02:00:00:00:00:02", "02:00:00:00:00:01")
PORT, COUNT, CHUNK = 18515, 3_000, 50


def damaged(frame: bytes, rng: random.Random) -> bytes:
    """Change, cut or insert some bytes. Half of the frames get a valid iCRC."""
    found = bytearray(frame)
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        found[rng.randrange(len(found))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    if rng.random() < 0.2:
        del found[rng.randrange(len(found)) :]
    if rng.random() < 0.1:
        found += rng.randbytes(rng.randrange(2000))
    if len(found) > 60 and rng.random() < 0.5:
        with contextlib.suppress(ValueError):  # the frame is no longer RoCE
            found[-4:] = icrc(bytes(found[14:-4]))
    return bytes(found)


def message(session: Session, rng: random.Random) -> bytes:
    """Return a random connection management message.

    There are few different ids, so that some messages are valid.
    """
    attribute = rng.choice([*Attribute, 0x99])
    mad = struct.pack("!BBBBHHQHHI", 1, 7, 2, 3, 0, 0, rng.randrange(4), attribute, 0, 0)
    body = bytearray(rng.randbytes(232))
    struct.pack_into("!II", body, 0, rng.randrange(2000), rng.randrange(4))
    if rng.random() < 0.8:
        struct.pack_into("!Q", body, 8, 0x01060000 + PORT)
        body[43], body[50] = rng.choice((0, 2)), 3 << 4
    if rng.random() < 0.1:
        del body[rng.randrange(232) :]
    datagram = BTH(opcode=UD | Op.SEND_ONLY, dqpn=1, psn=3) / DETH(qkey=QKEY, sqpn=1)
    return session.frame(datagram / Raw(mad + bytes(body)))


def hostile(session: Session, rng: random.Random) -> Iterator[bytes]:
    """Yield COUNT frames: damaged requests, damaged messages, and some random bytes."""
    good = [write(n, b"record"[: n + 1])(session) for n in range(4)] + [add(4, 0, 1)(session)]
    good += [message(session, rng) for _ in range(1000)]
    for _ in range(COUNT):
        is_noise = rng.random() < 0.1
        yield rng.randbytes(rng.randrange(300)) if is_noise else damaged(rng.choice(good), rng)


@pytest.mark.parametrize("version", ["v1", "v2", "v2_ipv6"])
def test_each_frame_is_counted_and_none_does_harm(version: str) -> None:
    own, peer = ("fd00::2", "fd00::1") if version == "v2_ipv6" else (OWN, PEER)
    nic, region = SoftNic(own, limits=Limits(queue_pairs=16)), Region(np.dtype("u1"), 192)
    domain = nic.register(region)
    manager, rng = ConnectionManager(nic, domain, PORT), random.Random(version)
    target = Target(own, 0x100, 0, domain.rkey, domain.base, 64, 1024, Transport.RC)
    nic.connect(domain, Peer(peer, 7, 0))
    session = Session(version, MACS[0], Peer(peer, 7, 0), MACS[1], target)
    sent, answers, chunk = 0, 0, []
    for frame in hostile(session, rng):
        chunk.append(frame)
        if len(chunk) == CHUNK:
            nic.receive(frames(chunk))
            answers += len(manager.answers(nic.management()))
            sent, chunk = sent + CHUNK, []
    counts = nic.counts()
    assert counts.accepted.total() + counts.refused.total() == sent == COUNT
    assert len(counts.refused) > 7
    assert answers > 30
    assert len(nic.refusals()) == 1024  # the refusals can be formatted as text
    manager.end()
    for _ in range(15):  # no queue pair leaked
        nic.connect(domain, Peer(peer, 9, 0))
