"""Reports of IOAM nodes are stored in the tables of INT."""

from dataclasses import replace
from pathlib import Path

import pytest
from decoding import ENCODING, datagrams
from path_reports import stacked
from test_ioam_decoder import exported, trace, traced

from collectors.int.decoder import Decoder
from collectors.int.store import Store, connect
from collectors.ioam.options import NodeData, TraceType

pytest.importorskip("duckdb")


def test_an_ioam_node_has_occupancies_but_no_numbers_of_queues_and_buffers(tmp_path: Path) -> None:
    made = replace(
        exported(1, 0), trace_type=TraceType.QUEUE_DEPTH | TraceType.BUFFER_OCCUPANCY,
        data=NodeData(queue_depth=5, buffer_occupancy=6),
    )  # fmt: skip
    store = Store(tmp_path, "one")
    for part in Decoder(ENCODING).decode(datagrams([made.encode()])):
        store.add(part)
    store.close()
    found = connect(tmp_path).sql("SELECT queue, occupancy, buffer, buffer_occupancy FROM hops")
    assert found.fetchall() == [(None, 5, None, 6)]


def test_one_query_compares_int_and_ioam(tmp_path: Path) -> None:
    of_int = [stacked(0, [(1, 3000, 1_000_010_000, 1_000_013_000),
                          (2, 3000, 1_000_020_000, 1_000_023_000)])]  # fmt: skip
    runs = {
        "int": of_int, "trace": [traced(trace(2)).encode()],
        "dex": [exported(node, 0).encode() for node in (1, 2)],
    }  # fmt: skip
    for run, payloads in runs.items():
        store = Store(tmp_path, run)
        for part in Decoder(ENCODING).decode(datagrams(payloads)):
            store.add(part)
        store.close()
    query = connect(tmp_path).sql
    hops = query("SELECT run, node, latency_ns, ingress_ns, egress_ns FROM hops ORDER BY ALL")
    links = query("SELECT run, from_node, node, latency_ns FROM links ORDER BY ALL")
    assert hops.fetchall() == [
        (run, node, 3000, 10**9 + node * 10_000, 10**9 + node * 10_000 + 3000)
        for run in sorted(runs) for node in (1, 2)
    ]  # fmt: skip
    assert links.fetchall() == [(run, 1, 2, 7000) for run in sorted(runs)]
    ioam = query("SELECT run, ioam_type, ioam_flow, ioam_sequence, ioam_overflow FROM reports "
                 "WHERE node <> 2 ORDER BY ALL")  # fmt: skip
    assert ioam.fetchall() == [("dex", 4, 1, 0, None), ("trace", 0, None, None, False)]
    limits = query("SELECT run, hop_limit FROM hops WHERE node = 1 ORDER BY ALL").fetchall()
    assert limits == [("dex", 64), ("int", None), ("trace", 64)]
