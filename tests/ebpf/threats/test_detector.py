"""The detector reports exactly the attacks, with evidence. A flooded table does not change this."""

import os
from typing import Any

import bad_frames
import numpy as np
import pytest
from numpy.typing import NDArray
from streams import stream_of

from ebpf.loader import run
from ebpf.statistics.flows import format_address
from ebpf.statistics.offer import ROW, TCP, UDP, load_stream
from ebpf.threats.alerts import Alert, Kind
from ebpf.threats.detector import Limits, Setting, detecting, estimate

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="BPF needs root")

SYN, ACK = 2, 16
A, B = 0x0A000001, 0x0A000002  # 10.0.0.1, 10.0.0.2


def packets(number: int, **fields: Any) -> NDArray[Any]:
    """Return an array of `number` rows, one per packet, with these fields.

    Defaults: 100 bytes of TCP from A to B.
    """
    rows = np.zeros(number, ROW)
    fields = {"source": A, "destination": B, "source_port": 4000, "destination_port": 80,
              "length": 100, "protocol": TCP, **fields}  # fmt: skip
    for name, value in fields.items():
        rows[name] = value
    return rows


def clean() -> NDArray[Any]:
    """Return the packets of 500 hosts. Each host uses a connection, and queries a name server."""
    hosts = np.repeat(0x0B000000 + np.arange(500), 6)
    rows = packets(3000, source=hosts, destination=0x0C000000 + hosts % 7, destination_port=443)
    rows["flags"] = np.tile([SYN, ACK, ACK, ACK, 0, 0], 500)
    rows["protocol"][4::6] = rows["protocol"][5::6] = UDP
    rows["destination_port"][4::6] = rows["source_port"][5::6] = 53
    rows["source"][5::6], rows["destination"][5::6] = (
        rows["destination"][4::6].copy(), rows["source"][4::6].copy()
    )  # fmt: skip
    return rows


def alerts(rows: NDArray[Any], setting: Setting | None = None) -> list[Alert]:
    """Return the alerts of a window in which these packets are mixed with packets of clean()."""
    mixed = np.concatenate([clean(), rows])
    np.random.default_rng(1).shuffle(mixed)
    with load_stream(mixed) as offer, detecting(setting or Setting()) as detector:
        offer.through(detector.at_xdp, len(mixed))
        found = detector.poll()
        assert detector.totals.packets == len(mixed)
        assert detector.poll() == []
    return found


def spread(number: int) -> NDArray[np.int64]:
    return 0x0D000000 + 7 * np.arange(number)


ATTACKS = {
    Kind.HEAVY_HITTER: packets(3000, flags=ACK),
    Kind.SUPERSPREADER: packets(400, destination=spread(400), flags=SYN),
    Kind.PORT_SCAN: packets(400, destination_port=1 + np.arange(400), flags=SYN),
    Kind.SYN_FLOOD: packets(1500, source=spread(1500), flags=SYN),
    Kind.AMPLIFICATION: packets(500, source=spread(500) // 9 * 9, source_port=53, protocol=UDP,
                                length=1400, destination_port=4000),
}  # fmt: skip


def test_clean_traffic_alarms_nobody() -> None:
    assert alerts(clean()[:0]) == []


@pytest.mark.parametrize("kind", Kind)
def test_an_attack_is_told_with_its_evidence(kind: Kind) -> None:
    (alert,) = alerts(ATTACKS[kind])
    seen = alert.evidence
    assert alert.kind == kind
    assert seen.packets == len(ATTACKS[kind])
    concerned = {
        Kind.HEAVY_HITTER: ("10.0.0.1", 0, "10.0.0.2", 0),
        Kind.SUPERSPREADER: ("10.0.0.1", 0, "::", 0),
        Kind.PORT_SCAN: ("10.0.0.1", 0, "10.0.0.2", 0),
        Kind.SYN_FLOOD: ("::", 0, "10.0.0.2", 80),
        Kind.AMPLIFICATION: ("::", 53, "10.0.0.2", 0),
    }[kind]
    named = (format_address(seen.source), seen.source_port, format_address(seen.destination),
             seen.destination_port)  # fmt: skip
    assert named == concerned
    assert alert.when_ns > 0
    if kind in (Kind.SUPERSPREADER, Kind.PORT_SCAN):
        assert seen.distinct == pytest.approx(400, rel=0.15)
        assert seen.bytes == 400 * 100
    if kind == Kind.HEAVY_HITTER:
        assert seen.share == pytest.approx(0.5)
    assert kind.value in str(alert)


def test_handshakes_that_go_on_are_no_flood() -> None:
    opened = packets(1500, source=spread(1500), flags=SYN)
    gone_on = packets(750, source=spread(750), flags=ACK)
    limits = Limits(share=1)
    ordered = np.concatenate([opened, gone_on])
    with load_stream(ordered) as offer, detecting(Setting(limits)) as detector:
        offer.through(detector.at_xdp, len(ordered))
        assert detector.poll() == []
        offer.through(detector.at_xdp, len(ordered) - 1)
        (alert,) = detector.poll()
    assert (alert.kind, alert.evidence.returned) == (Kind.SYN_FLOOD, 749)


def test_answers_to_questions_are_no_attack() -> None:
    hosts = spread(100)
    asked = packets(100, destination=hosts, destination_port=53, protocol=UDP, length=400)
    answered = packets(100, source=hosts, destination=A, source_port=53, protocol=UDP, length=1400)
    both = np.stack([answered, asked], axis=1).ravel()
    with (
        load_stream(both) as offer,
        detecting(Setting(Limits(share=1, destinations=500))) as detector,
    ):
        offer.through(detector.at_xdp, len(both))
        assert detector.poll() == []


def test_a_server_that_answers_many_is_no_spreader() -> None:
    rows = packets(200, destination=spread(200), source_port=53, protocol=UDP)
    assert alerts(rows) == []


def test_spoofed_hosts_do_not_drive_a_scanner_out() -> None:
    """A port scan is reported, although 2,000 spoofed hosts send a packet each at the same time.

    The table of suspects has room for only 64 hosts.
    """
    scan = packets(600, destination_port=1 + np.arange(600), flags=SYN)
    others = packets(2000, source=spread(2000), destination=spread(2000), flags=SYN)
    mixed = np.concatenate([scan, others])
    np.random.default_rng(2).shuffle(mixed)
    with load_stream(mixed) as offer, detecting(Setting(places=16)) as detector:
        offer.through(detector.at_xdp, len(mixed))
        found = detector.poll()
    assert Kind.PORT_SCAN in {each.kind for each in found}
    assert detector.replaced > 0
    assert detector.refused > 0


def test_bitmaps_tell_how_many_were_marked() -> None:
    rng = np.random.default_rng(1)
    for marked in (0, 10, 200, 1000):
        seen = np.zeros(8, np.uint64)
        for number in rng.integers(512, size=marked):
            seen[number >> 6] |= np.uint64(1) << np.uint64(number & 63)
        assert estimate(seen) == pytest.approx(marked, rel=0.15)
    assert estimate(np.full(8, (1 << 64) - 1, np.uint64)) == pytest.approx(512 * np.log(512))


def test_bad_packets_are_counted_or_ignored() -> None:
    with detecting(Setting()) as detector:
        for frame in bad_frames.frames(3, 1000):
            assert run(detector.at_xdp, frame).verdict == 2
        detector.poll()
    assert detector.totals.packets + detector.totals.ignored == 1000


def test_tc_tells_the_same() -> None:
    rows = ATTACKS[Kind.PORT_SCAN]
    with detecting(Setting()) as detector:
        for row in rows:
            packet = bad_frames.segment(TCP, 4000, int(row["destination_port"]), SYN)
            run(detector.at_tc, bad_frames.ethernet(bad_frames.ipv4(A, B, TCP, packet), 0x0800))
        (alert,) = detector.poll()
    assert (alert.kind, alert.evidence.packets) == (Kind.PORT_SCAN, 400)
    assert alert.evidence.bytes == 400 * (14 + 20 + 20)


def test_zipf_traffic_alarms_nobody_but_of_its_largest_flow() -> None:
    stream = stream_of(20_000, 4000, 5)
    with load_stream(stream.rows) as offer, detecting(Setting()) as detector:
        offer.through(detector.at_xdp, len(stream.rows))
        assert {each.kind for each in detector.poll()} <= {Kind.HEAVY_HITTER}
