"""Export of metrics, which collectors provide as metric families of prometheus_client."""
