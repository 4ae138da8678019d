"""In tshark, the DTA dissector finds each field of the format.

The tests are skipped without tshark. The dissector was written from the specification,
independently of the packets in scapy.
"""

import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import PcapWriter
from test_dta_packets import BAD, BAD_PROTOTYPES, KEY_HEX, WIRE

from collectors import WIRESHARK
from collectors.dta.packets import NACK_PORT, PORT, PROTOTYPE_PORT, PlainDTA, ShortNack

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

SOURCE = 40041  # Wireshark would dissect scapy's default port as DNS
# For each of the packets in WIRE: the expected fields, in addition to its key.
SHOWN: dict[str, dict[str, list[str]]] = {
    "key-write": {"version": ["1"], "opcode": ["0x01"], "reporter": ["772"],
                  "sequence": ["84281096"], "immediate": ["0"], "retransmittable": ["0"],
                  "redundancy": ["2"], "words": ["1"], "data": ["0xa0b0c0d0"]},
    "three words": {"redundancy": ["8"], "words": ["3"],
                    "data": ["0x00000001", "0x00000002", "0x00000003"]},
    "seven words": {"immediate": ["1"], "words": ["7"],
                    "data": [f"0x{n:08x}" for n in range(7)]},
    "append": {"retransmittable": ["1"], "list": ["3"], "data": ["0x00000004"]},
    "increment": {"redundancy": ["4"], "addend": [str(1 << 40)]},
    "postcard": {"redundancy": ["2"], "hop": ["4"], "hops": ["5"], "value": ["0x00000007"]},
    "sketch": {"sketch": ["1"], "column": ["2"], "counter": ["3", "4", "5", "6"]},
    "nack": {"opcode": ["0x80"], "sequence": ["84281096"], "missing": ["2"]},
    "prototype, key-write": {"opcode": ["0x01"], "prototype.seqnum": ["9"],
                             "prototype.retransmittable": ["1"], "redundancy": ["2"],
                             "data": ["0x00000009"]},
    "prototype, seven words": {"data": 7 * ["0x00000009"]},
    "prototype, append": {"list": ["255"], "data": ["0x00000009"]},
    "prototype, increment": {"redundancy": ["1"], "addend": ["9"]},
    "prototype, postcard": {"hop": ["5"], "value": ["0x00000009"]},
}  # fmt: skip
KEYS = {"key-write": KEY_HEX, "increment": KEY_HEX, "postcard": KEY_HEX,
        "prototype, postcard": "00000005"}  # fmt: skip


def dissected(
    folder: Path, payloads: Sequence[Packet], *preferences: str, snap: int | None = None
) -> list[dict[str, list[str]]]:
    """Return the DTA fields of packets by name, and the expert messages, as tshark reports them.

    `snap`: captured bytes per packet; None: all.
    """
    head = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(dst="10.0.0.2")
    path = folder / "some.pcap"
    with PcapWriter(str(path), linktype=1) as capture:
        capture.write_header(None)
        for each in payloads:
            frame = bytes(head / each)
            capture.write_packet(frame[:snap], wirelen=len(frame))
    command = ["tshark", "-r", str(path), "-T", "pdml", f"-Xlua_script:{WIRESHARK / 'dta.lua'}",
               *(word for each in preferences for word in ("-o", each))]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Lua: Error" not in run.stderr
    assert "Lua Error" not in run.stdout
    return [fields(tree) for tree in ElementTree.fromstring(run.stdout)]


def fields(tree: ElementTree.Element) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in tree.iter("field"):
        name = each.get("name", "")
        if name.startswith("dta."):
            shown = each.get("show", "")
            found.setdefault(name.removeprefix("dta."), []).append(shown)
    return found


def carried(name: str, port: int = 0) -> Packet:
    built = WIRE[name][0]
    return UDP(sport=SOURCE, dport=port) / built if port else UDP(sport=SOURCE) / built


def test_each_field_is_shown(tmp_path: Path) -> None:
    packets = [carried(name, NACK_PORT if name == "nack" else 0) for name in SHOWN]
    for (name, expected), found in zip(SHOWN.items(), dissected(tmp_path, packets), strict=True):
        assert {key: found.get(key) for key in expected} == expected, name
        assert "malformed" not in found, name
        if name in KEYS:
            assert found["key"][0].replace(":", "") == KEYS[name]


def test_the_prototype_may_be_built_without_tracking_of_losses(tmp_path: Path) -> None:
    packets = [carried("plain, key-write"), UDP(sport=SOURCE) / PlainDTA() / Raw(bytes(9))]
    found, other = dissected(tmp_path, packets, "dta.tracked:FALSE")
    assert (found["prototype.immediate"], found["redundancy"]) == (["1"], ["2"])
    assert found["data"] == ["0x00000009"]
    assert "prototype.seqnum" not in found
    assert "malformed" in other


def test_nacks_of_both_go_to_one_port(tmp_path: Path) -> None:
    packets = [
        UDP(sport=SOURCE) / ShortNack(seqnum=5),
        UDP(sport=SOURCE) / ShortNack(seqnum=6, nack=0),
    ]
    first, second = dissected(tmp_path, packets)
    assert (first["prototype.seqnum"], first["prototype.nack"]) == (["5"], ["1"])
    assert (second["prototype.seqnum"], second["prototype.nack"]) == (["6"], ["0"])


def test_ports_are_preferences(tmp_path: Path) -> None:
    packets = [carried("append", 5000), carried("prototype, append", 5001), carried("append")]
    ours, prototype, none = dissected(tmp_path, packets, "dta.port:5000",
                                      "dta.prototype_port:5001")  # fmt: skip
    assert ours["list"] == ["3"]
    assert prototype["list"] == ["255"]
    assert not none


def test_what_must_be_dropped_is_malformed(tmp_path: Path) -> None:
    cases = {name: octets for name, (octets, _) in BAD.items() if octets}
    packets = [
        UDP(sport=SOURCE, dport=PORT) / Raw(bytes.fromhex(octets)) for octets in cases.values()
    ]
    packets += [UDP(sport=SOURCE, dport=PROTOTYPE_PORT) / Raw(bytes.fromhex(octets))
                for octets, _ in BAD_PROTOTYPES.values()]  # fmt: skip
    names = [*cases, *BAD_PROTOTYPES]
    for name, found in zip(names, dissected(tmp_path, packets), strict=True):
        assert "malformed" in found, name


def test_no_lua_error_whatever_comes_and_however_it_is_cut(tmp_path: Path) -> None:
    rng = random.Random(3)
    packets = []
    for _ in range(150):
        payload = bytes([rng.choice((0x10, 0x1F, 1, 4)), rng.randrange(8)]) + rng.randbytes(
            rng.randrange(60)
        )
        port = rng.choice((PORT, PROTOTYPE_PORT, NACK_PORT))
        packets.append(UDP(sport=SOURCE, dport=port) / Raw(payload))
    assert len(dissected(tmp_path, packets)) == len(packets)
    whole = [carried(name) for name in SHOWN]
    for snap in (43, 56):
        found = dissected(tmp_path, whole, snap=snap)
        assert all("cut" in each and "malformed" not in each for each in found[:7])
