"""docs/how-to/run-experiments.md: DuckDB and Dask give the same result for stored reports."""

import re
from pathlib import Path
from typing import Any

import pytest
from decoding import ENCODING, datagrams
from path_reports import alone, stacked

from collectors.int.decoder import Decoder
from collectors.int.store import Store

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-experiments.md"


def test_duckdb_and_dask_return_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("dask.dataframe", reason="Dask is not installed", exc_type=ImportError)
    dask = pytest.importorskip("dask")
    monkeypatch.chdir(tmp_path)
    for run, latency_ns in (("one", 20), ("two", 30)):
        store = Store(Path("results/reports"), run)
        payloads = [
            stacked(n, [(5, 10 + n, 100, 110), (6, latency_ns + n, 113, 133)], flow=9)
            for n in range(3)
        ]
        bare = alone(4, 0, ttl=64, ingress=1, egress=2)  # a report without latency
        for part in Decoder(ENCODING).decode(datagrams([*payloads, bare], 1000)):
            store.add(part)
        store.close()
    names: dict[str, Any] = {}
    answers = []
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        # With the synchronous scheduler, Dask uses no client of another test.
        with dask.config.set(scheduler="synchronous"):
            exec(block, names)
        answers.append(names["found"])
    of_duckdb, of_dask = answers
    assert of_duckdb == [
        ("one", 4, None, 0), ("one", 5, 12, 3), ("one", 6, 22, 3),
        ("two", 4, None, 0), ("two", 5, 12, 3), ("two", 6, 32, 3),
    ]  # fmt: skip
    assert [
        (*place, int(most) if count else None, count)  # Dask gives NaN if unknown
        for place, most, count in of_dask.itertuples(name=None)
    ] == of_duckdb
