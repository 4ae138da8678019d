"""Missing pulses are detected. Packets outside the window of the pulse cause no error."""

from pathlib import Path

import numpy as np
import pytest
from scripts import failed_checks, faulty_program, module, run

from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Method

LENGTH_US = 1024
NEVER = -1


@pytest.mark.parametrize(
    ("method", "calls_us", "left", "is_pulse", "wrong"),
    [
        (Method.PULSE, ([300, 400], [300, 400]), [1, 1], [1, 0], 0),
        (Method.PULSE, ([300, 400], [300, 400]), [1, 1], [0, 0], 1),
        (Method.PULSE, ([300, 400], [300, 400]), [1, 1], [1, 1], 1),
        (Method.PULSE, ([100, 800], [100, 800]), [1, 1], [0, 0], 0),  # no packet in the window
        # no packet is certainly in the window
        (Method.PULSE, ([250, 760], [260, 770]), [1, 1], [0, 0], 0),
        (Method.PULSE, ([250, 400], [260, 400]), [0, 1], [0, 0], 0),  # the first packet is lost
        (Method.STEP, ([300, 400], [300, 400]), [1, 1], [0, 0], 0),
        (Method.MULTIPLEXED, ([400, 545], [400, 545]), [1, 1], [0, 0], 0),
        (Method.MULTIPLEXED, ([400, 520], [400, 520]), [1, 1], [0, 0], 1),
    ],
)  # fmt: skip
def test_blocks_without_the_one_pulse(
    method: Method, calls_us: tuple[list[int], list[int]], left: list[int], is_pulse: list[int],
    wrong: int,
) -> None:  # fmt: skip
    sent_ns, handed_ns = (1000 * (5 * LENGTH_US + np.array(us)) for us in calls_us)
    left_ns = np.where(np.array(left) == 1, handed_ns, NEVER)
    truth = module("experiments.shared.ampm.truth").Truth(
        ("s1",), np.array([5, 5]), np.array(is_pulse, np.bool_),
        {Point("s1", "arrivals"): handed_ns, Point("s1", "departures"): left_ns},
        sent_ns, handed_ns, left_ns,
    )  # fmt: skip

    class Exact:  # the only switch of the network
        clock_error_us = 0.0

        def switch(self, name: str) -> "Exact":
            return self

    found = module("experiments.shared.ampm.pulses").blocks_without_one(
        Exact(), truth, method, Schedule(LENGTH_US), range(5, 6)
    )
    assert found == wrong


@pytest.mark.parametrize("name", ["ampm_loss", "ampm_congestion"])
def test_a_switch_that_forgets_every_fourth_pulse_is_found_out(name: str, tmp_path: Path) -> None:
    choice = "latched != watch.block_us + 1"
    faulty = f"({choice} && ((watch.block_us >> watch.block_shift) & 3) != 0)"
    program = faulty_program(tmp_path, "pulse.p4", choice, faulty)
    out = str(tmp_path / "out")
    done = run(name, "--time", "virtual", "--quick", "--program", program, "--out", out)
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(
        "blocks without exactly one pulse" in check for check in failed_checks(tmp_path / "out")
    )
