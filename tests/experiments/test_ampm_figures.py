"""Figures of AM-PM experiments: readable, with exactly the panels that have data."""

import argparse
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from scripts import module

from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds
from experiments.shared.ampm import delay_cases, sync
from experiments.shared.ampm.delays import ESTIMATORS, DelaySample
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.results import plots

congestion, delay, loss = (module(f"ampm_{name}") for name in ("congestion", "delay", "loss"))
reordering, scale, clocks = (module(f"ampm_{name}") for name in ("reordering", "scale", "sync"))
VIRTUAL = {"time": "virtual", "seeds": 2, "blocks": 2, "rate": 1000, "block_us": 2**18}


def options(**given: object) -> argparse.Namespace:
    return argparse.Namespace(**{**VIRTUAL, **given})


def assert_readable(figure: Figure) -> None:
    """Assert that no text is cut off and no texts overlap.

    Also assert that no legend covers data or the letter of a panel.
    """
    figure.draw_without_rendering()
    panels = [axes.bbox for axes in figure.axes]
    legends = [found.get_window_extent() for axes in figure.axes if (found := axes.get_legend())]
    letters = [
        text.get_window_extent() for axes in figure.axes for text in axes.texts
        if text.get_text().startswith("(")
    ]  # fmt: skip
    labels = [label.get_window_extent() for axes in figure.axes
              for label in (axes.xaxis.label, axes.yaxis.label)]  # fmt: skip
    whole = figure.bbox.expanded(1.002, 1.002)
    for box in (*legends, *letters, *labels):
        assert Bbox.intersection(whole, box).bounds == pytest.approx(box.bounds), "cut off"
    for legend in legends:
        assert not any(legend.overlaps(box) for box in (*panels, *letters))
    words = [*letters, *labels]
    assert not any(a.overlaps(b) for n, a in enumerate(words) for b in words[:n])
    assert len(letters) == (len(panels) if len(panels) > 1 else 0)


def of_loss(error: int, losses: tuple[float, ...]) -> tuple[Figure, str]:
    chosen = options(loss=losses, method=[*loss.METHODS])
    blocks = [
        loss.BlockLoss(seed, percent, method, segment, 1, True, 1000, 50 + error, 50)
        for seed in (1, 2) for percent in losses for method in loss.METHODS
        for segment in loss.SEGMENTS
    ]  # fmt: skip
    return loss.draw(blocks, chosen), loss.caption(blocks, chosen)


def test_errors_of_loss_have_a_panel_only_where_there_are_any() -> None:
    figure, caption = of_loss(0, (0, 5))
    assert len(figure.axes) == 1
    assert figure.get_figwidth() == plots.COLUMN_IN
    assert "0 packets in all 60 blocks" in figure.get_supxlabel()
    assert "(b)" not in caption
    figure, caption = of_loss(1, (0, 5))
    assert len(figure.axes) == 2
    assert figure.get_supxlabel() == ""
    assert "(b) Error" in caption
    assert {y for line in figure.axes[1].lines for y in line.get_ydata()} == {1}


def results_of_delay(case: delay_cases.Case, error_us: float) -> delay_cases.Results:
    rows = [
        delay_cases.Row(case, 1, DelaySample(name, block, 1000 + error_us, 1000.0, 0), True)
        for name in ESTIMATORS for block in range(3)
    ]  # fmt: skip
    return delay_cases.Results(case, rows, [], [], np.linspace(1000, 3000, 50))


def of_delay(error_us: float) -> Figure:
    case = delay_cases.Case("delay 1 ms", 1000, Bounds(delay_us=1000))
    loaded, lossy = replace(case, load=0.8), replace(case, loss=0.05)
    found = [results_of_delay(c, error_us) for c in (case, loaded, lossy)]
    chosen = options(delay_ms=[1], load=0.8, loss=[5])
    assert "2 runs in virtual time" in delay.caption(found, chosen)
    return delay.draw(found, chosen)


def test_errors_of_delays_have_a_panel_only_where_there_are_any() -> None:
    exact = of_delay(0.0)
    assert len(exact.axes) == 2
    assert f"all {3 * len(ESTIMATORS)} delays without error" in exact.get_supxlabel()
    wrong = of_delay(0.5)
    assert len(wrong.axes) == 3
    assert wrong.get_supxlabel() == ""
    assert wrong.axes[0].get_ylabel() == "Max error and uncertainty (µs)"


def of_reordering(error: float, overtaken: float) -> Figure:
    settings = [reordering.Setting(held, packets, 4000, 2**18) for held, packets in reordering.SOME]
    results = {
        setting: [
            reordering.BlockResult(setting, seed, b, 7, 7, overtaken, error * setting.pulse_error)
            for seed in (1, 2) for b in range(3)
        ]
        for setting in settings
    }  # fmt: skip
    return reordering.draw(results)


def said(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts
            if not text.get_text().startswith("(")]  # fmt: skip


def test_a_point_far_from_theory_says_how_many_pulses_were_held_back() -> None:
    assert said(of_reordering(1, -3)) == []
    assert said(of_reordering(1.9, -3)) == []
    assert set(said(of_reordering(0.4, 2))) == {"0 of 6\npulses delayed"}
    assert set(said(of_reordering(2.1, -2))) == {"6 of 6\npulses delayed"}


def of_congestion() -> Figure:
    chosen = options(load=[0.6, 1.5], method="multiplexed")
    periods = [
        congestion.Period(seed, block, 0, 250, block, block, 1000.0 + block, 1000.0, 0.0, 0.0, 0.0)
        for seed in (1, 2) for block in range(8)
    ]  # fmt: skip
    return congestion.draw(periods, chosen, Schedule(2**18))


def of_sync() -> Figure:
    arrived = dict.fromkeys(sync.NEIGHBOURS, 500)
    results = [
        sync.BlockResult(sync.Setting(error, 2**20, 1), decoder, block, 500, 500, 490 + block,
                         arrived, 1, 1, 0.0)
        for error in sync.ERRORS for decoder in sync.DECODERS for block in range(2)
    ]  # fmt: skip
    return clocks.draw(results, options())


def of_scale() -> Figure:
    accounting = PacketAccounting(1, 1, 1, 1, {}, {}, 0, 0, 0, {}, 0, [])
    found = [
        scale.Measurement(
            switches, flows, seed, 100, 1, 10, 0, [], "", 0.1,
            {what: scale.Load(0.001 * flows, 0.0) for what in scale.READINGS}, accounting,
        )
        for switches in (20, 100, 1000) for flows in (10, 1000) for seed in (1, 2)
    ]  # fmt: skip
    return scale.draw(found, options(switches=[20, 100, 1000]))


@pytest.mark.parametrize("figure", [
    lambda: of_loss(0, (0, 0.1, 1, 5, 10))[0], lambda: of_loss(1, (0, 0.1, 1, 5, 10))[0],
    lambda: of_delay(0), lambda: of_delay(0.5), lambda: of_reordering(1, 1),
    lambda: of_reordering(0.3, 1), of_congestion, of_sync, of_scale,
])  # fmt: skip
def test_figures_can_be_read(figure: object) -> None:
    assert callable(figure)
    assert_readable(figure())


def test_costs_of_all_sizes_fill_their_panel() -> None:
    """Costs of 0.01 to 1 s fill a panel with a logarithmic axis.

    The limits for a linear axis would begin below 0.
    """
    low, high = of_scale().axes[0].get_ylim()
    assert 0.001 < low < 0.01
    assert 1 < high < 10
