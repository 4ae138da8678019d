"""InfluxDB line protocol."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import Metric

_ESCAPES = str.maketrans({character: f"\\{character}" for character in ", ="})


def lines(metrics: Iterable[Metric], time_ns: int) -> Iterator[str]:
    """Return a line per sample. It has the sample's name, its labels, and a field `value`.

    The lines have no line breaks. `time_ns` is the Unix time of all samples.
    """
    for metric in metrics:
        for sample in metric.samples:
            yield line(sample.name, sample.labels, {"value": f"{float(sample.value)!r}"}, time_ns)


def line(
    measurement: str, tags: Mapping[str, object], fields: Mapping[str, object], time_ns: int
) -> str:
    """Format a line. Values of fields are literals: an integer ends with `i`."""
    escaped = (f"{name}={str(value).translate(_ESCAPES)}" for name, value in tags.items())
    head = ",".join([measurement, *escaped])
    body = ",".join(f"{name}={value}" for name, value in fields.items())
    return f"{head} {body} {time_ns}"
