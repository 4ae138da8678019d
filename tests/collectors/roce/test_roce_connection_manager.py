"""Connection management (IBTA, 12.6), with messages that the test builds."""

import struct
from typing import Any

import numpy as np
import pytest
from arriving import frames
from requester import UDP_SOURCE, Session, write
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from collectors.roce.connection_manager import ConnectionManager
from collectors.roce.endpoint import Peer, Target, Transport
from collectors.roce.packets import BTH, DETH, icrc
from collectors.roce.region import Region
from collectors.roce.softnic import Limits, SoftNic

MACS = ("02:00:00:00:00:02", "02:00:00:00:00:01")
ADDRESSES = {"v1": ("10.0.0.2", "10.0.0.1"), "v2": ("10.0.0.2", "10.0.0.1"),
             "v2_ipv6": ("fd00::2", "fd00::1")}  # fmt: skip
REQ, REJ, REP, RTU, DREQ, DREP = 0x10, 0x12, 0x13, 0x14, 0x15, 0x16
PORT, THEIR_ID, TRANSACTION = 18515, 0xCAFE, 0x1122334455667788


class Client:
    """A peer at queue pair 1."""

    def __init__(self, version: str = "v2", limits: Limits | None = None) -> None:
        own, peer = ADDRESSES[version]
        self.nic = SoftNic(own, mac=MACS[0], limits=limits)
        self.region = Region(np.dtype("u1"), 64)
        self.domain = self.nic.register(self.region)
        self.manager = ConnectionManager(self.nic, self.domain, PORT)
        self.version = version
        self.session = Session(version, MACS[0], Peer(peer, 7, 0), MACS[1],
                               Target(own, 1, 0, 0, 0, 0, 1024, Transport.RC))  # fmt: skip

    def exchange(
        self, attribute: int, body: bytes, qkey: int = 0x80010000
    ) -> tuple[int, bytes] | None:
        """Send a message.

        Return attribute and body of the response after checking the rest of it.
        """
        mad = struct.pack("!BBBBHHQHHI", 1, 7, 2, 3, 0, 0, TRANSACTION, attribute, 0, 0)
        datagram = BTH(opcode=0x64, dqpn=1, psn=3) / DETH(qkey=qkey, sqpn=1)
        frame = self.session.frame(datagram / Raw(mad + body.ljust(232, b"\0")))
        assert self.nic.receive(frames([frame])) == []
        answers = self.manager.answers(self.nic.management())
        if not answers:
            return None
        [answer] = answers
        assert answer[-4:] == icrc(answer[14:-4])
        packet = Ether(answer)
        assert (packet.dst, packet[BTH].dqpn, packet[BTH].opcode) == (MACS[1], 1, 0x64)
        assert (packet[DETH].qkey, packet[DETH].sqpn) == (0x80010000, 1)
        told = bytes(packet[DETH].payload)
        assert len(told) == 256
        head = struct.unpack("!BBBBHHQHHI", told[:24])
        assert head == (1, 7, 2, 3, 0, 0, TRANSACTION, head[7], 0, 0)
        return head[7], told[24:]


def request(
    *, port: int = PORT, transport: int = 0, mtu: int = 3, their_id: int = THEIR_ID,
    qpn: bytes = b"\x12\x34\x56",
) -> bytes:  # fmt: skip
    body = bytearray(232)
    struct.pack_into("!I", body, 0, their_id)
    struct.pack_into("!Q", body, 8, 0x01060000 + port)
    body[32:35] = qpn
    body[43] = transport << 1
    body[44:47] = b"\x00\x00\x09"  # first PSN for requests of the responder
    body[50] = mtu << 4
    return bytes(body)


def leave(own_id: int, qpn: int) -> bytes:
    """Return the body of DREQ: the ids, and the responder's queue pair."""
    return struct.pack("!III", THEIR_ID, own_id, qpn << 8)


@pytest.mark.parametrize("version", ADDRESSES)
@pytest.mark.parametrize("transport", [0, 1])
def test_a_peer_connects_writes_and_leaves(version: str, transport: int) -> None:
    client = Client(version)
    answer = client.exchange(REQ, request(transport=transport))
    assert answer is not None
    attribute, rep = answer
    assert attribute == REP
    own_id, their_id = struct.unpack_from("!II", rep)
    assert their_id == THEIR_ID
    qpn, psn = (int.from_bytes(rep[at : at + 3], "big") for at in (12, 20))
    base, rkey, length = struct.unpack_from("!QIQ", rep, 36)
    assert (base, rkey, length) == (client.domain.base, client.domain.rkey, 64)
    assert client.nic.expected_psn(qpn) == psn
    assert rep[24] > 0  # with 0, a strict requester would send no atomic operations
    assert rep[27] >> 5 == 7  # with less, a requester would give up after RNR NAKs
    kind = Transport.UC if transport else Transport.RC
    own, peer = ADDRESSES[version]
    target = Target(own, qpn, psn, rkey, base, length, 1024, kind)
    session = Session(version, MACS[0], Peer(peer, 0x123456, psn), MACS[1], target)
    assert client.exchange(RTU, struct.pack("!II", THEIR_ID, own_id)) is None
    replies = client.nic.receive(frames([write(0, b"data")(session)]))
    assert client.region.bytes[:4].tobytes() == b"data"
    assert [Ether(reply)[BTH].dqpn for reply in replies] == [0x123456] * (1 - transport)
    # ids of a different connection
    for other_id, other_qpn in ((own_id + 1, qpn), (own_id, qpn + 1)):
        assert client.exchange(DREQ, leave(other_id, other_qpn)) is None
    assert client.nic.expected_psn(qpn) is not None
    for _ in range(2):  # the peer repeats DREQ, as after a lost DREP
        drep = client.exchange(DREQ, leave(own_id, qpn))
        assert drep is not None
        assert (drep[0], struct.unpack_from("!II", drep[1])) == (DREP, (own_id, THEIR_ID))
        assert client.nic.expected_psn(qpn) is None


@pytest.mark.parametrize(
    ("own_id_off", "stays"), [(0, False), (None, False), (1, True)], ids=["ours", "none", "other"]
)
def test_a_reply_that_a_peer_rejects_ends_its_connection(
    own_id_off: int | None, stays: bool
) -> None:
    """A connection ends if its peer rejects the REP.

    If `own_id_off` is None, the peer rejects after a timeout, before it has received the REP.
    Therefore it does not know the id of the connection.
    """
    client = Client()
    answer = client.exchange(REQ, request())
    assert answer is not None
    own_id, qpn = struct.unpack_from("!I", answer[1])[0], int.from_bytes(answer[1][12:15], "big")
    named = 0 if own_id_off is None else own_id + own_id_off
    assert client.exchange(REJ, struct.pack("!II", THEIR_ID, named)) is None
    assert (client.nic.expected_psn(qpn) is not None) == stays


def test_peers_are_informed_of_the_end() -> None:
    client = Client()
    answer = client.exchange(REQ, request())
    assert answer is not None
    own_id, qpn = struct.unpack_from("!I", answer[1])[0], int.from_bytes(answer[1][12:15], "big")
    [frame] = client.manager.end()
    packet = Ether(frame)
    told = bytes(packet[DETH].payload)
    assert (packet.dst, packet[IP].dst, frame[-4:]) == (MACS[1], "10.0.0.1", icrc(frame[14:-4]))
    assert struct.unpack_from("!H", told, 16) == (DREQ,)
    assert struct.unpack_from("!II3s", told, 24) == (own_id, THEIR_ID, b"\x12\x34\x56")
    assert client.nic.expected_psn(qpn) is None
    assert client.manager.end() == []
    assert client.exchange(DREP, struct.pack("!II", THEIR_ID, own_id)) is None


def test_a_request_that_comes_again_gets_the_same_queue_pair() -> None:
    client = Client()
    assert client.exchange(REQ, request()) == client.exchange(REQ, request())
    assert client.nic.expected_psn(0x101) is None


@pytest.mark.parametrize("again", [{"qpn": b"new"}, {"their_id": 0xF00D}])
def test_a_restarted_peer_has_one_queue_pair(again: dict[str, Any]) -> None:
    """A peer that crashed and connects again has only one queue pair.

    Its new request has the id or the queue pair of its old connection.
    """
    client = Client(limits=Limits(queue_pairs=1))
    assert client.exchange(REQ, request()) is not None
    answer = client.exchange(REQ, request(**again))
    assert answer is not None
    assert answer[0] == REP
    qpn, psn = (int.from_bytes(answer[1][at : at + 3], "big") for at in (12, 20))
    assert client.nic.expected_psn(qpn) == psn


@pytest.mark.parametrize(
    ("body", "why"),
    [(request(port=1), 8), (request(transport=2), 9), (request(mtu=5), 26)],
)
def test_what_cannot_be_is_rejected(body: bytes, why: int) -> None:
    client = Client()
    answer = client.exchange(REQ, body)
    assert answer is not None
    assert answer[0] == REJ
    assert struct.unpack_from("!II", answer[1]) == (0, THEIR_ID)
    assert struct.unpack_from("!H", answer[1], 10) == (why,)
    assert client.nic.expected_psn(0x100) is None


def test_no_queue_pair_is_left() -> None:
    client = Client(limits=Limits(queue_pairs=1))
    client.nic.connect(client.domain, Peer("10.0.0.3", 1, 1))
    answer = client.exchange(REQ, request())
    assert answer is not None
    assert (answer[0], struct.unpack_from("!H", answer[1], 10)) == (REJ, (1,))


def test_other_datagrams_are_passed_over() -> None:
    client = Client()
    assert client.exchange(REQ, request(), qkey=1) is None
    assert client.exchange(0x99, request()) is None
    assert client.exchange(REJ, request()) is None


def test_a_source_port_that_scapy_knows_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    # scapy expects another layer after this source port, as after port 53 (DNS).
    guesses = [({"sport": UDP_SOURCE}, Raw), *UDP.payload_guess]
    client = Client()
    monkeypatch.setattr(UDP, "payload_guess", guesses)
    assert client.exchange(REQ, request()) is None
