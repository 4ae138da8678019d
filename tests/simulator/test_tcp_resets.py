"""RST at virtual hosts: hosts send it for segments that they reject, and it ends connections.

See RFC 9293, 3.10.7, and RFC 5961, 3.
"""

from pathlib import Path

import pytest
from lines import ADDRESS, MAC, START_NS, Line
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import rdpcap
from transfers import ISN, PEER_ISN, SEGMENT, finished, send

LATE = {"delay_us": 10_000}


# --- rejected segments ----------------------------------------------------------------------------


def answers(folder: Path, *, listens: bool = False, **fields: object) -> list[Packet]:
    """Return the responses to a segment from h1 to h2, which has no connection.

    With `listens`, h2 waits for a SYN at the segment's port.
    """
    line = Line(LATE, captures=folder)
    if listens:
        line.tcp(1000, start_ns=START_NS + 2 * 10**9)
    send(line, 0, 1, **fields)  # type: ignore[arg-type]
    line.run(1)
    assert line.virtual.host_counters(line.hosts[1])["unclaimed"] == 1
    line.virtual.close()
    return list(rdpcap(str(folder / "out.pcap")))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"flags": "S", "seq": 2**32 - 1}, (0, 0, "RA")),
        ({"flags": "FP", "seq": 1000, "data": 10}, (0, 1011, "RA")),
        ({"flags": "A", "seq": 1000, "ack": 2**32 - 2, "data": 10}, (2**32 - 2, 0, "R")),
    ],
    ids=["SYN", "data", "acknowledgement"],
)
def test_a_segment_to_a_closed_port_gets_a_reset(
    fields: dict[str, object], expected: tuple[int, int, str], tmp_path: Path
) -> None:
    (answer,) = answers(tmp_path, **fields)
    tcp = answer[TCP]
    assert (tcp.seq, tcp.ack, str(tcp.flags)) == expected
    assert (answer.src, answer.dst, answer[IP].src, answer[IP].dst) == (*MAC[::-1], *ADDRESS[::-1])
    assert (tcp.sport, tcp.dport, tcp.options, len(answer)) == (5001, 49152, [], 54)
    sums = answer[IP].chksum, tcp.chksum
    del answer[IP].chksum, tcp.chksum
    again = Ether(bytes(answer))
    assert (again[IP].chksum, again[TCP].chksum) == sums


def test_an_ack_to_a_listening_port_gets_a_reset(tmp_path: Path) -> None:
    """An ACK to a port that waits for a SYN is answered by a reset."""
    (answer,) = answers(tmp_path, listens=True, flags="A", ack=5)
    assert (answer[TCP].seq, str(answer[TCP].flags)) == (5, "R")


def test_a_refusal_is_not_refused(tmp_path: Path) -> None:
    assert answers(tmp_path, flags="R", seq=5) == []


# --- end of a connection --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "acknowledged", "ends"),
    [("RA", ISN + 1, True), ("RA", ISN, False), ("R", ISN + 1, False)],
    ids=["refusal", "of another SYN", "of nothing"],
)
def test_a_reset_ends_an_active_open_only_if_it_acknowledges_the_syn(
    flags: str, acknowledged: int, ends: bool
) -> None:
    line = Line(LATE)
    flow = line.tcp(1000)
    send(line, 1, 5, flags=flags, seq=0, ack=acknowledged)
    line.run(0.006)
    assert line.virtual.connections.is_over(flow) is ends
    result = finished(line, flow)
    assert (result.was_reset, result.has_failed, result.is_acknowledged) == (ends, ends, not ends)
    assert len(result.received) == (0 if ends else 1)
    assert line.virtual.next_ns is None  # no event is left, so the other end is closed, too
    line.virtual.close()


@pytest.mark.parametrize(
    ("ahead", "ends", "told"),
    [(0, True, 0), (1, False, 1), (2**22, False, 1), (2**23, False, 0), (-1, False, 0)],
    ids=["next", "near", "in the window", "beyond", "before"],
)
def test_only_a_reset_that_is_next_ends_a_connection(ahead: int, ends: bool, told: int) -> None:
    """A reset ends a connection only if its sequence number is the next one.

    If it is another one in the window, the peer gets a challenge ACK.
    """
    line = Line({})
    flow = line.tcp(3 * SEGMENT, rate_bps=1e6)  # sends a segment every 11.6 ms
    line.run(0.014)
    before = line.virtual.host_counters(line.hosts[0])["sent"]
    send(line, 1, 15, flags="R", seq=PEER_ISN + 1 + ahead)
    line.run(0.016)
    assert line.virtual.host_counters(line.hosts[0])["sent"] - before == told
    result = finished(line, flow)
    assert (result.was_reset, result.has_failed, result.is_acknowledged) == (ends, ends, not ends)
    assert line.virtual.next_ns is None
    line.virtual.close()


def test_a_sender_gets_a_reset_from_an_end_that_was_reset() -> None:
    line = Line({})
    flow = line.tcp(3 * SEGMENT, rate_bps=1e6)
    send(line, 0, 5, flags="R", seq=(ISN + 1 + SEGMENT) % 2**32)
    line.run(0.006)
    assert not line.virtual.connections.is_over(flow)
    result = finished(line, flow)
    assert (result.was_reset, result.has_failed) == (True, True)
    assert result.received["bytes"].tolist() == [SEGMENT]
    assert line.virtual.next_ns is None
    line.virtual.close()


def test_a_reset_in_syn_received_returns_a_server_to_listen(tmp_path: Path) -> None:
    """After a reset in SYN-RECEIVED, a server listens again: it answers the next SYN.

    The server does not repeat the lost SYN, ACK of 0 s before the next SYN arrives at 1 s.
    """
    line = Line({}, back={"loss_probability": 1.0}, captures=tmp_path)
    flow = line.tcp(1000)
    send(line, 0, 1, flags="R", seq=ISN + 1)
    line.run(0.5)
    line.change(0, 1, loss_probability=0.0)
    assert finished(line, flow).is_acknowledged
    line.virtual.close()
    answered = [frame for frame in rdpcap(str(tmp_path / "out.pcap")) if frame[TCP].flags == "SA"]
    assert [round(float(frame.time) - START_NS / 1e9, 3) for frame in answered] == [0, 1]


def test_a_reset_after_all_was_acknowledged_is_no_failure() -> None:
    line = Line(LATE)
    flow = line.tcp(1000)  # data are acknowledged at 20 ms; the FIN arrives at 30 ms
    send(line, 1, 25, flags="R", seq=PEER_ISN + 1)
    result = finished(line, flow)
    assert (result.is_acknowledged, result.has_failed, result.was_reset) == (True, False, False)
    assert line.virtual.next_ns is None
    line.virtual.close()
