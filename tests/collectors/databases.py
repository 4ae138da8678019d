"""Debian's Prometheus and InfluxDB, at loopback of the network namespace of a test."""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import wire
from prometheus_client.core import Metric

from telemark.metrics.prometheus import Collect, Endpoint, text

LOCAL = "127.0.0.1"
PROMETHEUS_PORT, INFLUX_PORT = 9090, 8086
SCRAPE = """
global: {{scrape_interval: 200ms}}
scrape_configs:
  - job_name: test
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
Labels = dict[str, str]
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus is not installed"
)


def unconventional(metrics: Iterable[Metric]) -> str:
    """Return what Debian's promtool criticizes about the names and labels of metrics."""
    command = ["promtool", "check", "metrics"]
    return subprocess.run(
        command, input=text(metrics), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    ).stdout  # fmt: skip


@contextmanager
def prometheus(collect: Collect, folder: Path) -> Iterator[Callable[[str], list[Any]]]:
    """Run Prometheus, which scrapes these metrics; yield query() when it has scraped them twice.

    query() returns a pair of labels and value for each time series of a PromQL expression.
    """

    def query(expression: str) -> list[tuple[Labels, float]]:
        answer = _ask(PROMETHEUS_PORT, "api/v1/query", query=expression)
        assert answer["status"] == "success"
        return [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]

    with wire.namespace(), closing(_endpoint(collect)) as endpoint:
        config = folder / "prometheus.yml"
        config.write_text(SCRAPE.format(address=LOCAL, port=endpoint.port))
        with _server(
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={LOCAL}:{PROMETHEUS_PORT}",
        ):  # fmt: skip
            _wait_for(lambda: query("sum_over_time(up[1m]) > 1"))
            yield query


@contextmanager
def influxdb(lines: list[str], folder: Path) -> Iterator[Callable[[str], list[list[Any]]]]:
    """Run InfluxDB, and let it ingest lines; yield query().

    query() returns the rows of an InfluxQL statement, without their times.
    """

    def query(statement: str) -> list[list[Any]]:
        (result,) = _ask(INFLUX_PORT, "query", db="telemetry", q=statement)["results"]
        assert "error" not in result
        return [row[1:] for series in result.get("series", []) for row in series["values"]]

    config = folder / "influxdb.conf"
    config.write_text(INFLUX.format(folder=folder, address=LOCAL, port=INFLUX_PORT))
    with wire.namespace():
        wire.run("ip link set lo up")
        with _server("influxd", "-config", str(config)):
            _wait_for(lambda: _ask(INFLUX_PORT, "query", "", q="CREATE DATABASE telemetry"))
            _ask(INFLUX_PORT, "write", "\n".join(lines), db="telemetry")  # status 400: wrong line
            yield query


def _endpoint(collect: Collect) -> Endpoint:
    wire.run("ip link set lo up")
    return Endpoint(LOCAL, 0, collect)


@contextmanager
def _server(*command: str) -> Iterator[None]:
    """Run a server within the `with` block."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.kill()


def _ask(port: int, path: str, body: str | None = None, **parameters: str) -> Any:
    """Send an HTTP request; return the JSON of the answer, or None if it is empty."""
    url = f"http://{LOCAL}:{port}/{path}?{urllib.parse.urlencode(parameters)}"
    data = None if body is None else body.encode()
    with urllib.request.urlopen(url, data, timeout=wire.TIMEOUT_S) as answer:
        return json.loads(answer.read() or "null")


def _wait_for(condition: Callable[[], Any]) -> None:
    """Wait until a request succeeds with a result."""
    deadline = time.monotonic() + wire.TIMEOUT_S
    while True:
        try:
            if condition():
                return
        except urllib.error.URLError:
            pass
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)
