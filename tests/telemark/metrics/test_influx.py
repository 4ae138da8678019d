"""InfluxDB line protocol: values and labels that InfluxDB rejects."""

from prometheus_client.core import GaugeMetricFamily

from telemark.metrics.influx import line, lines


def test_values_that_influxdb_rejects_have_no_line() -> None:
    gauge = GaugeMetricFamily("delay", "meaning", labels=["flow"])
    for flow, value in (("1", float("nan")), ("2", float("inf")), ("3", 1.5)):
        gauge.add_metric([flow], value)
    assert [*lines([gauge], 7)] == ["delay,flow=3 value=1.5 7"]


def test_empty_tags_are_left_out() -> None:
    assert line("loss", {"from": "", "to": "s2"}, {"value": "1i"}, 7) == "loss,to=s2 value=1i 7"


def test_a_tag_has_no_line_break() -> None:
    assert line("loss", {"to": "s 2,\n"}, {"value": "1i"}, 7) == "loss,to=s\\ 2\\,\\  value=1i 7"
