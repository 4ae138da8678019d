"""RoCE on bmv2: drops make a run inconclusive; captures give bounds of the times in records."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scripts import module, run, samples

from collectors.roce.region import HOP
from controllers.readout import CLOCK_BITS
from experiments.shared.roce.reporting import reject_bmv2_drops
from telemark.backends.real.targets.bmv2 import PROGRAM
from telemark.errors import InvalidRunError

COUNTS = {"sent": 100, "acked": 6, "naked": 1, "not ready": 0, "refused": 0, "damaged": 0,
          "resumed": 1, "probed": 2}  # fmt: skip


def net_with(there: tuple[int, int] | None, beyond: tuple[int, int] | None) -> Any:
    """Return a network that has ended, with its counts of frames into and out of bmv2."""
    counters = {
        name: {} if inner is None else {"inner": {"into": inner[0], "out": inner[1]}}
        for name, inner in (("s1", there), ("s2", beyond))
    }
    topo = SimpleNamespace(switches=lambda: ["s1", "s2"])
    return SimpleNamespace(name="net", counters=counters, topo=topo)


@pytest.mark.parametrize(
    ("there", "beyond"), [((107, 202), (109, 109)), (None, None)], ids=["bmv2", "minip4"]
)
def test_frames_that_programs_counted_were_not_dropped(there: Any, beyond: Any) -> None:
    reject_bmv2_drops(net_with(there, beyond), COUNTS)


@pytest.mark.parametrize(
    ("there", "beyond", "message"),
    [
        ((110, 202), (109, 109), "net: bmv2 dropped 3 frames before s1's program"),
        ((107, 201), (108, 108), "net: bmv2 dropped 1 frames behind s1's program"),
        ((107, 202), (109, 105), "net: bmv2 dropped 4 frames in the other switch"),
    ],
)
def test_dropped_frames_make_a_run_inconclusive(there: Any, beyond: Any, message: str) -> None:
    with pytest.raises(InvalidRunError, match=message):
        reject_bmv2_drops(net_with(there, beyond), COUNTS)


def hops(*rows: tuple[int, int, int]) -> Any:
    """Return hops with ingress time, egress time, and packets waiting."""
    found = np.zeros(len(rows), HOP)
    for hop, (ingress_us, egress_us, waiting) in zip(found, rows, strict=True):
        hop["ingress_us"], hop["egress_us"] = ingress_us, egress_us
        hop["latency_us"], hop["waiting"][2] = max(egress_us - ingress_us, 0), waiting
    return found


def test_hops_must_be_possible_between_the_captures() -> None:
    collect = module("roce_collect")
    into_ns, out_ns = np.array([1_000_000, 1_200_000]), np.array([1_500_000, 1_800_000])
    # bmv2's clock began 900 us ago, and the clock has wrapped
    inside = collect.Inside(into_ns, out_ns, offset_us=100 - (1 << CLOCK_BITS), error_us=10)
    assert inside.misses(hops((900, 1400, 0), (1100, 1700, 1))) == 0
    # Each time is within the error, but the latencies are longer than the times inside.
    assert inside.misses(hops((891, 1409, 0), (1091, 1709, 0))) == 2
    for wrong in ((1089, 1500, 0), (1200, 1711, 0), (1600, 1500, 0), (1100, 1700, 2)):
        assert inside.misses(hops((900, 1400, 0), wrong)) == 1
    # no packet was ahead of the first one
    assert inside.misses(hops((900, 1400, 1), (1100, 1700, 0))) == 1


def test_segments_that_bmv2_dropped_make_a_run_inconclusive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collect = module("roce_collect")
    times = {"h1": np.arange(3), "h3": np.arange(2)}
    net = SimpleNamespace(name="v2", capture=lambda _switch, host, _what, *, inner: host)
    monkeypatch.setattr(collect.pcap, "read", lambda host: SimpleNamespace(time_ns=times[host]))
    with pytest.raises(InvalidRunError, match="v2: bmv2 received 3 of 3 segments, and sent 2"):
        collect.read_inside(net, 3, 0, 1.0)
    times["h3"] = np.arange(3)
    assert collect.read_inside(net, 3, 7, 1.0).offset_us == 7


@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not on PATH")
@pytest.mark.parametrize(
    ("name", "options", "rows"),
    [
        ("roce_headers", ("--quick",), 188),
        ("roce_collect", ("--quick", "--packets", "60"), 3),
        ("roce_loss", ("--rate", "400"), 2),
    ],
)
def test_experiments_pass_on_bmv2(
    name: str, options: tuple[str, ...], rows: int, tmp_path: Path
) -> None:
    done = run(name, *options, "--target", "bmv2", "--out", str(tmp_path))
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(samples(tmp_path)) == rows
