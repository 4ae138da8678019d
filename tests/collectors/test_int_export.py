"""Exporters: Prometheus text, InfluxDB lines, and IPFIX messages that nfdump reads."""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from decoding import ENCODING, datagrams
from path_reports import DROPPED, TRACKED, alone, stacked
from prometheus_client.parser import text_string_to_metric_families

from collectors.int.application import OTHERS, Findings
from collectors.int.decoder import Decoder
from collectors.int.export import influx, ipfix
from collectors.int.export.prometheus import metrics
from collectors.int.index import Index, Limits
from collectors.int.native import CHANGE, GAP
from telemark.metrics.prometheus import text

EPOCH_NS = 1_700_000_000 * 10**9
REPORTS = [
    alone(5, 0, ttl=64, interfaces=(3, 4), ingress=1000, egress=2000),
    alone(6, 7, ttl=63, interfaces=(8, 9), ingress=2500, egress=9000),
    stacked(3, [(5, 10, 100, 110)], flow=9), alone(5, 2, number=1, flags=DROPPED | TRACKED),
]  # fmt: skip


@pytest.fixture
def findings() -> Findings:
    decoder, index = Decoder(ENCODING), Index(Limits())
    for part in decoder.decode(datagrams([*REPORTS, b"none"], 2_000_000_000, 1_000_000)):
        index.add(part)
    index.end(3_000_000_000)
    return Findings(
        3_000_000_000, 5, 4, 4, index.flows(), index.sources(), np.array(index.gaps, GAP),
        np.array(index.changes, CHANGE), Counter({(5, 80): 1, OTHERS: 2}), decoder.parse_errors, [],
        index.counters(),
    )  # fmt: skip


def test_prometheus(findings: Findings) -> None:
    """The parser of Prometheus' client library reads the exported values."""
    families = {family.name: family for family in
                text_string_to_metric_families(text(metrics(findings)))}  # fmt: skip
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families.values() for sample in family.samples
    }  # fmt: skip

    def value(name: str, **labels: str) -> float:
        return samples[(name, *sorted(labels.items()))]

    flow = {"source": "10.0.0.1", "destination": "10.0.0.2", "protocol": "17",
            "source_port": "7000", "destination_port": "80"}  # fmt: skip
    at = {**flow, "hop": "1", "node": "6"}
    assert value("int_datagrams_total") == 5
    assert value("int_reports_total") == 4
    assert value("int_malformed_total", reason="group_header") == 1
    assert value("int_overflow_total", what="flows_evicted") == 0
    assert value("int_drops_total", node="5", reason="80") == 1
    assert value("int_drops_total", node="other", reason="other") == 2
    assert value("int_sequence_lost_total", node="5", hw_id="0") == 1
    assert value("int_flows") == len(findings.flows)
    assert value("int_flow_paths_total", **flow) == 1
    assert value("int_link_latency_seconds_sum", **at) == 5e-07
    assert value("int_link_latency_seconds_count", **at) == 1
    assert value("int_queue_occupancy_max", **at) == 60
    types = {family.name: family.type for family in families.values()}
    assert types["int_reports"] == "counter"
    assert types["int_flows"] == types["int_queue_occupancy_max"] == "gauge"
    assert types["int_link_latency_seconds"] == "summary"
    assert not any(name.startswith(("python", "process")) for name in types)


def test_influx(findings: Findings) -> None:
    lines = list(influx.lines(findings, EPOCH_NS))
    flow = ("source=10.0.0.1,destination=10.0.0.2,protocol=17,source_port=7000,"
            "destination_port=80")  # fmt: skip
    now = EPOCH_NS + 3_000_000_000
    assert (f"int_flow,{flow} reports=3i,paths=1i,partial=1i,changes=0i,dropped=1i,congested=0i "
            f"{now}") in lines  # fmt: skip
    assert (f"int_hop,{flow},hop=1,node=6 occupancy_count=1i,occupancy_sum=60i,occupancy_min=60i,"
            "occupancy_max=60i,occupancy_last=60i,link_ns_count=1i,link_ns_sum=500i,"
            f"link_ns_min=500i,link_ns_max=500i,link_ns_last=500i {now}") in lines  # fmt: skip
    [gap] = [line for line in lines if line.startswith("int_gap")]
    assert gap == f"int_gap,node=5,hw_id=0 first=1i,count=1i {now}"
    assert all(len(line.split(" ")) == 3 for line in lines)


def test_ipfix_messages(findings: Findings) -> None:
    """The sequence number of an IPFIX message is the number of earlier records (RFC 7011, 3.1).

    Each message fits into a frame.
    """
    exporter = ipfix.Exporter(domain=7)
    many = findings.flows.repeat(40)
    many["key"]["ip_version"][:20] = 6
    messages = list(exporter.messages(findings_of(findings, many), EPOCH_NS))
    records = []
    for message in messages:
        assert int.from_bytes(message[:2], "big") == 10
        assert int.from_bytes(message[2:4], "big") == len(message) <= 1400
        assert int.from_bytes(message[4:8], "big") == 1_700_000_003
        assert int.from_bytes(message[8:12], "big") == sum(records)
        assert int.from_bytes(message[12:16], "big") == 7
        template_length = int.from_bytes(message[18:20], "big")
        data = message[16 + template_length :]
        elements = {int.from_bytes(message[at : at + 2], "big")
                    for at in range(24, 16 + template_length, 4)}  # fmt: skip
        # values are totals, so that findings can be exported repeatedly
        assert elements >= {86, 135}
        assert not elements & {2, 133}
        width = 77 if int.from_bytes(data[:2], "big") == 257 else 53
        assert (len(data) - 4) % width == 0
        records.append((len(data) - 4) // width)
    assert sum(records) == len(many)


def findings_of(findings: Findings, flows: np.ndarray) -> Findings:
    return Findings(**{**vars(findings), "flows": flows})


# In a separate namespace: sends the messages in its standard input (JSON) to nfcapd.
SEND = """
import json, socket, subprocess, sys, time
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
capture = subprocess.Popen(["nfcapd", "-l", sys.argv[1], "-p", "9995", "-b", "127.0.0.1", "-t",
                            "3600"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
def waiting_bytes():
    # at its port; None: it does not listen yet
    sockets = [line.split() for line in open("/proc/self/net/udp") if ":270B" in line]
    return int(sockets[0][4].split(":")[1], 16) if sockets else None
while waiting_bytes() is None:
    assert capture.poll() is None
    time.sleep(0.01)
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for message in json.load(sys.stdin):
    out.sendto(bytes.fromhex(message), ("127.0.0.1", 9995))
while waiting_bytes():
    time.sleep(0.01)
capture.terminate()  # which ends it when it has kept what it took
print(capture.communicate(timeout=60)[0].decode())
"""


@pytest.mark.skipif(shutil.which("nfcapd") is None, reason="nfdump is not installed")
def test_nfdump_reads_back_what_is_exported(findings: Findings, tmp_path: Path) -> None:
    messages = list(ipfix.Exporter(domain=7).messages(findings, EPOCH_NS))
    sent = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", SEND, str(tmp_path)],
        input=json.dumps([message.hex() for message in messages]), capture_output=True, text=True,
        check=True, timeout=300,
    )  # fmt: skip
    files = sorted(tmp_path.glob("nfcapd.*"))
    assert files, sent.stdout
    read = subprocess.run(["nfdump", "-r", files[0], "-o", "csv"], capture_output=True,
                          text=True, check=True, env={**os.environ, "TZ": "UTC"})  # fmt: skip
    rows = {row["sp"]: row for row in csv.DictReader(read.stdout.splitlines())
            if row["pr"]}  # fmt: skip
    assert rows.keys() == {"7000", "9"}
    row = rows["7000"]
    assert (row["sa"], row["da"], row["dp"], row["pr"]) == ("10.0.0.1", "10.0.0.2", "80", "UDP")
    assert (row["ipkt"], row["in"], row["out"]) == ("2", "3", "9")
    assert row["ts"].startswith("2023-11-14 22:13:22")
