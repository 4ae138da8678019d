"""How connections open (RFC 9293, 3.5 and 3.10.7), and the options that both ends offer."""

from itertools import product
from pathlib import Path

import pytest
from lines import START_NS, Line
from scapy.layers.inet import TCP
from scapy.packet import Packet
from scapy.utils import rdpcap
from transfers import ISN, PEER_ISN, finished, send

from minip4.simulator.tcp import TcpResult

NOTHING_ARRIVES = {"loss_probability": 1.0}  # nothing reaches h2; tests inject its responses
OFFERS = {"Timestamp": ("Timestamp", (5, 0)), "SAckOK": ("SAckOK", b""), "WScale": ("WScale", 7)}
SUBSETS = [
    tuple(name for name, is_offered in zip(OFFERS, offered, strict=True) if is_offered)
    for offered in product([False, True], repeat=3)
]


def segments(folder: Path, what: str = "in") -> list[Packet]:
    """Return the segments that h1 sent ("in"), or those that it received ("out")."""
    return [frame[TCP] for frame in rdpcap(str(folder / f"{what}.pcap"))]


def data_bytes(segment: Packet) -> int:
    """Return the length of a segment's data, by its headers.

    Captures have only the start of a frame.
    """
    return int(segment.underlayer.len) - 20 - 4 * int(segment.dataofs)


def names(segment: Packet) -> set[str]:
    return {name for name, _ in segment.options} - {"NOP", "EOL", "MSS"}


def options(offered: tuple[str, ...]) -> list[tuple[str, object]]:
    return [("MSS", 1460), *(OFFERS[name] for name in offered)]


def opened(folder: Path, offered: tuple[str, ...]) -> tuple[Line, int]:
    """Open a connection of h1. The SYN, ACK of its peer has these options."""
    line = Line(NOTHING_ARRIVES, captures=folder)
    flow = line.tcp(5000)
    send(line, 1, 10, flags="SA", seq=PEER_ISN, ack=ISN + 1, window=65535,
         options=options(offered))  # fmt: skip
    return line, flow


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize("offered", SUBSETS, ids=lambda offered: "+".join(offered) or "none")
def test_options_that_the_peer_did_not_offer_are_not_sent(
    offered: tuple[str, ...], tmp_path: Path
) -> None:
    """h1 uses timestamps, SACK and window scaling only if its peer has offered them.

    With SACK, h1 reports out-of-order data. Without window scaling, its window is at most 65,535
    bytes, so that data 70,000 bytes ahead are not accepted.
    """
    line, _ = opened(tmp_path, offered)
    for after_ms, ahead in ((15, 10), (16, 70_000)):
        send(line, 1, after_ms, 10, flags="A", seq=PEER_ISN + 1 + ahead, ack=ISN + 1, window=65535)
    line.run(0.02)
    line.virtual.close()
    syn, *others = segments(tmp_path)
    assert names(syn) == {*OFFERS}
    assert max(map(data_bytes, others)) == (1448 if "Timestamp" in offered else 1460)
    assert all(("Timestamp" in names(each)) == ("Timestamp" in offered) for each in others)
    reported = [value for each in others for name, value in each.options if name == "SAck"]
    near, far = (PEER_ISN + 11, PEER_ISN + 21), (PEER_ISN + 70_001, PEER_ISN + 70_011)
    if "SAckOK" not in offered:
        assert reported == []
    else:
        assert reported == [near, (*far, *near) if "WScale" in offered else near]


@pytest.mark.parametrize("offered", SUBSETS, ids=lambda offered: "+".join(offered) or "none")
def test_an_answer_has_the_options_that_were_offered(
    offered: tuple[str, ...], tmp_path: Path
) -> None:
    line = Line({}, captures=tmp_path)
    line.tcp(1000, start_ns=START_NS + 2 * 10**9)
    send(line, 0, 1, flags="S", seq=5, options=options(offered))
    line.run(0.01)
    line.virtual.close()
    answer = segments(tmp_path, "out")[0]
    assert str(answer.flags) == "SA"
    assert names(answer) == {*offered}
    assert answer.options[0] == ("MSS", 1460)


# --- unacceptable acknowledgements, and simultaneous open -----------------------------------------


@pytest.mark.parametrize("wrong", [ISN, ISN + 2, ISN - 2**31])
@pytest.mark.parametrize("flags", ["A", "SA", "RA"])
def test_an_unacceptable_acknowledgement_in_syn_sent_is_answered_with_a_reset(
    wrong: int, flags: str, tmp_path: Path
) -> None:
    """In SYN-SENT, a wrong acknowledgement is answered by the reset <SEQ=SEG.ACK><CTL=RST>.

    The segment acknowledges too little or too much. A reset with a wrong acknowledgement is not
    answered. The connection opens nevertheless.
    """
    line = Line({"delay_us": 10_000}, captures=tmp_path)
    flow = line.tcp(1000)
    send(line, 1, 5, flags=flags, seq=9, ack=wrong)
    assert finished(line, flow).is_acknowledged
    line.virtual.close()
    resets = [(each.seq, each.ack) for each in segments(tmp_path) if str(each.flags) == "R"]
    assert resets == ([] if flags == "RA" else [(wrong, 0)])


def test_an_unacceptable_acknowledgement_in_syn_received_is_answered_with_a_reset(
    tmp_path: Path,
) -> None:
    """In SYN-RECEIVED, an ACK of data that were not sent is answered by a reset.

    The link to h1 loses all packets. Otherwise h1 would receive the SYN, ACK and reject it.
    """
    line = Line({}, back=NOTHING_ARRIVES, captures=tmp_path)
    line.tcp(1000, start_ns=START_NS + 2 * 10**9)
    send(line, 0, 1, flags="S", seq=5)
    send(line, 0, 2, flags="A", seq=6, ack=PEER_ISN + 2)
    line.run(0.01)
    line.virtual.close()
    answers = [(str(each.flags), each.seq) for each in segments(tmp_path, "out")]
    assert answers == [("SA", PEER_ISN), ("R", PEER_ISN + 2)]


def simultaneous(folder: Path, flags: str, seq: int) -> TcpResult:
    """Let h1 and its peer open a connection at the same time.

    h1 receives a SYN instead of a response to its own SYN, and then a segment with these flags.
    """
    line = Line(NOTHING_ARRIVES, captures=folder)
    flow = line.tcp(1000)
    send(line, 1, 10, flags="S", seq=PEER_ISN, window=65535, options=options(tuple(OFFERS)))
    send(line, 1, 20, flags=flags, seq=seq, ack=ISN + 1, window=65535)
    line.run(0.05)
    result = line.virtual.connections.result(flow)
    line.virtual.close()
    return result


@pytest.mark.parametrize(("flags", "seq"), [("SA", PEER_ISN), ("A", PEER_ISN + 1)])
def test_both_ends_may_open(flags: str, seq: int, tmp_path: Path) -> None:
    """A connection that both ends open at the same time transfers data (RFC 9293, figure 7)."""
    result = simultaneous(tmp_path, flags, seq)
    assert not result.has_failed
    syn, answer, *others = segments(tmp_path)
    assert (str(syn.flags), syn.seq) == ("S", ISN)
    assert (str(answer.flags), answer.seq, answer.ack) == ("SA", ISN, PEER_ISN + 1)
    first = next(each for each in others if data_bytes(each))
    assert (first.seq, first.ack, data_bytes(first)) == (ISN + 1, PEER_ISN + 1, 1000)


def test_a_reset_in_syn_received_fails_an_active_open(tmp_path: Path) -> None:
    result = simultaneous(tmp_path, "R", PEER_ISN + 1)
    assert (result.was_reset, result.has_failed) == (True, True)
    assert [str(each.flags) for each in segments(tmp_path)] == ["S", "SA"]


# --- the window -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ahead", "data", "is_taken"),
    [(0, 0, True), (0, 10, True), (-5, 10, True), (65534, 10, True), (-1, 0, False),
     (-10, 10, False), (65535, 0, False), (65535, 10, False)],
)  # fmt: skip
def test_the_acknowledgement_of_a_segment_outside_the_window_is_not_processed(
    ahead: int, data: int, is_taken: bool, tmp_path: Path
) -> None:
    """A segment outside of the window acknowledges nothing. Its sender gets an ACK.

    This ACK has the sequence number that h1 expects.
    """
    line, flow = opened(tmp_path, ())
    send(line, 1, 12, 10, flags="A", seq=PEER_ISN + 1, ack=ISN + 1, window=65535)
    line.run(0.013)
    before = line.virtual.host_counters(line.hosts[0])["sent"]
    send(line, 1, 14, data, flags="A", seq=PEER_ISN + 11 + ahead, ack=ISN + 1 + 1460, window=65535)
    line.run(0.03)
    acknowledged = int(line.virtual.connections.result(flow).progress["acknowledged"][-1])
    assert acknowledged == (1460 if is_taken else 0)
    line.virtual.close()
    if not is_taken:
        answer = segments(tmp_path)[before]
        assert (str(answer.flags), answer.ack, data_bytes(answer)) == ("A", PEER_ISN + 11, 0)
