"""Reports are stored as Parquet files and queried with DuckDB."""

from pathlib import Path
from typing import Any

import pytest
from decoding import ENCODING, datagrams
from path_reports import DROPPED, TRACKED, alone, stacked

from collectors.int import store
from collectors.int.decoder import Decoder
from collectors.int.store import Store, connect
from telemark.errors import TestbedError

duckdb = pytest.importorskip("duckdb")

REPORTS = [
    alone(7, 0, ttl=62, ingress=50, egress=60), alone(5, 0, ttl=64, ingress=90, egress=100),
    alone(6, 0, ttl=63, ingress=103, egress=107),
    stacked(1, [(5, 10, 100, 110), (6, 20, 113, 133)], flow=9),
    alone(4, 3, number=4, flags=DROPPED | TRACKED),
]  # fmt: skip


def stored(folder: Path, run: str, payloads: list[bytes]) -> None:
    kept = Store(folder, run)
    for part in Decoder(ENCODING).decode(datagrams(payloads, 1000)):
        kept.add(part)
    kept.close()


def rows(folder: Path, question: str) -> list[Any]:
    found: list[Any] = connect(folder).sql(question).fetchall()
    return found


def test_hops_have_reported_values_and_null_for_others(tmp_path: Path) -> None:
    stored(tmp_path, "one", REPORTS)
    assert rows(tmp_path, "SELECT report, position, node, ingress, egress, latency_ns, queue, "
                "occupancy, ingress_ns, utilisation FROM hops WHERE report IN (1, 3) "
                "ORDER BY ALL") == [
        (1, 0, 5, 1, 2, None, 0, 50, 90, None), (3, 0, 5, None, None, 10, None, None, 100, None),
        (3, 1, 6, None, None, 20, None, None, 113, None),
    ]  # fmt: skip
    assert rows(tmp_path, "SELECT time_ns, node, sequence, ttl, int_type, mtu_exceeded, dropped, "
                "tracked FROM reports WHERE report >= 3 ORDER BY report") == [
        (1003, 6, 1, 64, 1, False, False, True), (1004, 4, 3, 64, 0, None, True, True),
    ]  # fmt: skip


def test_views(tmp_path: Path) -> None:
    stored(tmp_path, "one", REPORTS)
    assert rows(tmp_path, "SELECT nodes FROM paths WHERE report = 3") == [([5, 6],)]
    links = "SELECT from_node, links.node, latency_ns FROM links JOIN flows USING (run, flow) "
    assert rows(tmp_path, links + "WHERE source_port = 7000 ORDER BY node") == [
        (5, 6, 3), (6, 7, -57),
    ]  # fmt: skip
    assert rows(tmp_path, links + "WHERE source_port = 9") == [(5, 6, 3)]
    assert rows(tmp_path, "SELECT DISTINCT source, destination, protocol FROM flows") == [
        ("10.0.0.1", "10.0.0.2", 17)
    ]


def test_a_dataset_has_runs_and_files_of_some_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "ROWS", 5)
    kept = Store(tmp_path, "many")
    for _ in range(3):
        for part in Decoder(ENCODING).decode(datagrams(REPORTS)):
            kept.add(part)
    kept.close()
    stored(tmp_path, "one", REPORTS)
    assert len(list(tmp_path.glob("hops/run=many/*.parquet"))) == 3
    assert len(list(tmp_path.glob("flows/run=many/*.parquet"))) == 1
    assert not list(tmp_path.rglob("*.partial"))
    assert rows(tmp_path, "SELECT run, count(*), count(DISTINCT report), sum(hops) "
                "FROM reports GROUP BY run ORDER BY run") == [
        ("many", 15, 15, 18), ("one", 5, 5, 6),
    ]  # fmt: skip
    assert rows(tmp_path, "SELECT run, count(*) FROM hops JOIN reports USING (run, report) "
                "GROUP BY run ORDER BY run") == [("many", 18), ("one", 6)]  # fmt: skip
    assert rows(tmp_path, "SELECT run, count(*) FROM flows GROUP BY run ORDER BY run") == [
        ("many", 2), ("one", 2),
    ]  # fmt: skip


def flow_rows(path: Path) -> list[Any]:
    """Return the rows of one file of flows. Tools that do not use the views see these rows."""
    found: list[Any] = duckdb.sql(
        f"SELECT source_port, destination_port FROM read_parquet('{path}', hive_partitioning=false)"
    ).fetchall()
    return sorted(found)


def test_a_run_has_one_row_for_each_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has one file of flows, with one row for each flow.

    This also holds if its reports were decoded in several parts.
    """
    parts = [REPORTS, REPORTS, [alone(8, 0, flow=7001)], REPORTS]
    for name, rows_per_file in (("one file", 1000), ("many files", 5)):
        monkeypatch.setattr(store, "ROWS", rows_per_file)
        kept = Store(tmp_path, name)
        for payloads in parts:
            for part in Decoder(ENCODING).decode(datagrams(payloads)):
                kept.add(part)
        kept.close()
        (path,) = (tmp_path / "flows" / f"run={name}").iterdir()
        assert flow_rows(path) == [(9, 80), (7000, 80), (7001, 80)]


def test_a_run_that_was_killed_has_its_flows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each flow of a killed run is in the view once.

    The files of this run were not merged.
    """
    monkeypatch.setattr(store, "ROWS", 5)
    kept = Store(tmp_path, "killed")
    for _ in range(2):
        for part in Decoder(ENCODING).decode(datagrams(REPORTS)):
            kept.add(part)
    assert len(list(tmp_path.glob("flows/run=killed/*.parquet"))) == 2
    assert rows(tmp_path, "SELECT count(*) FROM flows") == [(2,)]


def test_the_schema_is_stable(tmp_path: Path) -> None:
    """Names and types of columns do not depend on the content of the store.

    Readers of earlier datasets rely on them.
    """
    stored(tmp_path, "one", REPORTS[:1])
    kinds = {name: kind for name, kind, *_ in rows(tmp_path, "DESCRIBE hops")}
    assert kinds == {
        "report": "BIGINT", "position": "USMALLINT", "node": "UINTEGER", "ingress": "USMALLINT",
        "egress": "USMALLINT", "latency_ns": "UBIGINT", "queue": "UTINYINT",
        "occupancy": "UINTEGER", "ingress_ns": "UBIGINT", "egress_ns": "UBIGINT",
        "ingress2": "UINTEGER", "egress2": "UINTEGER", "utilisation": "UINTEGER",
        "buffer": "UTINYINT", "buffer_occupancy": "UINTEGER", "hop_limit": "UTINYINT",
            "run": "VARCHAR",
    }  # fmt: skip
    assert [name for name, *_ in rows(tmp_path, "DESCRIBE reports")] == [
        "report", "time_ns", "reporter", "node", "hw_id", "sequence", "version", "flow", "packet",
        "intermediate", "tracked", "congested", "dropped", "drop_queue", "drop_reason", "int_type",
        "mtu_exceeded", "hops_exceeded", "discard", "remaining_hops", "hops", "dscp", "ttl",
        "ip_length", "parse_status", "ioam_type", "ioam_namespace", "trace_type", "ioam_overflow",
        "ioam_flow", "ioam_sequence", "ioam_time_ns", "run",
    ]  # fmt: skip


def test_a_run_is_not_written_twice(tmp_path: Path) -> None:
    stored(tmp_path, "one", REPORTS)
    with pytest.raises(TestbedError, match="another run name"):
        Store(tmp_path, "one")
    with pytest.raises(TestbedError, match="use one without / and ="):
        Store(tmp_path, "a/b")
    with pytest.raises(TestbedError, match="no stored run of the INT collector"):
        connect(tmp_path / "nothing")


def test_a_run_without_reports_leaves_none(tmp_path: Path) -> None:
    stored(tmp_path, "none", [])
    assert not list(tmp_path.rglob("*.parquet"))
