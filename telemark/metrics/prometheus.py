"""Metrics in Prometheus' text format, and the HTTP endpoint from which Prometheus reads them.

The names of metrics follow Prometheus' conventions: base units, `_total` for counters, `_sum` and
`_count` for summaries.
"""

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from telemark.errors import TestbedError

Collect = Callable[[], Iterable[Metric]]


class Endpoint:
    """HTTP server that serves the current metrics at http://ADDRESS:PORT/metrics."""

    def __init__(self, address: str, port: int, collect: Collect) -> None:
        """Start the server. Raises TestbedError if it cannot listen at this address and port.

        The server calls `collect` in another thread.
        """
        try:
            self._server, _ = start_http_server(port, address, _registry(collect))
        except OSError as error:
            raise TestbedError(
                f"TCP port {port} at {address} for Prometheus: {error.strerror}"
            ) from None

    @property
    def port(self) -> int:
        """TCP port of the server.

        If port 0 was requested, this is the port that the kernel chose.
        """
        return self._server.server_port

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def text(metrics: Iterable[Metric]) -> str:
    """Return metrics in the text exposition format, version 0.0.4."""
    return generate_latest(_registry(lambda: metrics)).decode()


def counter(
    name: str, meaning: str, labels: Iterable[str], samples: Iterable[tuple[Sequence[str], float]]
) -> CounterMetricFamily:
    """Return a counter with a sample for each list of label values."""
    family = CounterMetricFamily(name, meaning, labels=list(labels))
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _registry(collect: Collect) -> CollectorRegistry:
    """Return a registry without the default metrics of the process and the platform."""
    registry = CollectorRegistry()
    registry.register(_Metrics(collect))
    return registry


class _Metrics(Collector):
    """Metrics of a registry, collected at each scrape."""

    def __init__(self, collect: Collect) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()
