"""benchmarks/int_collector.py sends reports that the collector takes as they are meant."""

from pathlib import Path

import numpy as np
import pytest

from collectors.int.decoder import Decoder, Encoding
from minip4.simulator.shared import ARRIVAL
from testbed.arrivals import Datagrams


def test_its_reports_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import _int_reports as made  # noqa: PLC0415

    payloads = made.datagrams(made.AT_ONCE, 3)
    records = np.zeros(3, ARRIVAL)
    records["length"] = [len(payload) for payload in payloads]
    assert records["length"].max() <= 1472
    decoder = Decoder(Encoding(port=made.INT_PORT))
    [part] = decoder.decode(Datagrams((records, b"".join(payloads))))
    assert not decoder.troubles
    assert part.groups["sequence"].tolist() == [0, 1, 2]
    assert part.groups["reports"].tolist() == [made.AT_ONCE] * 3
    assert (part.reports["hops"] == made.HOPS).all()
    assert part.hops["node"][: made.HOPS].tolist() == [*range(1, made.HOPS + 1)]
