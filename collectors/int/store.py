"""Store of all reports and hops in Parquet files. DuckDB can query them.

A dataset is partitioned by run: <folder>/<table>/run=<run>/<number>.parquet for each table in
TABLES. The store needs the package duckdb, which is in the extra `store` (pip install -e
'.[store]').
"""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.int.decoder import Decoded
from collectors.int.index import address
from collectors.int.native import Bit, Flag, IntFlag, IoamField
from telemark.errors import TestbedError
from telemark.results.files import give_to_caller, make_folder

ROWS = 250_000  # maximum number of hops per file

_FLAGS = ", ".join(f"flags & {flag.value} <> 0 AS {str(flag.name).lower()}" for flag in Flag)
_INT_FLAGS = ", ".join(
    f"CASE WHEN int_type <> 0 THEN int_flags & {flag.value} <> 0 END AS {str(flag.name).lower()}"
    for flag in IntFlag
)


_IOAM, _INCREMENTAL = 2, 1  # report type, and the last IOAM-Option-Type of a trace
_OVERFLOW = 8  # flag of a trace option


def _option_field(name: str, field: IoamField) -> str:
    """Return an SQL column for a field of an IOAM option, which is NULL if the option lacks it."""
    return f"CASE WHEN ioam_has & {field.value} <> 0 THEN {name} END AS {name}"


def _nullable(*names: str, bit: Bit) -> str:
    """Return SQL columns for the hops. A column is NULL if the hop lacks the field of `bit`."""
    return ", ".join(
        f"CASE WHEN has & {bit.value} <> 0 THEN {name} END AS {name}" for name in names
    )


def _int_only(name: str, bit: Bit) -> str:
    """Return an SQL column for the hops like _nullable(). It is also NULL for all IOAM nodes."""
    return f"CASE WHEN has & {bit.value} <> 0 AND report_type <> {_IOAM} THEN {name} END AS {name}"


TABLES = {
    # SQL that selects the columns of each table. New columns must be appended at the end.
    "reports": f"""SELECT report, time_ns, reporter, node, hw_id, sequence, version,
        NULLIF(flow, 0) AS flow, NULLIF(packet, 0) AS packet, {_FLAGS},
        CASE WHEN bits & {Bit.LAST.value} <> 0 THEN queue END AS drop_queue,
        CASE WHEN bits & {Bit.LAST.value} <> 0 THEN reason END AS drop_reason,
        int_type, {_INT_FLAGS}, remaining_hops, hops, dscp, ttl, ip_length, parse_status,
        CASE WHEN report_type = {_IOAM} THEN ioam_type END AS ioam_type,
        CASE WHEN report_type = {_IOAM} THEN ioam_namespace END AS ioam_namespace,
        CASE WHEN report_type = {_IOAM} THEN trace_type END AS trace_type,
        CASE WHEN report_type = {_IOAM} AND ioam_type <= {_INCREMENTAL}
            THEN ioam_flags & {_OVERFLOW} <> 0 END AS ioam_overflow,
        {_option_field("ioam_flow", IoamField.FLOW)},
        {_option_field("ioam_sequence", IoamField.SEQUENCE)},
        {_option_field("ioam_time_ns", IoamField.TIME)}
        FROM part""",
    "hops": f"""SELECT report, position, node, {_nullable("ingress", "egress", bit=Bit.INTERFACES)},
        {_nullable("latency_ns", bit=Bit.LATENCY)},
        {_int_only("queue", bit=Bit.QUEUE)}, {_nullable("occupancy", bit=Bit.QUEUE)},
        {_nullable("ingress_ns", bit=Bit.INGRESS)}, {_nullable("egress_ns", bit=Bit.EGRESS)},
        {_nullable("ingress2", "egress2", bit=Bit.INTERFACES2)},
        {_nullable("utilisation", bit=Bit.UTILISATION)},
        {_int_only("buffer", bit=Bit.BUFFER)}, {_nullable("buffer_occupancy", bit=Bit.BUFFER)},
        {_nullable("hop_limit", bit=Bit.HOP_LIMIT)} FROM part""",
    "flows": """SELECT DISTINCT flow, source, destination, protocol, source_port, destination_port
        FROM part""",
}
VIEWS = """
CREATE VIEW paths AS
    SELECT run, report, flow, time_ns, list(h.node ORDER BY position) AS nodes
    FROM hops h JOIN reports r USING (run, report) GROUP BY ALL;
CREATE VIEW links AS
    SELECT * FROM (
        SELECT run, flow, time_ns, h.node, h.ingress_ns::BIGINT - lag(h.egress_ns::BIGINT) OVER w
            AS latency_ns, lag(h.node) OVER w AS from_node
        FROM hops h JOIN reports r USING (run, report)
        WINDOW w AS (PARTITION BY run, flow, coalesce(packet, -report)
                     ORDER BY ttl DESC, position, h.ingress_ns))
    WHERE from_node IS NOT NULL;
"""


class Store:
    """Writes one run, in order of arrival. A file becomes visible when it is complete."""

    def __init__(self, folder: Path, run: str) -> None:
        """Raises TestbedError if the folder is not writable, or already has a run of this name."""
        if not run or set(run) & set("/=\\") or run.startswith("."):
            raise TestbedError(f"run {run!r}: invalid name; use one without / and =")
        self._connection = load_duckdb().connect(":memory:", config={"threads": 1})
        self._folders = {table: folder / table / f"run={run}" for table in TABLES}
        for place in self._folders.values():
            make_folder(place)
            if any(place.iterdir()):
                raise TestbedError(f"{place} is not empty; use another run name or remove it")
        self._parts: dict[str, list[dict[str, NDArray[Any]]]] = {table: [] for table in TABLES}
        self._files = self._reports = self._rows = 0

    def add(self, decoded: Decoded) -> None:
        """Add decoded reports. They are written later, in batches."""
        reports, hops = decoded.reports, decoded.hops
        groups = decoded.groups[reports["group"]]
        number = np.arange(self._reports, self._reports + len(reports), dtype=np.int64)
        columns = {name: groups[name] for name in ("reporter", "hw_id", "sequence", "version")}
        columns |= {name: reports[name] for name in reports.dtype.names or () if name not in _OUT}
        self._parts["reports"].append({"report": number, **columns})
        position = np.arange(len(hops)) - reports["first_hop"][hops["report"]]
        columns = {name: hops[name] for name in hops.dtype.names or () if name not in _OUT}
        columns |= {
            "report": number[hops["report"]], "position": position.astype(np.uint16),
            "report_type": reports["report_type"][hops["report"]],
        }  # fmt: skip
        self._parts["hops"].append(columns)
        self._parts["flows"].append(_flows(reports))
        self._reports += len(reports)
        self._rows += len(hops) + len(reports)
        if self._rows >= ROWS:
            self._write()

    def close(self) -> None:
        """Write the remaining rows. Merge the files of flows into one file without duplicates."""
        if self._rows:
            self._write()
        self._compact_flows()
        self._connection.close()

    def _write(self) -> None:
        for table, parts in self._parts.items():
            columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            self._connection.register("part", columns)
            self._copy(TABLES[table], self._folders[table] / f"{self._files:06}.parquet")
            self._connection.unregister("part")
            parts.clear()
        self._files += 1
        self._rows = 0

    def _compact_flows(self) -> None:
        """Merge all files of the table `flows` into the first file."""
        paths = sorted(self._folders["flows"].glob("*.parquet"))
        if len(paths) < 2:
            return
        files = ", ".join(f"'{_quote(path)}'" for path in paths)
        question = f"SELECT DISTINCT * FROM read_parquet([{files}], hive_partitioning=false)"
        self._copy(question, paths[0])
        for path in paths[1:]:
            path.unlink()

    def _copy(self, question: str, path: Path) -> None:
        """Write the rows of a query to a file. The file becomes visible when it is complete."""
        partial = path.with_suffix(".partial")
        self._connection.execute(f"COPY ({question}) TO '{_quote(partial)}' (FORMAT parquet)")
        give_to_caller(partial)
        partial.replace(path)


_OUT = ("none", "key", "group", "at", "ds_at", "int_ds_at", "first_hop")


def _flows(reports: NDArray[np.void]) -> dict[str, NDArray[Any]]:
    """Return the flows of some reports, each flow once."""
    flows, first = np.unique(reports["flow"], return_index=True)
    keys = reports["key"][first[flows != 0]]
    found: dict[str, NDArray[Any]] = {"flow": flows[flows != 0]}
    for name in ("protocol", "source_port", "destination_port"):
        found[name] = keys[name]
    for name in ("source", "destination"):
        texts = [address(key[name].tobytes(), int(key["ip_version"])) for key in keys]
        found[name] = np.array(texts, dtype=object)
    return found


def connect(folder: Path) -> Any:
    """Return a DuckDB connection with the tables of all runs in a dataset, and the views in VIEWS.

    Example: `connect(folder).sql("SELECT node, max(occupancy) FROM hops GROUP BY node")`. Raises
    TestbedError if there is no dataset.
    """
    connection = load_duckdb().connect(":memory:")
    for table in TABLES:
        files = folder / table / "*" / "*.parquet"
        if not any((folder / table).glob("*/*.parquet")):
            raise TestbedError(
                f"{folder}: no stored run of the INT collector; store a run with --store"
            )
        # a killed run may have left duplicates
        distinct = "DISTINCT" if table == "flows" else ""
        connection.execute(
            f"CREATE VIEW {table} AS SELECT {distinct} * FROM read_parquet('{_quote(files)}', "
            "hive_partitioning=true, hive_types={'run': VARCHAR}, union_by_name=true)"
        )
    connection.execute(VIEWS)
    return connection


def _quote(path: Path) -> str:
    return str(path).replace("'", "''")


def load_duckdb() -> ModuleType:
    """Return the module duckdb. Raises TestbedError if it is not installed."""
    try:
        return importlib.import_module("duckdb")
    except ImportError:
        raise TestbedError(
            "duckdb is not installed: .venv/bin/python -m pip install -e '.[store]'"
        ) from None
