"""Metrics that collectors publish during a run: Prometheus endpoint, InfluxDB lines."""
