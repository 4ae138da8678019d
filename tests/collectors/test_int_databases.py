"""Debian's Prometheus and InfluxDB read what the INT collector exports, and answer queries.

The servers run in a network namespace. The tests are skipped where they are not installed.
"""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import wire
from test_int_export import EPOCH_NS, findings  # noqa: F401  a fixture

from collectors.int.application import Findings
from collectors.int.export import influx, prometheus

LOCAL = "127.0.0.1"
PROMETHEUS_PORT, INFLUX_PORT = 9090, 8086
SCRAPE = """
global: {{scrape_interval: 200ms}}
scrape_configs:
  - job_name: int
    static_configs: [{{targets: ["{address}:{port}"]}}]
"""
INFLUX = """
reporting-disabled = true
[meta]
dir = "{folder}/meta"
[data]
dir = "{folder}/data"
wal-dir = "{folder}/wal"
[http]
bind-address = "{address}:{port}"
"""
FLOW = 'source="10.0.0.1",destination="10.0.0.2"'


@pytest.fixture
def namespace() -> Iterator[None]:
    with wire.namespace():
        wire.run("ip link set lo up")
        yield


@contextmanager
def server(*command: str) -> Iterator[None]:
    """Run a server within the `with` block."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.kill()


def ask(port: int, path: str, body: str | None = None, **parameters: str) -> Any:
    """Send an HTTP request; return the JSON of the answer, or None if it is empty."""
    url = f"http://{LOCAL}:{port}/{path}?{urllib.parse.urlencode(parameters)}"
    data = None if body is None else body.encode()
    with urllib.request.urlopen(url, data, timeout=wire.TIMEOUT_S) as answer:
        return json.loads(answer.read() or "null")


def wait_for(condition: Callable[[], Any]) -> Any:
    """Wait until a request succeeds with a result; return the result."""
    deadline = time.monotonic() + wire.TIMEOUT_S
    while True:
        try:
            if found := condition():
                return found
        except urllib.error.URLError:
            pass
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_prometheus_scrapes_the_collector_and_answers_queries(
    findings: Findings,  # noqa: F811
    namespace: None,
    tmp_path: Path,
) -> None:
    endpoint = prometheus.Endpoint(LOCAL, 0, lambda: findings)
    config = tmp_path / "prometheus.yml"
    config.write_text(SCRAPE.format(address=LOCAL, port=endpoint.port))

    def query(expression: str) -> dict[str, float]:
        """Return the values of a PromQL expression by the label `node`."""
        answer = ask(PROMETHEUS_PORT, "api/v1/query", query=expression)
        assert answer["status"] == "success"
        return {
            each["metric"].get("node", ""): float(each["value"][1])
            for each in answer["data"]["result"]
        }

    with server(
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={LOCAL}:{PROMETHEUS_PORT}",
    ):  # fmt: skip
        assert wait_for(lambda: query("int_reports_total")) == {"": 4}
        assert query(f"sum(int_flow_dropped_total{{{FLOW}}})") == {"": 1}
        assert query("sum by (node) (int_sequence_lost_total)") == {"5": 1, "6": 0}
        latency = "int_link_latency_seconds_sum / int_link_latency_seconds_count"
        assert query(f"{latency} > 0")["6"] == pytest.approx(500e-9)
        assert query("max by (node) (int_queue_occupancy_max)")["6"] == 60
    endpoint.close()


@pytest.mark.skipif(shutil.which("influxd") is None, reason="influxdb is not installed")
def test_influxdb_ingests_the_lines_and_answers_queries(
    findings: Findings,  # noqa: F811
    namespace: None,
    tmp_path: Path,
) -> None:
    config = tmp_path / "influxdb.conf"
    config.write_text(INFLUX.format(folder=tmp_path, address=LOCAL, port=INFLUX_PORT))

    def query(statement: str) -> list[list[Any]]:
        """Return the rows of an InfluxQL statement, without their times."""
        (result,) = ask(INFLUX_PORT, "query", db="telemetry", q=statement)["results"]
        assert "error" not in result
        return [row[1:] for series in result.get("series", []) for row in series["values"]]

    lines = list(influx.lines(findings, EPOCH_NS))
    with server("influxd", "-config", str(config)):
        wait_for(lambda: ask(INFLUX_PORT, "query", "", q="CREATE DATABASE telemetry"))
        ask(INFLUX_PORT, "write", "\n".join(lines), db="telemetry")  # status 400 for a wrong line
        stored = [query(f"SELECT * FROM {name}")
                  for name in ("int_flow", "int_hop", "int_source", "int_gap")]  # fmt: skip
        assert sum(map(len, stored)) == len(lines)
        assert query("SELECT SUM(reports), SUM(dropped) FROM int_flow") == [
            [int(findings.flows["reports"].sum()), int(findings.flows["dropped"].sum())]
        ]
        assert query("SELECT link_ns_max FROM int_hop WHERE node = '6'") == [[500]]
        assert query("SELECT first, count FROM int_gap WHERE node = '5'") == [[1, 1]]
