"""The Wireshark dissector, in tshark: it finds the content of generated reports.

The dissector must agree with the decoder, which was written independently. The tests are skipped
without tshark.
"""

import random
import re
import shutil
import struct
import subprocess
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import made_reports
import pytest
from decoding import decoded, report
from int_layers import NODE, QUEUE
from int_path import IN, MARKER, OUT, PROBE, Switch, insides, parse_int, tcp, udp
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import wrpcap
from test_int_decoder import MALFORMED, STACK, WITHIN, individual, through_udp
from test_int_hostile import mutated

from collectors import WIRESHARK
from collectors.int.application import PORT
from telemark import REPOSITORY

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

REPORT_FIELDS = {
    "treport.type": "report_type", "treport.inner_type": "inner_type", "treport.bits": "bits",
    "treport.domain": "domain", "treport.ds_bits": "ds_bits", "treport.ds_status": "ds_status",
    "treport.drop_queue": "queue", "treport.drop_reason": "reason", "int.shim.type": "int_type",
    "int.shim.dscp": "original_dscp", "int.version": "int_version", "int.bits": "int_bits",
    "int.domain": "int_domain", "int.ds_bits": "int_ds_bits", "int.ds_flags": "int_ds_flags",
    "int.hop_length": "hop_words", "int.remaining": "remaining_hops",
    "int.v1.shim.type": "int_type", "treport.packet.dscp": "dscp", "treport.packet.dscp6": "dscp",
    "treport.packet.ttl": "ttl", "treport.packet.hop_limit": "ttl",
}  # fmt: skip
FLAGS = {"dropped": 8, "congested": 4, "tracked": 2, "intermediate": 1}
INT_FLAGS = {"discard": 4, "exceeded": 2, "mtu": 1}
HOP_FIELDS = {
    "node": ("node", 4), "ingress": ("ingress", 2), "egress": ("egress", 2),
    "latency": ("latency_ns", 4), "queue": ("queue", 1), "occupancy": ("occupancy", 3),
    "ingress_time": ("ingress_ns", 8), "egress_time": ("egress_ns", 8), "ingress2": ("ingress2", 4),
    "egress2": ("egress2", 4), "utilisation": ("utilisation", 4), "buffer": ("buffer", 1),
    "buffer_occupancy": ("buffer_occupancy", 3), "complement": ("complement", 4),
    "ingress_time32": ("ingress_ns", 4), "egress_time32": ("egress_ns", 4),
}  # fmt: skip
TOGETHER = ({"ingress", "egress"}, {"queue", "occupancy"}, {"ingress2", "egress2"},
            {"buffer", "buffer_occupancy"})  # fmt: skip


def preferences(marker: str) -> list[str]:
    """Return the preferences for made_reports, with the probe marker in hexadecimal digits."""
    return [f"int.port:{made_reports.INT_PORT}", f"int.dscp:{made_reports.INT_DSCP}",
            f"int.dscp_mask:{made_reports.INT_DSCP_BIT}", f"int.marker:{marker}"]  # fmt: skip


def tshark(
    folder: Path, packets: Sequence[Packet], options: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Dissect a capture of packets with these preferences; return the output of tshark (PDML)."""
    path = folder / "some.pcap"
    wrpcap(str(path), list(packets))
    scripts = (WIRESHARK / name for name in ("int.lua", "telemetry_report.lua"))
    command = ["tshark", "-r", str(path), "-T", "pdml", *(f"-Xlua_script:{s}" for s in scripts),
               *(word for each in options for word in ("-o", each))]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=True)


def dissected(
    folder: Path, packets: Sequence[Packet], options: Sequence[str] | None = None
) -> list[ElementTree.Element]:
    """Return the protocol tree that tshark shows for each packet."""
    run = tshark(folder, packets, preferences(MARKER.hex()) if options is None else options)
    assert "Lua: Error" not in run.stderr
    assert "Lua Error" not in run.stdout
    return list(ElementTree.fromstring(run.stdout))


@pytest.mark.parametrize("npt", [1, 2])
def test_int_behind_int_is_data(npt: int, tmp_path: Path) -> None:
    """INT within the payload of INT is dissected as data.

    Otherwise, a packet with many shims would exhaust the call stack.
    """
    port = made_reports.INT_PORT
    again = struct.pack("!BBH", 0x14, 0, port)
    if npt == 2:
        again = struct.pack("!BBHHHHH", 0x18, 0, 17, 1, port, 1400, 0)
    head = Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=port)
    trees = dissected(tmp_path, 2 * [head / (again * (1400 // len(again)))])
    assert [shown(tree, "int.shim.npt") for tree in trees] == 2 * [[str(npt)]]


def of_reports(payloads: Sequence[bytes]) -> list[Packet]:
    head = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02") / IP(dst="10.0.0.2")
    return [head / UDP(sport=50007, dport=PORT) / payload for payload in payloads]


def shown(tree: ElementTree.Element, name: str) -> list[str]:
    return [each.get("show", "") for each in tree.iter("field") if each.get("name") == name]


def octets(tree: ElementTree.Element, name: str) -> bytes:
    return b"".join(
        bytes.fromhex(each.get("value", "")) for each in tree.iter("field")
        if each.get("name") == name
    )  # fmt: skip


def flags(tree: ElementTree.Element, prefix: str, values: dict[str, int]) -> int:
    return sum(value for name, value in values.items() if shown(tree, f"{prefix}.{name}") == ["1"])


def hop(fields: Sequence[ElementTree.Element]) -> dict[str, Any]:
    """Return the values of a hop without values whose fields are all ones."""
    values: dict[str, int] = {}
    ones = set()
    for each in fields:
        name = each.get("name", "").removeprefix("int.md.")
        if each.get("name", "").startswith("int.md.") and name in HOP_FIELDS:
            kind, length = HOP_FIELDS[name]
            values[kind] = int(each.get("show", ""), 0)
            if values[kind] == (1 << 8 * length) - 1:
                ones.add(kind)
    for kind in list(values):
        together = next((group for group in TOGETHER if kind in group), {kind})
        if together <= ones:
            del values[kind]
    return values


def dissected_report(tree: ElementTree.Element) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a dissected report in the format of made_reports."""
    found: dict[str, Any] = {}
    for name, ours in REPORT_FIELDS.items():
        if values := shown(tree, name):
            found[ours] = int(values[0], 0)
    found["flags"] = flags(tree, "treport", FLAGS)
    found["int_flags"] = flags(tree, "int", INT_FLAGS) | flags(tree, "int.v1", INT_FLAGS)
    found["ds"], found["int_ds"] = octets(tree, "treport.ds"), octets(tree, "int.source_only")
    for ours, names in (("source", ("src", "src6")), ("destination", ("dst", "dst6"))):
        for name in names:
            if values := shown(tree, f"treport.packet.{name}"):
                found[ours] = ip_address(values[0])
                found["ip_version"] = found[ours].version
    protocols = [*shown(tree, "int.shim.protocol"), *shown(tree, "treport.packet.protocol"),
                 *shown(tree, "treport.packet.next")]  # fmt: skip
    if protocols:
        found["protocol"] = int(protocols[0], 0)
    if ports := shown(tree, "treport.packet.sport"):
        found["source_port"] = int(ports[-1])
        original = shown(tree, "int.shim.port")
        found["destination_port"] = int((original or shown(tree, "treport.packet.dport"))[-1])
    hops = [{**hop(list(each)), "ds": octets(each, "int.md.ds")} for each in tree.iter("field")
            if each.get("name") == "int.hop"]  # fmt: skip
    return found, hops[::-1]


def reports(tree: ElementTree.Element) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return all reports of a packet, each with the reporting node as its last hop."""
    node = int(shown(tree, "treport.node")[0])
    found = []
    for each in tree.iter("field"):
        if each.get("name") != "treport.report":
            continue
        fields, hops = dissected_report(each)
        local = hop(list(each))
        if fields["report_type"] == 1 and (not hops or fields["bits"] & 0x7FFE):
            hops.append({**local, "node": node, "ds": fields["ds"]})
        found.append((fields, hops))
    return found


def agree(one: tuple[dict[str, Any], list[Any]], says: dict[str, Any], hops: list[Any]) -> None:
    fields, its_hops = one
    assert {name: fields.get(name) for name in says} == says
    assert its_hops == [{"ds": b"", **each} for each in hops]


def test_the_dissector_agrees_with_what_was_made_and_with_the_decoder(tmp_path: Path) -> None:
    rng = random.Random(5)
    made = [made_reports.datagram(rng, rng.getrandbits(32), number, rng.randrange(1, 5))
            for number in range(60)]  # fmt: skip
    trees = dissected(tmp_path, of_reports([payload for payload, _, _ in made]))
    part = decoded([payload for payload, _, _ in made])
    index = 0
    for tree, (_, group, those) in zip(trees, made, strict=True):
        for name in ("version", "hw_id", "sequence", "node"):
            assert shown(tree, f"treport.{name}") == [str(group[name])]
        found = reports(tree)
        assert len(found) == len(those)
        for one, each in zip(found, those, strict=True):
            agree(one, each.says, each.hops)
            fields, hops = report(part, index)
            agree(one, {name: fields[name] for name in one[0]}, hops)
            index += 1
    assert index == len(part.reports)


def test_reports_of_version_1(tmp_path: Path) -> None:
    """Reports of version 1, with INT 1.0 in their packets, are dissected as they were generated."""
    rng = random.Random(6)
    made = [made_reports.old_datagram(rng, rng.getrandbits(32), number) for number in range(60)]
    trees = dissected(tmp_path, of_reports([payload for payload, _ in made]))
    with_stacks = 0
    for number, (tree, (_, each)) in enumerate(zip(trees, made, strict=True)):
        [protocol] = [one for one in tree if one.get("name") == "treport"]
        assert shown(protocol, "treport.v1.sequence") == [str(number)]
        found, stacked = dissected_report(protocol)
        found["flags"] = flags(protocol, "treport.v1", FLAGS)
        found["inner_type"] = 3 + int(shown(protocol, "treport.v1.next")[0])
        node = int(shown(protocol, "treport.v1.node")[0])
        hops = [*stacked, {**hop(list(protocol)), "node": node, "ds": b""}]
        agree((found, hops), each.says, each.hops)
        with_stacks += len(stacked) > 1
    assert with_stacks


def test_int_on_a_link(tmp_path: Path) -> None:
    """The dissector finds INT over UDP by port or by DSCP in frames of a link.

    The rest of the packet is dissected as without INT.
    """
    head = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02", type=0x0800)
    by_port = through_udp(STACK.replace("1388", "0035") + "00" * 12)
    by_dscp = through_udp(STACK.replace("14071388", "10070008"), 9, made_reports.INT_DSCP)
    first, second, third = dissected(tmp_path, [head / by_port, head / by_dscp,
                                                head / through_udp(STACK, 9)])  # fmt: skip
    for tree in (first, second):
        assert shown(tree, "int.md.node") == ["2", "1"]
        assert shown(tree, "int.md.occupancy") == ["7", "3"]
    assert [each.get("name") for each in first][-1] == "dns"
    assert shown(second, "int.shim.dscp") == ["2"]
    assert not shown(third, "int.shim.type")


def with_probe_marker() -> tuple[list[bytes], list[bytes]]:
    """Return frames with a probe marker and INT of two hops, and the reports of the sink."""
    inside, of_sink = [], []
    for version in (4, 6):
        source, sink = Switch(1, outside=[IN]), Switch(3, outside=[OUT])
        source.embed_data(NODE | QUEUE, mark=PROBE, version=version)
        sink.report_all()
        for make in (udp, tcp):
            inside.append(Switch(2).pass_on(source.pass_on(make(version=version))))
            _, (_, telemetry_report) = sink.send(inside[-1])
            of_sink.append(telemetry_report)
    return inside, of_sink


def test_the_probe_marker_of_our_switches(tmp_path: Path) -> None:
    inside, of_sink = with_probe_marker()
    trees = dissected(tmp_path, [Ether(each) for each in inside + of_sink])
    for frame, on_link, in_report in zip(inside, trees[:4], trees[4:], strict=True):
        ours = parse_int(frame)
        for tree in (on_link, in_report):
            assert octets(tree, "int.marker") == MARKER
            assert shown(tree, "int.shim.length") == [str(ours.shim.length)]
            nodes, queues = ([each[what] for each in ours.hops] for what in (NODE, QUEUE))
            hops = [hop(list(each)) for each in tree.iter("field") if each.get("name") == "int.hop"]
            assert [each["node"] for each in hops] == nodes == [2, 1]
            assert [each["queue"] << 24 | each["occupancy"] for each in hops] == queues
        assert octets(on_link, "data.data") == ours.behind == b"payload!"


def test_the_documented_options_find_all_int_and_reports_of_our_switches(tmp_path: Path) -> None:
    """With the documented options, tshark finds all INT headers and reports of our switches.

    The test uses all marks of INT: DSCP, UDP port, a new UDP header, and probe marker.
    """
    page = (REPOSITORY / "docs" / "reference" / "int-collector.md").read_text()
    (command,) = re.findall(r"^    tshark (?:.*\\\n)*.*$", page, re.MULTILINE)
    options = re.findall(r" -o (\S+)", command)
    sink = Switch(3, outside=[OUT])
    sink.report_all()
    sent = [(frame, sink.send(frame)) for frame in insides()]
    pairs = [(frame, out[1][1]) for frame, out in sent if len(out) == 2]
    assert len(pairs) == len(sent) - 2  # TCP cannot be marked by a UDP port
    for frame, telemetry_report in pairs:
        # The packets are dissected one by one, because Wireshark does not dissect apparent
        # retransmissions.
        on_link, in_report = dissected(tmp_path, [Ether(frame), Ether(telemetry_report)], options)
        nodes = [str(hop[NODE]) for hop in parse_int(frame).hops if NODE in hop]
        assert shown(on_link, "int.md.node") == nodes
        assert shown(in_report, "treport.type")
        assert shown(in_report, "int.md.node") == nodes


def test_a_wrong_probe_marker_is_none(tmp_path: Path) -> None:
    """After a wrong probe marker, tshark finds no INT.

    The marker has an error in its first or last bit, is truncated, or is not the marker in the
    preferences.
    """
    right = [frame for frames in with_probe_marker() for frame in frames]
    others = [bytes([MARKER[0] ^ 0x80]) + MARKER[1:], MARKER[:-1] + bytes([MARKER[-1] ^ 1])]
    frames = [frame.replace(MARKER, other) for frame in right for other in others]
    cut = [udp(MARKER[:length]) for length in range(8)]
    trees = dissected(tmp_path, [Ether(frame) for frame in frames + cut])
    for marker in ("", others[0].hex()):
        trees += dissected(tmp_path, [Ether(frame) for frame in right], preferences(marker))
    assert len(trees) == 8 * 2 + 8 + 2 * 8
    assert not any(shown(tree, "int.shim.type") for tree in trees)


@pytest.mark.parametrize("marker", ["TELEMARK", MARKER.hex()[1:], f"{MARKER.hex()}0"])
def test_what_is_no_probe_marker_is_refused(marker: str, tmp_path: Path) -> None:
    complaint = f"int.marker: '{marker}' is not a probe marker of 16 hexadecimal digits"
    assert complaint in tshark(tmp_path, [], preferences(marker)).stderr


@pytest.mark.parametrize("cases", [MALFORMED, WITHIN], ids=["reports", "within"])
def test_what_is_malformed_says_so(tmp_path: Path, cases: dict[str, tuple[bytes, int]]) -> None:
    fine = "a shim of type 2"  # the sink accepts it, because it does not know the format yet
    names = [name for name in cases if cases[name][0] and name != fine]
    trees = dissected(tmp_path, of_reports([cases[name][0] for name in names]))
    for name, tree in zip(names, trees, strict=True):
        experts = [each.get("name") for each in tree.iter("field")]
        assert {"treport.malformed", "int.malformed", "int.cut"} & set(experts), name


def test_no_lua_error_whatever_comes(tmp_path: Path) -> None:
    rng = random.Random(7)
    payloads = [mutated(rng) for _ in range(100)] + [individual(bytes(4), f"0{kind:x}")
                                                     for kind in range(16)]  # fmt: skip
    trees = dissected(tmp_path, of_reports(payloads))
    assert len(trees) == len(payloads)
    part = decoded(payloads)
    counts = [len([f for f in tree.iter("field") if f.get("name") == "treport.report"])
              for tree in trees]  # fmt: skip
    for group in part.groups[part.groups["version"] == 2]:
        assert counts[group["datagram"]] >= group["reports"]
