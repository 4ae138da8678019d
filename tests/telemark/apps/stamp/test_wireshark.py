"""STAMP packets, compared with Wireshark's dissector of TWAMP-Test packets.

RFC 8762 keeps the format of TWAMP-Test. This dissector shows the session identifier as the MBZ
field that RFC 8972 uses for it, and the last three MBZ bytes and the TLVs as padding.
"""

import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from telemark.apps.stamp import tlvs
from telemark.apps.stamp.packets import ReflectorPacket, TimestampFormat, pack

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")
SENT_NS, RECEIVED_NS = 3_900_000_000_123_456_789, 3_900_000_001_000_000_000
# Wireshark's texts of both times, since 1900 (NTP) and 1970 (PTP)
TEXTS = {
    TimestampFormat.NTP: (
        "Aug  2, 2023 21:20:00.123456789 UTC", "Aug  2, 2023 21:20:01.000000000 UTC"
    ),
    TimestampFormat.PTP: (
        "Aug  1, 2093 21:20:00.123456789 UTC", "Aug  1, 2093 21:20:01.000000000 UTC"
    ),
}  # fmt: skip


def dissected(folder: Path, payload: bytes) -> dict[str, str]:
    """Return the fields of a packet as text."""
    frame = Ether() / IP(src="10.0.0.2", dst="10.0.0.1") / UDP(sport=862, dport=5000) / payload
    wrpcap(str(folder / "packet.pcap"), [frame])
    words = ["tshark", "-r", folder / "packet.pcap", "-d", "udp.port==862,twamp.test", "-T", "pdml"]
    output = subprocess.run(words, capture_output=True, check=True, text=True).stdout
    fields = ElementTree.fromstring(output).iterfind(".//proto[@name='twamp.test']//field")
    return {field.get("name", ""): field.get("show", "") for field in fields}


@pytest.mark.parametrize("timestamps", list(TimestampFormat))
def test_wireshark_reads_the_packets_of_reflectors(
    tmp_path: Path, timestamps: TimestampFormat
) -> None:
    times = timestamps.encode(SENT_NS), timestamps.encode(RECEIVED_NS)
    estimate = timestamps << 14 | 0x0305
    packet = ReflectorPacket(7, times[0], estimate, 0x1234, times[1], 5, times[0], estimate, 253)
    chain = tlvs.pack_tlvs([tlvs.extra_padding(4)])
    found = dissected(tmp_path, pack(packet, None) + chain)
    assert found["twamp.test.seq_number"] == "7"
    assert found["twamp.test.sender_seq_number"] == "5"
    assert found["twamp.test.sender_ttl"] == "253"
    assert int(found["twamp.test.mbz1"], 0) == 0x1234
    assert int(found["twamp.test.mbz2"], 0) == 0
    assert int(found["twamp.test.error_estimate"], 0) == estimate
    assert int(found["twamp.test.sender_error_estimate"], 0) == estimate
    assert found["twamp.test.error_estimate.scale"] == "3"
    assert found["twamp.test.error_estimate.multiplier"] == "5"
    assert found["twamp.test.padding"].replace(":", "") == (bytes(3) + chain).hex()
    assert found["twamp.test.timestamp"] == TEXTS[timestamps][0]
    assert found["twamp.test.receive_timestamp"] == TEXTS[timestamps][1]
