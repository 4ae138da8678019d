"""InfluxDB line protocol."""

import math
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import Metric

# InfluxDB cannot escape a line break
_ESCAPES = str.maketrans({",": "\\,", " ": "\\ ", "=": "\\=", "\n": "\\ "})


def lines(metrics: Iterable[Metric], time_ns: int) -> Iterator[str]:
    """Return a line per sample. It has the sample's name, its labels, and a field `value`.

    The lines have no line breaks. `time_ns` is the Unix time of all samples. InfluxDB rejects
    values that are infinite or not a number, so they have no line.
    """
    for metric in metrics:
        for sample in metric.samples:
            if math.isfinite(sample.value):
                value = {"value": f"{float(sample.value)!r}"}
                yield line(sample.name, sample.labels, value, time_ns)


def line(
    measurement: str, tags: Mapping[str, object], fields: Mapping[str, object], time_ns: int
) -> str:
    """Format a line. Values of fields are literals: an integer ends with `i`.

    InfluxDB rejects empty tags, so they are left out.
    """
    texts = {name: str(value).translate(_ESCAPES) for name, value in tags.items()}
    escaped = (f"{name}={text}" for name, text in texts.items() if text)
    head = ",".join([measurement, *escaped])
    body = ",".join(f"{name}={value}" for name, value in fields.items())
    return f"{head} {body} {time_ns}"
